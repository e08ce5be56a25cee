"""What the benchmarks share: interleaved rounds, medians, a table on the screen and in results/."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from pipeline.core.machine import cpu

RESULTS = Path(__file__).parent / "results"

Contenders = dict[str, Callable[[], object]]
"""What is timed, by name."""


def interleaved(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contender in every round; in turn, so that a drift of the machine meets all alike.

    A contender that returns a float has timed itself: what it sets up in each round does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for contender in contenders.values():
        contender()
    for _ in range(rounds):
        for name, contender in contenders.items():
            started = time.perf_counter()
            own = contender()
            seconds[name].append(own if isinstance(own, float) else time.perf_counter() - started)
    return seconds


def speedup(seconds: Mapping[str, list[float]], name: str, reference: str) -> float:
    """Median over the rounds of how many times as fast `name` is as `reference`."""
    return float(np.median(np.divide(seconds[reference], seconds[name])))


def machine() -> dict[str, str | int]:
    """What decides rounding and speed here: the processor, and the threads that torch takes."""
    return {"cpu": cpu(), "threads": torch.get_num_threads()}


def report(name: str, rows: Sequence[Mapping[str, object]], command: str, ratios: Sequence[str] = ()) -> None:
    """Print a table and write it to benchmarks/results/NAME.json with what it ran on.

    Args:
        name: the file's.
        rows: the table; a column that a row lacks is empty.
        command: what makes it.
        ratios: columns beside which the screen shows what the committed file has in the same row.
    """
    RESULTS.mkdir(exist_ok=True)
    content = {"command": command, "machine": {**machine(), "torch": torch.__version__}, "rows": rows}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    revision, before = committed(name) if ratios else ("", [])
    shown = [_beside(row, before, ratios) for row in rows] if before else rows
    columns = [*dict.fromkeys(column for row in shown for column in row)]
    lines = [columns, *([_cell(row.get(column)) for column in columns] for row in shown)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    if before:
        print(f"before: benchmarks/results/{name}.json of revision {revision}")


def committed(name: str) -> tuple[str, list[dict[str, object]]]:
    """The last revision that wrote benchmarks/results/NAME.json, and its rows; none: ("", [])."""
    file = f"benchmarks/results/{name}.json"

    def git(*words: str) -> str:
        asked = ["git", "-C", str(RESULTS.parent.parent), *words]
        return subprocess.run(asked, capture_output=True, text=True).stdout.strip()

    revision = git("log", "-1", "--format=%h", "--diff-filter=AM", "--", file)
    return (revision, json.loads(git("show", f"{revision}:./{file}"))["rows"]) if revision else ("", [])


def _beside(
    row: Mapping[str, object], before: Sequence[Mapping[str, object]], ratios: Sequence[str]
) -> dict[str, object]:
    """A row with each ratio's value of before; rows are the same if all that is text in both is."""
    texts = {column: value for column, value in row.items() if isinstance(value, str) and value}
    same = next((one for one in before if all(one.get(key) == value for key, value in texts.items())), {})
    shown: dict[str, object] = {}
    for column, value in row.items():
        shown[column] = value
        if column in ratios:
            shown[f"{column}, before"] = same.get(column)
    return shown


def _cell(value: object) -> str:
    return "" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)
