"""The tokens of a teacher, each of which can be encoded on its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Vocabulary:
    """What a teacher leaves to be encoded by its token ids."""

    recipe: dict[str, Any]
    """Everything that decides the vectors, as a teacher's recipe says it of texts."""
    size: int
    """How many token ids there are, from 0."""
    encode: Callable[[NDArray[np.int64]], NDArray[np.float32]]
    """Token ids (n,) to vectors (n, d)."""
