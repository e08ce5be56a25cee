"""Rows that the disk reads while batches before theirs are trained on."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

BATCHES = 4
"""As many are asked for beyond the one that is trained on."""


class ReadAhead:
    """Asks the disk for the rows of coming batches, in a thread.

    Args:
        fetch: has the disk read some rows; None: nothing is asked for.
        batch: the rows of a step.
        epochs: their lengths in steps, one of each set of examples that a batch has rows of. The order of
            another epoch is not looked at before its first step.
    """

    def __init__(
        self, fetch: Callable[[Rows], None] | None, batch: Callable[[int], Rows], *epochs: int
    ) -> None:
        self._fetch, self._batch, self._epochs = fetch, batch, epochs
        self._pool = ThreadPoolExecutor(1)
        self._asked: dict[int, Future[None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def come_to(self, step: int) -> None:
        """Have asked for the rows of this step, and be asking for those of the next ones.

        Steps come one after the other.
        """
        if self._fetch is None:
            return
        next_epoch = min((step // steps + 1) * steps for steps in self._epochs)
        for later in range(step, min(step + 1 + BATCHES, next_epoch)):
            if later not in self._asked:
                self._asked[later] = self._pool.submit(self._fetch, self._batch(later))
        self._asked.pop(step).result()
