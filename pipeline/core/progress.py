"""Progress of long work: a rich bar where a terminal is attached, plain lines otherwise."""

import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pipeline.core.printable import printable

PLAIN_SECONDS = 15.0
"""Between two plain lines, if nothing else is asked for."""
LATE_SECONDS, MARKS = 120.0, 8
"""Over how long a rate is taken, and how many times are kept of it."""

Advance = Callable[[int], None]


def say(message: str) -> None:
    """Print one line of information to stderr, so that stdout stays free for data.

    Where stderr cannot be written, as when its reader has ended, nobody is told any more: the work goes on.
    """
    try:
        sys.stderr.write(f"{printable(message)}\n")
        sys.stderr.flush()
    except OSError:
        with suppress(OSError, ValueError):  # a stream of a test's has no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextmanager
def progress(
    label: str, total: int | None, unit: str, plain_seconds: float | None = None, *, done: int = 0
) -> Iterator[Advance]:
    """Yield `advance(count)`; show rate and time left while it is called.

    Args:
        label: what is being done.
        total: how many units there are; None: nobody knows.
        unit: what is counted, in the plural.
        plain_seconds: at least so long passes between two plain lines; None: `PLAIN_SECONDS`.
        done: how many an earlier run has done, which are in no rate.
    """
    if sys.stderr.isatty():
        with _bar(printable(label), total, unit, done) as advance:
            yield advance
    else:
        every = PLAIN_SECONDS if plain_seconds is None else plain_seconds
        with _lines(label, total, unit, every, done) as advance:
            yield advance


@contextmanager
def _bar(label: str, total: int | None, unit: str, before: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>9} " + unit + "/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=LATE_SECONDS) as bar:
        task = bar.add_task(label, total=total, rate="", completed=before)
        pace = _Pace(before)

        def advance(count: int) -> None:
            pace.done += count
            bar.update(task, advance=count, rate=_figure(pace.of_late()))

        yield advance


@contextmanager
def _lines(label: str, total: int | None, unit: str, every: float, before: int) -> Iterator[Advance]:
    pace = _Pace(before)
    started = last = time.monotonic()
    of = "" if total is None else f" of {total:,}"

    def advance(count: int) -> None:
        nonlocal last
        pace.done += count
        now = time.monotonic()
        if now - last >= every:
            last = now
            rate = pace.of_late()
            left = (
                "" if total is None else f", {(total - pace.done) / rate if rate else math.inf:,.0f} s left"
            )
            say(f"{label}: {pace.done:,}{of} {unit}, {_figure(rate)}/s{left}")

    yield advance
    seconds = time.monotonic() - started
    rate = _figure((pace.done - before) / max(seconds, 1e-9))
    say(f"{label}: {pace.done:,}{of} {unit} in {seconds:,.1f} s, {rate}/s")


class _Pace:
    """How fast units are done of late: what a cache gave at once tells nothing of the rest.

    Args:
        done: how many are done before it begins.
    """

    def __init__(self, done: int) -> None:
        self.done = done
        self._marks = deque([(time.monotonic(), done)])

    def of_late(self) -> float:
        """Units a second since the last mark that is old enough, or since the start."""
        now = time.monotonic()
        while len(self._marks) > 1 and now - self._marks[1][0] >= LATE_SECONDS:
            self._marks.popleft()
        since, before = self._marks[0]
        if now - self._marks[-1][0] >= LATE_SECONDS / MARKS:
            self._marks.append((now, self.done))
        return (self.done - before) / max(now - since, 1e-9)


def _figure(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
