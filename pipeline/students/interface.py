"""What the stages ask of a student of any kind."""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.training.tokens import Tokens


class Student(Protocol):
    """A model in training.

    A kind's module has `build(params, teacher_folder) -> Student`, which starts from the teacher's parts, and
    `load(params, folder) -> Student`, which goes on from a saved one.
    """

    module: nn.Module
    """Everything that is trained."""

    def tokenise(self, texts: list[str]) -> Tokens:
        """The texts as this student reads them."""
        ...

    def fit_projection(self, tokens: Tokens, targets: NDArray[np.float32]) -> None:
        """Solve what can be solved in closed form, so that the vectors come close to `targets` (n, dim)."""
        ...

    def vectors(self, tokens: Tokens) -> Tensor:
        """Sentence vectors (n, dim), differentiable."""
        ...

    def regularise(self, tokens: Tokens) -> None:
        """What is done once training is over; `tokens` are the training texts."""
        ...

    def save(self, folder: Path) -> None:
        """Save as a folder that SentenceTransformer(folder) loads without this project."""
        ...
