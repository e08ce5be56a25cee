"""The vectors of an answer of a `/v1/embeddings` endpoint."""

import base64
import binascii

import numpy as np
from numpy.typing import NDArray

MOST_DIMENSIONS = 16_384
"""More than any embedding model has."""
BYTES_A_NUMBER = 48
"""The most that JSON takes for one: 24 characters, a comma, and a line of its own."""
BYTES_AROUND = 1 << 20
"""What an answer holds beside numbers, with room to spare."""


class Malformed(Exception):  # noqa: N818 - becomes a UserError that names the server
    """An answer that is none."""


def most_bytes(texts: int, dim: int | None) -> int:
    """How large an answer with a vector for each of so many texts can be; None: of any dimension."""
    return BYTES_AROUND + texts * (dim or MOST_DIMENSIONS) * BYTES_A_NUMBER


def read_vectors(answer: object, count: int) -> NDArray[np.float32]:
    """The vectors (count, d) of an answer, by their `index`, or as they stand where none has one.

    Raises:
        Malformed: saying what is wrong.
    """
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise Malformed("the answer has no list `data` of objects")
    if len(data) != count:
        raise Malformed(f"{len(data)} vectors for {count} texts")
    places = [item.get("index") for item in data]
    if all(place is None for place in places):
        places = list(range(count))
    if not all(isinstance(place, int) for place in places) or sorted(places) != list(range(count)):
        raise Malformed(f"`index` should run from 0 to {count - 1}, not {places[:10]}")
    rows = [_numbers(data[row].get("embedding")) for row in np.argsort(places)]
    if len(dims := {len(row) for row in rows}) > 1:
        raise Malformed(f"vectors of {sorted(dims)} dimensions in one answer")
    with np.errstate(over="ignore"):
        vectors = np.array(rows, np.float64).astype(np.float32)
    if not np.isfinite(vectors).all():
        raise Malformed(f"NaN or infinite values in {(~np.isfinite(vectors)).any(axis=1).sum()} vectors")
    return vectors


def _numbers(embedding: object) -> NDArray[np.number]:
    """One vector (d,): a flat list of numbers, or base64 of little-endian float32, as OpenAI writes them."""
    try:
        if isinstance(embedding, str):
            found = np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
        else:
            found = np.array(embedding if isinstance(embedding, list) else [])
    except (binascii.Error, ValueError):  # no base64, or lists of several lengths
        found = np.empty(0)
    # Texts, truth values, objects and integers without bounds have other types.
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iuf":
        raise Malformed("`embedding` is no list of numbers")
    return found
