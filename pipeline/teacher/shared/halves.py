"""A request that a server refuses is made again in halves: it may be one text that it cannot do."""

from collections.abc import Sequence
from threading import Event

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import Unfinished, UserError
from pipeline.teacher.shared.endpoint import BEGINNING, Endpoint, Rejected, Stopped

RETRIES = 1
"""Of a half, for its whole has had all of them."""
LEVELS = 2
"""Of halves, of which one has to be answered: else it is no text that the server cannot do."""


def embed(
    endpoint: Endpoint, inputs: Sequence[str], texts: Sequence[str], view: str, stop: Event
) -> NDArray[np.float32]:
    """Vectors (n, d) of what is sent for the texts, one at least, in their order.

    Raises:
        Unfinished: one text is refused by itself, which is named, or all are; it holds what the others gave.
        UserError: as `Endpoint.embed`.
        Stopped: likewise.
    """
    try:
        return endpoint.embed(inputs, stop)
    except Rejected as refused:
        found = _Halves(endpoint, inputs, stop)
        row = found.search()
        rows = np.flatnonzero(found.done)
        if found.done.all():
            endpoint.say_once(
                "in halves",
                f"{refused.fault}; {len(texts)} texts were refused at once and answered in parts: if that "
                "goes on, lower runtime.api.texts_per_request",
            )
            return found.vectors
        told = str(refused)
        if row is not None and (len(rows) or len(texts) == 1):
            text = texts[row]
            told = (
                f"{refused.fault}; it is so for one text alone, which has {len(text):,} characters and "
                f"begins {text[:BEGINNING]!r}: remove it, or mend the server, and run again to go on"
            )
        raise Unfinished(told, rows, {view: found.vectors[rows]} if len(rows) else None) from None


class _Halves:
    """The vectors (n, d) of texts, and which of them (n,) are there."""

    def __init__(self, endpoint: Endpoint, inputs: Sequence[str], stop: Event) -> None:
        self._endpoint, self._inputs, self._stop = endpoint, inputs, stop
        self.vectors = np.empty((len(inputs), 0), np.float32)
        self.done = np.zeros(len(inputs), dtype=bool)

    def search(self) -> int | None:
        """The row of a text that is refused by itself; None: none is, or another request failed meanwhile."""
        first, last = 0, len(self._inputs)
        least = last >> LEVELS
        try:
            while last - first > 1:
                if last - first <= least and not self.done.any():
                    return None
                middle = (first + last) // 2
                if self._is_done(first, middle):
                    first = middle
                else:
                    self._is_done(middle, last)
                    last = middle
            return None if len(self._inputs) > 1 and self._is_done(first, last) else first
        except (Stopped, UserError):
            return None

    def _is_done(self, first: int, last: int) -> bool:
        try:
            vectors = self._endpoint.embed(self._inputs[first:last], self._stop, RETRIES)
        except Rejected:
            return False
        if self.done.any() and vectors.shape[1] != self.vectors.shape[1]:
            return False
        if not self.done.any():
            self.vectors = np.empty((len(self._inputs), vectors.shape[1]), np.float32)
        self.vectors[first:last] = vectors
        self.done[first:last] = True
        return True
