"""Vectors as int8 with a scale for each, and what that loses.

A vector's levels and scale follow from the vector alone, so that they are the same in a shard of any texts,
in the store, and in sets that grow. Beside them lie the cosine and the squared error of what is read for it.
Their sums over a shard lie in its Parquet metadata, as JSON: int8 -> {VIEW: {"cosines": ...}}.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pipeline.core import json_text

KEY = b"int8"
MOST = 127
"""The largest level; -128 is not used, so that a value and its negative are kept alike."""
ROWS_AT_A_TIME = 2048

Half = NDArray[np.float16]
Levels = NDArray[np.int8]
Numbers = NDArray[np.float32]
Lost = NDArray[np.float64]


@dataclass(frozen=True)
class Packed:
    """Vectors (n, d) as int8."""

    levels: Levels
    """(n, d)."""
    scale: Numbers
    """(n,): 1/127 of a vector's largest magnitude; 1 of a vector of zeros."""
    cosine: Numbers
    """(n,), between a vector and what is read for it."""
    error: Numbers
    """(n,), the sum of the squares of their differences."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of the vectors."""
        rows, dim = self.levels.shape
        return rows, dim

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, rows: slice | NDArray[np.integer] | NDArray[np.bool_]) -> "Packed":
        return Packed(self.levels[rows], self.scale[rows], self.cosine[rows], self.error[rows])

    def put(self, rows: NDArray[np.integer], part: "Packed") -> None:
        """Write other vectors into some rows."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(part, field.name)

    def restored(self) -> Half:
        """What is read for the vectors, (n, d)."""
        return dequantise(self.levels, self.scale)


@dataclass(frozen=True)
class Sums:
    """What some rows lost, in terms that add up over shards."""

    rows: int
    cosines: float
    """Sum of the cosines between the vectors and what is read for them."""
    least_cosine: float
    squares: float
    """Of all values that are read."""
    errors: float
    """Squares of the differences."""


def empty(rows: int, dim: int) -> Packed:
    """Vectors (rows, dim) to be put into."""
    numbers = np.empty((3, rows), np.float32)
    return Packed(np.empty((rows, dim), np.int8), *numbers)


def quantise(vectors: Half) -> tuple[Levels, Numbers]:
    """Levels (n, d) of vectors (n, d) and the scales (n,): 1/127 of a vector's largest magnitude.

    A value is off by half a scale at most. A vector of zeros has scale 1.
    """
    wide = vectors.astype(np.float32)
    scale = np.abs(wide).max(axis=1, initial=0) / np.float32(MOST)
    scale[scale == 0] = 1
    return np.rint(wide / scale[:, None]).astype(np.int8), scale


def dequantise(levels: Levels, scale: Numbers) -> Half:
    """Vectors (n, d) of levels (n, d) and their scales (n,)."""
    with np.errstate(over="ignore"):  # whoever reads a shard checks that its values are finite
        return (levels * scale[:, None]).astype(np.float16)


def pack(vectors: Half) -> Packed:
    """Vectors (n, d) as int8, and what that loses of each."""
    found = empty(*vectors.shape)
    for start in range(0, len(vectors), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        found.levels[rows], found.scale[rows] = quantise(vectors[rows])
        restored = dequantise(found.levels[rows], found.scale[rows])
        found.cosine[rows], found.error[rows] = lost(vectors[rows], restored)
    return found


def lost(vectors: Half, restored: Half) -> tuple[Lost, Lost]:
    """Cosines and squared errors (n,) where `restored` (n, d) is read for `vectors` (n, d)."""
    one, other = vectors.astype(np.float64), restored.astype(np.float64)
    squares, products = (one * one).sum(axis=1), (one * other).sum(axis=1)
    # A zero vector loses nothing; one that becomes zero loses its direction.
    cosines = np.where(squares > 0, 0.0, 1.0)
    lengths = np.sqrt(squares * (other * other).sum(axis=1))
    np.divide(products, lengths, out=cosines, where=lengths > 0)
    return np.minimum(cosines, 1), ((one - other) ** 2).sum(axis=1)


def measure(packed: Packed) -> Sums:
    """What vectors lost."""
    squares = np.empty(len(packed))
    for start in range(0, len(packed), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        squares[rows] = (packed[rows].restored().astype(np.float64) ** 2).sum(axis=1)
    return Sums(
        len(packed),
        float(packed.cosine.sum(dtype=np.float64)),
        float(packed.cosine.min(initial=1)),
        float(squares.sum()),
        float(packed.error.sum(dtype=np.float64)),
    )


def loss(parts: Sequence[Sums]) -> dict[str, float]:
    """Mean and least cosine, and root mean squared error relative to that of the values, over all parts."""
    rows, squares = sum(part.rows for part in parts), math.fsum(part.squares for part in parts)
    return {
        "mean_cosine": math.fsum(part.cosines for part in parts) / rows if rows else 1.0,
        "least_cosine": min((part.least_cosine for part in parts), default=1.0),
        "relative_rmse": math.sqrt(math.fsum(part.errors for part in parts) / squares) if squares else 0.0,
    }


def columns(view: str) -> dict[str, str]:
    """The columns of the numbers beside a view's levels, by their names in `Packed`."""
    return {field.name: f"{view}_{field.name}" for field in fields(Packed) if field.name != "levels"}


def metadata(views: Mapping[str, Packed]) -> dict[bytes, bytes]:
    """What a shard of these views lost."""
    said = {view: asdict(measure(packed)) for view, packed in views.items()}
    return {KEY: json.dumps(said, sort_keys=True).encode()}


def sums_of(metadata: Mapping[bytes, bytes], view: str) -> Sums:
    """What a view of a shard lost, from the shard's metadata."""
    said = json_text.parse(metadata[KEY])[view]
    return Sums(**{field.name: said[field.name] for field in fields(Sums)})
