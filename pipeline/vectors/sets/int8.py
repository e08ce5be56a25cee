"""Vectors as int8 with a scale for each dimension, and what that loses.

Each shard has scales of its own, so that it is published without a look at the others. They lie with the sums
of its loss in its Parquet metadata, as JSON: int8 -> {VIEW: {"scale": [...], "cosines": ...}}.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.core import json_text

KEY = b"int8"
MOST = 127
"""The largest level; -128 is not used, so that a value and its negative are kept alike."""
ROWS_AT_A_TIME = 2048

Half = NDArray[np.float16]
Levels = NDArray[np.int8]
Scale = NDArray[np.float32]


@dataclass(frozen=True)
class Sums:
    """What some rows lost, in terms that add up over shards."""

    rows: int
    cosines: float
    """Sum of the cosines between the vectors and what is read for them."""
    least_cosine: float
    squares: float
    """Of all values."""
    errors: float
    """Squares of the differences."""


def quantise(vectors: Half) -> tuple[Levels, Scale]:
    """Levels (n, d) of vectors (n, d) and the scale (d,): 1/127 of a dimension's largest magnitude.

    A value is off by half a scale at most. A dimension of zeros has scale 1.
    """
    wide = vectors.astype(np.float32)
    scale = np.abs(wide).max(axis=0, initial=0) / np.float32(MOST)
    scale[scale == 0] = 1
    return np.rint(wide / scale).astype(np.int8), scale


def dequantise(levels: Levels, scale: Scale) -> Half:
    """Vectors (n, d) of levels (n, d) and their scale (d,)."""
    with np.errstate(over="ignore"):  # whoever reads a shard checks that its values are finite
        return (levels * scale).astype(np.float16)


def measure(vectors: Half, restored: Half) -> Sums:
    """What is lost where `restored` (n, d) is read for `vectors` (n, d)."""
    squares, restored_squares, products, errors = np.empty((4, len(vectors)))
    for start in range(0, len(vectors), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        one, other = vectors[rows].astype(np.float64), restored[rows].astype(np.float64)
        squares[rows] = (one * one).sum(axis=1)
        restored_squares[rows] = (other * other).sum(axis=1)
        products[rows] = (one * other).sum(axis=1)
        errors[rows] = ((one - other) ** 2).sum(axis=1)
    # A zero vector loses nothing; one that becomes zero loses its direction.
    cosines = np.where(squares > 0, 0.0, 1.0)
    lengths = np.sqrt(squares * restored_squares)
    np.divide(products, lengths, out=cosines, where=lengths > 0)
    cosines = np.minimum(cosines, 1)
    return Sums(
        len(vectors),
        float(cosines.sum()),
        float(cosines.min(initial=1)),
        float(squares.sum()),
        float(errors.sum()),
    )


def loss(parts: Sequence[Sums]) -> dict[str, float]:
    """Mean and least cosine, and root mean squared error relative to that of the values, over all parts."""
    rows, squares = sum(part.rows for part in parts), math.fsum(part.squares for part in parts)
    return {
        "mean_cosine": math.fsum(part.cosines for part in parts) / rows if rows else 1.0,
        "least_cosine": min((part.least_cosine for part in parts), default=1.0),
        "relative_rmse": math.sqrt(math.fsum(part.errors for part in parts) / squares) if squares else 0.0,
    }


def pack(views: Mapping[str, Half]) -> tuple[dict[str, Levels], dict[bytes, bytes]]:
    """Levels (n, d) of every view, and the metadata that go with them."""
    columns, said = {}, {}
    for view, vectors in views.items():
        columns[view], scale = quantise(vectors)
        sums = measure(vectors, dequantise(columns[view], scale))
        # A float32 is exact as a float of Python, and that as JSON.
        said[view] = {"scale": scale.tolist(), **asdict(sums)}
    return columns, {KEY: json.dumps(said, sort_keys=True).encode()}


def scale_of(metadata: Mapping[bytes, bytes] | None, view: str, dim: int) -> Scale:
    """The scale (dim,) of a view, from a shard's metadata.

    Raises:
        pa.ArrowInvalid: it is missing or damaged.
    """
    try:
        found = np.array(json_text.parse((metadata or {})[KEY])[view]["scale"], np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise pa.ArrowInvalid(f"its metadata hold no scale of the int8 view {view!r}") from error
    with np.errstate(over="ignore"):
        scale = found.astype(np.float32)
    if scale.shape != (dim,) or not (np.isfinite(scale) & (scale > 0)).all():
        raise pa.ArrowInvalid(f"the scale of the int8 view {view!r} is not {dim} positive numbers")
    return scale


def sums_of(metadata: Mapping[bytes, bytes], view: str) -> Sums:
    """What a view of a shard lost, from the shard's metadata."""
    said = json_text.parse(metadata[KEY])[view]
    return Sums(**{field.name: said[field.name] for field in fields(Sums)})
