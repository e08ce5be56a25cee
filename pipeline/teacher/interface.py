"""What the stages ask of a teacher of any kind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from pipeline.params.base import Role
from pipeline.params.teacher import Similarity
from pipeline.teacher.shared.local.cut import Cut
from pipeline.teacher.shared.local.vocabulary import Vocabulary


class Teacher(Protocol):
    """A model that turns texts into vectors.

    A teacher's module has `load(params, runtime) -> Teacher`. Without weights, and asking nobody, go
    `look(params) -> TeacherFacts` and `reading(params) -> Reading`.
    """

    dims: dict[str, int]
    """Dimension of each view it can give."""
    recipes: dict[str, dict[str, Any]]
    """By role, everything that decides its vectors: model, weights, lengths, precision and `prompt`, which
    alone may differ from role to role."""

    similarity: Similarity
    """How its `sentence` vectors are compared."""
    module: nn.Module | None
    """Its parameters, where it has any."""
    folders: tuple[Path, ...]
    """Where its files lie, of one that has any."""

    def encode(
        self, texts: Sequence[str], views: Sequence[str], role: Role = "text"
    ) -> dict[str, NDArray[np.float32]]:
        """Vectors (len(texts), dims[view]) of each view, of texts in one role, in their order."""
        ...

    def cut(self, texts: Sequence[str], role: Role = "text") -> Cut | None:
        """How much of the texts in a role `encode` does not read; None where that is not known."""
        ...

    def save_parts(self, folder: Path) -> Vocabulary:
        """Save tokenizer, config and weights as a transformers folder; return what encodes single tokens."""
        ...

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """The `sentence` vectors by the call that users make, whose speed is the footprint's reference."""
        ...
