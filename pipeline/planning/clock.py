"""What work takes on this machine."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
STEPS = 4
"""Most rounds of a kind of work; the fastest counts, for it was disturbed least."""


def clocked(work: Callable[[], T]) -> tuple[float, T]:
    """What some work takes, without the time that other processes take from a single thread."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = work()
    _finish()
    taken = time.perf_counter() - wall
    return (min(taken, time.process_time() - cpu) if _on_one_thread() else taken), found


def _on_one_thread() -> bool:
    import torch

    return (
        torch.get_num_threads() == 1 and torch.accelerator.current_accelerator(check_available=True) is None
    )


def _finish() -> None:
    import torch

    if torch.accelerator.current_accelerator(check_available=True):
        torch.accelerator.synchronize()


def fastest(work: Callable[[np.ndarray], None], batches: Sequence[np.ndarray], most: float) -> float:
    """The least seconds of some rounds; of the first, where it takes all the time."""
    began, rounds = time.perf_counter(), [clocked(lambda: work(batches[0]))[0]]
    while len(rounds) <= STEPS and time.perf_counter() - began < most:
        rounds.append(clocked(lambda: work(batches[len(rounds) % 2]))[0])
    return min(rounds)
