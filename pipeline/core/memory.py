"""`runtime.memory`: how much a stage may hold. It decides how much is looked at at a time, and no result."""

import mmap
import os
from collections.abc import Iterator
from ctypes import CDLL
from typing import TYPE_CHECKING

from pipeline.core.progress import say

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT = 1.5
"""Gigabytes. The sizes that other modules name are for this bound; a larger one leaves them."""
LEAST = 0.5
"""What Python and the libraries of a stage take by themselves, about."""
HALVINGS = 2
"""How often blocks are halved at most: more of them take more time, and what lies beside them stays."""
IN_TRAINING = 5
"""Copies of a model's weights: they, their gradients, two moments, and the best so far."""
GIGABYTE = 1e9

_bound = DEFAULT
_said: set[str] = set()


def keep_to(gigabytes: float) -> None:
    """Set the bound of this process."""
    global _bound
    _bound = gigabytes


def bound() -> float:
    """The bound of this process in gigabytes."""
    return _bound


def at_a_time(most: int) -> int:
    """How much to take at a time, where `most` is for the default bound: a half, a quarter, ... of it."""
    for halved in range(HALVINGS):
        if (_bound - LEAST) * 2**halved >= DEFAULT - LEAST:
            return max(1, most >> halved)
    return max(1, most >> HALVINGS)


def give_back() -> None:
    """Give the system back what was freed; what lies between pieces in use, glibc keeps otherwise."""
    trim = getattr(CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim:
        trim(0)


def in_parts(array: "NDArray", rows: int) -> "Iterator[NDArray]":
    """Slices of `rows` rows, in order; a mapped file's pages are let go after each."""
    for start in range(0, len(array), rows):
        yield array[start : start + rows]
        let_go(array)


def let_go(array: "NDArray") -> None:
    """Of an array that is mapped from a file to be read, hold no page; the next touch maps its own again.

    The system maps half a megabyte around a row that is touched: a thousand rows are half a gigabyte.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def say_if_held(stage: str, peak: float) -> None:
    """Say where a stage has held more bytes than the bound."""
    if (held := peak / GIGABYTE) > _bound:
        say(
            f"{stage} held {held:.2f} GB, more than runtime.memory, {_bound:g} GB; pages of mapped files, "
            "which the system takes back as it needs them, are counted"
        )


def say_of_training(name: str, weights: int) -> None:
    """As `say_if_more` of the training of a model whose weights are so many bytes."""
    say_if_more(f"training {name} takes", IN_TRAINING * weights, "a smaller student takes less")


def say_if_more(what: str, size: float, fix: str, gigabytes: float | None = None) -> None:
    """Say, once, that something that has to be in memory as a whole takes more than the bound.

    Args:
        what: it, with its verb: `the index takes`.
        size: bytes, beside what every stage takes.
        fix: what to do about it.
        gigabytes: the bound, in a process that has not set it.
    """
    most = _bound if gigabytes is None else gigabytes
    takes = size / GIGABYTE + LEAST
    message = f"{what} about {takes:.1f} GB, more than runtime.memory, {most:g} GB; {fix}"
    if round(takes, 1) > most and message not in _said:  # by what is said: beside little, that is no more
        _said.add(message)
        say(message)
