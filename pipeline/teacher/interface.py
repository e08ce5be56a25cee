"""What the stages ask of a teacher of any kind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from pipeline.params.teacher import Similarity
from pipeline.teacher.shared.vocabulary import Vocabulary


class Teacher(Protocol):
    """A model that turns texts into vectors.

    A teacher's module has `load(params, runtime) -> Teacher`.
    """

    dims: dict[str, int]
    """Dimension of each view it can give."""
    recipe: dict[str, Any]
    """Everything that decides its vectors: model, weights, prompt, lengths, precision."""

    similarity: Similarity
    """How its `sentence` vectors are compared."""
    module: nn.Module | None
    """Its parameters, where it has any."""
    folder: Path | None
    """Its files, where it has any."""

    def encode(self, texts: Sequence[str], views: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors (len(texts), dims[view]) of each view, in the order of the texts."""
        ...

    def save_parts(self, folder: Path) -> Vocabulary:
        """Save tokenizer, config and weights as a transformers folder; return what encodes single tokens."""
        ...

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """The `sentence` vectors by the call that users make, whose speed is the footprint's reference."""
        ...
