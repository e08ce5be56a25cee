"""Kills by signal 9 at random moments: does the next `dvc repro` make what an undisturbed run makes?

`python benchmarks/kills.py [--kills N] [--seed S] [--kinds KIND ...] [--minutes M]`, in a small project.
`encode`, `train`: a stage's process is killed while it works. `publish`: a stage's process, when a partial
file or folder of it lies beside an out. `parent`: `dvc repro` alone, at any moment; the next one starts at
once. The next run goes on to the end, and all outs are compared with those of a run that nobody killed, byte
by byte, but for what a clock says. A kill that comes too late is tried again. The exit code is 1 if an out is
another, if the next run fails, or if a stage outlives its `dvc repro`.
"""

import argparse
import math
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from killed_project import Small
from measuring import report

KINDS = {
    "encode": ["encode@corpus"],
    "train": ["distill@potion"],
    "publish": ["encode@corpus", "distill@potion"],
    "parent": ["encode@corpus", "distill@potion"],
}
LOOK = 0.001
"""Seconds between two looks."""
ORPHAN_SECONDS = 20
"""An orphan that runs for longer fails: it looks for its parent twice a second, and has ten to end."""


@dataclass
class Undisturbed:
    """What a run of some stages does when nobody kills it, seen from outside."""

    seconds: float
    """Of the whole `dvc repro`."""
    work: float
    """From the first file in the cache to the end of the last stage looked at."""
    writes: list[float]
    """For how long each partial file and folder beside an out is there."""


@dataclass
class Found:
    """What kills of one kind did."""

    tries: int = 0
    hits: int = 0
    writing: int = 0
    """Kills that left a partial file or folder."""
    equal: int = 0
    unequal: int = 0
    left: int = 0
    """Partial files and folders that the next run did not remove."""
    lost: list[float] = field(default_factory=list)
    orphans: list[float] = field(default_factory=list)


def main() -> None:
    """Kill, and report by kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop then, with fewer kills")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of the stages: they are small
    with tempfile.TemporaryDirectory() as name:
        small = Small(Path(name))
        until = time.monotonic() + 60 * asked.minutes
        found = _all(small, asked.kinds, asked.kills, asked.seed, until)
    rows = [
        {
            "killed": kind,
            "tries": one.tries,
            "hits": one.hits,
            "left half-written": one.writing,
            "equal": one.equal,
            "unequal": one.unequal,
            "still half-written": one.left,
            "median seconds lost": statistics.median(one.lost) if one.lost else None,
            "longest orphan, seconds": max(one.orphans, default=None),
        }
        for kind, one in found.items()
    ]
    words = "" if asked.kinds == list(KINDS) else f" --kinds {' '.join(asked.kinds)}"
    words += "" if math.isinf(asked.minutes) else f" --minutes {asked.minutes:g}"
    report("kills", rows, f"python benchmarks/kills.py --kills {asked.kills} --seed {asked.seed}{words}")
    sys.exit(any(one.unequal or max(one.orphans, default=0) > ORPHAN_SECONDS for one in found.values()))


def _all(small: Small, kinds: Sequence[str], kills: int, seed: int, until: float) -> dict[str, Found]:
    """So many kills of each kind that hit, the kinds in turn; fewer where time is up."""
    groups = {kind: [KINDS[kind]] if kind == "parent" else [[one] for one in KINDS[kind]] for kind in kinds}
    every = {tuple(stages) for each in groups.values() for stages in each}
    usual = {stages: _undisturbed(small, stages) for stages in sorted(every)}
    found, moments = {kind: Found() for kind in kinds}, random.Random(seed)
    while time.monotonic() < until and any(one.hits < kills for one in found.values()):
        kind = min(kinds, key=lambda kind: found[kind].hits)
        stages = moments.choice(groups[kind])
        _one(small, kind, stages, usual[tuple(stages)], moments, found[kind])
    return found


def _one(
    small: Small, kind: str, stages: Sequence[str], usual: Undisturbed, moments: random.Random, found: Found
) -> None:
    """Kill once, and compare what the next run makes."""
    small.forget(stages)
    found.tries += 1
    begun = time.monotonic()
    hit, failed = _kill(small, kind, stages, usual, moments, found)
    lost = time.monotonic() - begun - usual.seconds
    made = small.made()
    different = sorted(name for name in {*made, *small.digests} if made.get(name) != small.digests.get(name))
    found.left += small.left()
    if different or failed:
        said = small.log.read_text()
        sys.stderr.write(f"{kind}, of {stages}, hit: {hit}; other: {different}; the next run said:\n{said}\n")
        small.restore()
    found.unequal += bool(different or failed)
    if hit:
        found.hits += 1
        found.lost.append(lost)
        found.equal += not (different or failed)
        sys.stderr.write(f"{kind}: {found.hits}, {lost:.1f} s lost, {found.left} partial files left\n")


def _kill(
    small: Small, kind: str, stages: Sequence[str], usual: Undisturbed, moments: random.Random, found: Found
) -> tuple[bool, bool]:
    """Kill once and run to the end; whether there was something to kill, and whether the next run failed."""
    dvc, folders = small.start(), small.folders(stages)
    if kind == "parent":
        time.sleep(moments.uniform(0, usual.seconds))
    elif kind == "publish":
        chosen = moments.randrange(len(usual.writes))
        seen = set[str]()
        while len(seen) <= chosen and dvc.poll() is None:
            seen |= small.partials(folders)
            time.sleep(LOOK)
        time.sleep(moments.uniform(0, usual.writes[chosen]))
    else:
        while not small.is_working() and dvc.poll() is None:
            time.sleep(LOOK)
        time.sleep(moments.uniform(0, usual.work))
    running = _stages(dvc)
    hit = _signal([dvc] if kind == "parent" else running)
    found.writing += hit and bool(small.left())
    if kind == "parent":
        dvc.wait()
        since, following = time.monotonic(), small.start()
        while (
            hit
            and any(_runs(process) for process in running)
            and time.monotonic() - since < ORPHAN_SECONDS + 1
        ):
            time.sleep(0.01)
        if hit and running:
            found.orphans.append(time.monotonic() - since)
    else:
        dvc.wait()
        following = small.start()
    return hit, following.wait() != 0


def _undisturbed(small: Small, stages: Sequence[str]) -> Undisturbed:
    """Run stages that were forgotten, and look on."""
    small.forget(stages)
    started, dvc, folders = time.monotonic(), small.start(), small.folders(stages)
    spans: dict[str, tuple[float, float]] = {}
    begun = ended = 0.0
    while dvc.poll() is None:
        now = time.monotonic()
        spans |= {name: (spans.get(name, (now, now))[0], now) for name in small.partials(folders)}
        if not begun and small.is_working():
            begun = now
        if begun and spans:
            ended = max(last for _, last in spans.values())
        time.sleep(LOOK)
    if dvc.returncode:
        raise RuntimeError(small.log.read_text())
    writes = [last - first + 2 * LOOK for first, last in spans.values()]
    return Undisturbed(time.monotonic() - started, ended - begun, writes)


def _stages(dvc: psutil.Process) -> list[psutil.Process]:
    """The processes of the stage that runs now."""
    try:
        children = dvc.children(recursive=True)
        return [process for process in children if "pipeline.core.timed" in process.cmdline()]
    except psutil.NoSuchProcess:  # it has just ended
        return []


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _signal(processes: Sequence[psutil.Process]) -> bool:
    """Send signal 9; whether any process was there."""
    alive = [process for process in processes if _runs(process)]
    for process in alive:
        process.send_signal(signal.SIGKILL)
    return bool(alive)


if __name__ == "__main__":
    main()
