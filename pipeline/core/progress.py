"""Progress of long work: a rich bar where a terminal is attached, plain lines otherwise."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.core.printable import printable

PLAIN_SECONDS = 15.0
"""Between two plain lines, if nothing else is asked for."""

Advance = Callable[[int], None]


def say(message: str) -> None:
    """Print one line of information to stderr, so that stdout stays free for data."""
    sys.stderr.write(f"{printable(message)}\n")
    sys.stderr.flush()


@contextmanager
def progress(
    label: str, total: int | None, unit: str, plain_seconds: float | None = None
) -> Iterator[Advance]:
    """Yield `advance(count)`; show rate and time left while it is called.

    Args:
        label: what is being done.
        total: how many units there are; None: nobody knows.
        unit: what is counted, in the plural.
        plain_seconds: at least so long passes between two plain lines; None: `PLAIN_SECONDS`.
    """
    if sys.stderr.isatty():
        with _bar(printable(label), total, unit) as advance:
            yield advance
    else:
        every = PLAIN_SECONDS if plain_seconds is None else plain_seconds
        with _lines(label, total, unit, every) as advance:
            yield advance


@contextmanager
def _bar(label: str, total: int | None, unit: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]:>9} " + unit + "/s")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        rate,
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, rate="")
        started = time.monotonic()
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar.update(task, advance=count, rate=_figure(done / max(time.monotonic() - started, 1e-9)))

        yield advance


@contextmanager
def _lines(label: str, total: int | None, unit: str, every: float) -> Iterator[Advance]:
    started = last = time.monotonic()
    done, of = 0, "" if total is None else f" of {total:,}"

    def advance(count: int) -> None:
        nonlocal last, done
        done += count
        now = time.monotonic()
        if now - last >= every:
            last = now
            rate = done / (now - started)
            left = "" if total is None else f", {(total - done) / rate if rate else math.inf:,.0f} s left"
            say(f"{label}: {done:,}{of} {unit}, {_figure(rate)}/s{left}")

    yield advance
    seconds = time.monotonic() - started
    say(f"{label}: {done:,}{of} {unit} in {seconds:,.1f} s, {_figure(done / max(seconds, 1e-9))}/s")


def _figure(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
