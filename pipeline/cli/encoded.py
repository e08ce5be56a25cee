"""Texts to vectors in chunks of about a second, so that output and progress come that often."""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.cli.encoders import Encode
from pipeline.core.errors import UserError

CHUNK = 16_384
"""Most texts whose vectors are in memory at a time; within a chunk they are sorted by length."""
FIRST = 4096
"""Letters of the first chunk: few, for nobody knows yet how long they take."""
SECONDS = 1.0
"""How long a chunk takes at most, and a half of it at least, where there are texts enough."""
OFTEN = SECONDS / 2
"""Between two lines of progress at least, so that each chunk gets one and no second passes without."""


def encoded(
    encode: Encode, blocks: Iterable[Sequence[str]], folder: Path
) -> Iterator[tuple[Sequence[str], NDArray[np.float32]]]:
    """Texts with their vectors (n, dim), chunk by chunk, in order.

    A chunk never holds texts of two blocks.

    Raises:
        UserError: a vector is not finite; the message names the student's `folder`.
    """
    letters = FIRST
    for block in blocks:
        start = 0
        while start < len(block):
            chunk, size = _chunk(block, start, letters)
            start += len(chunk)
            began = time.monotonic()
            vectors = encode(chunk)
            letters = _letters(letters, size, time.monotonic() - began)
            if not np.isfinite(vectors).all():
                raise UserError(f"{folder} gives values that are not finite; distil it again")
            yield chunk, np.asarray(vectors, np.float32)


def _chunk(texts: Sequence[str], start: int, letters: int) -> tuple[Sequence[str], int]:
    """The texts from `start` on that have so many letters together, at least one; and their letters."""
    end, size = start, 0
    while end < min(start + CHUNK, len(texts)) and (end == start or size < letters):
        size += len(texts[end]) + 1
        end += 1
    return texts[start:end], size


def _letters(letters: int, size: int, seconds: float) -> int:
    """Letters of the next chunk: twice as many after a quick one, fewer after a slow one."""
    if seconds > SECONDS:
        return max(int(size * SECONDS / seconds), 1)
    return 2 * letters if size >= letters and seconds < SECONDS / 2 else letters
