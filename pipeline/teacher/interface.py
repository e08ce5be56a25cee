"""What the stages ask of a teacher of any kind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from pipeline.teacher.shared.cut import Cut


class Teacher(Protocol):
    """A model that turns texts into vectors.

    A teacher's module has `load(params, runtime) -> Teacher`, and `reading(params) -> Reading`, which needs
    no weights.
    """

    dims: dict[str, int]
    """Dimension of each view it can give."""
    recipe: dict[str, Any]
    """Everything that decides its vectors: model, weights, prompt, lengths, precision."""

    module: nn.Module | None
    """Its parameters, where it has any."""
    folder: Path | None
    """Its files, where it has any."""

    def encode(self, texts: Sequence[str], views: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors (len(texts), dims[view]) of each view, in the order of the texts."""
        ...

    def cut(self, texts: Sequence[str]) -> Cut | None:
        """How much of the texts `encode` does not read; None where that is not known."""
        ...

    def save_parts(self, folder: Path) -> NDArray[np.float32]:
        """Save tokenizer, config and weights as a transformers folder; return vocabulary vectors (V, d)."""
        ...

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """The `sentence` vectors by the call that users make, whose speed is the footprint's reference."""
        ...
