"""What seals and syncs cost a whole run: their seconds for its artifacts, against those of its stages.

`python benchmarks/bench_sealing.py [--project FOLDER]`, after `dvc repro` there. dvc.lock says
which stages make and read an artifact. Each is digested, checked and synced here, as often as stages do that:
a stage is taken to check all of every input, though some read a part. The states of a run's trainings are
gone: each is taken to be as large as STATES students, and to be saved as often as the settings have it.
"""

import argparse
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl
from measuring import report
from ruamel.yaml import YAML

from pipeline.core import atomic, fingerprint, seal
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.params.load import load

MEGABYTE = 1e6
STATES = 4
"""Weights, the best so far, and two moments of the optimizer."""
TEXT_SETS = ("augmented", "corpus", "gated")


@dataclass
class Cost:
    """Of one kind of work, over the whole run."""

    times: int = 0
    megabytes: float = 0.0
    cpu: float = 0.0
    seconds: float = 0.0

    def add(self, work: Callable[[], object], size: float, times: int = 1) -> None:
        """Do something once that a run does so many times."""
        cpu, begun = time.process_time(), time.perf_counter()
        work()
        self.times += times
        self.megabytes += times * size / MEGABYTE
        self.cpu += times * (time.process_time() - cpu)
        self.seconds += times * (time.perf_counter() - begun)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, default=Path())
    with chdir(parser.parse_args().project):
        costs, stages = measured()
    total = Cost()
    for cost in costs.values():
        total.cpu, total.seconds = total.cpu + cost.cpu, total.seconds + cost.seconds
    whole = {"all of it": total, "the run's stages": Cost(seconds=stages)}
    rows: list[dict[str, object]] = [
        {
            "work": name,
            "times": cost.times or None,
            "MB": cost.megabytes or None,
            "CPU seconds": cost.cpu or None,
            "seconds": cost.seconds,
            "% of the stages": 100 * cost.seconds / stages,
        }
        for name, cost in (costs | whole).items()
    ]
    report("sealing", rows, "python benchmarks/bench_sealing.py")


def measured() -> tuple[dict[str, Cost], float]:
    """The cost of each kind of work in a run of this folder, and the seconds of its stages."""
    lock = YAML(typ="safe").load(Path("dvc.lock"))["stages"]
    made = [path for stage in lock.values() for path in _artifacts(stage["outs"])]
    read = Counter(path for stage in lock.values() for path in _artifacts(stage.get("deps", ())))
    timings = {path.stem: metrics.read(path, path.stem) for path in Path("data/timings").glob("*.json")}
    seals, checks, ids, syncs, store, trainings = (Cost() for _ in range(6))
    for path in dict.fromkeys([*made, *read]):
        size = sum(file.stat().st_size for file in _files(path))
        digest = partial(_digest, path)
        digest()  # what is timed lies in the page cache, as what was just written does
        seals.add(digest, size, made.count(path))
        checks.add(digest, size, read[path])
        if path.suffix == ".parquet" and path.parent.name in TEXT_SETS and _has_texts(path):
            ids.add(partial(_compare_ids, path), size, read[path])
        if path.is_relative_to("data/vectors"):
            store.add(digest, size, 2)  # as it is added, and as it is read to be published
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for number, path in enumerate(made):
            copy = Path(folder) / str(number)
            (shutil.copytree if path.is_dir() else shutil.copy)(path, copy)
            syncs.add(partial(_sync, copy), sum(file.stat().st_size for file in _files(copy)))
        every = load(Path("params.yaml")).runtime.checkpoint_seconds
        for student in sorted(Path("data/distilled").iterdir()):
            state = Path(folder) / f"state {student.name}"
            weights = b"".join(file.read_bytes() for file in _files(student)) * STATES
            seconds = sum(timings[f"{stage}_{student.name}"]["seconds"] for stage in ("distill", "finetune"))
            state.write_bytes(weights)
            trainings.add(partial(_seal_and_sync, state), len(weights), int(seconds // every))
    return {
        "outs are sealed": seals,
        "inputs are checked": checks,
        "ids are compared with texts": ids,
        "outs are synced": syncs,
        "vectors in the store are digested": store,
        "states of trainings are sealed and synced": trainings,
    }, sum(timing["seconds"] for timing in timings.values())


def _artifacts(entries: Iterable[dict[str, str]]) -> list[Path]:
    """What lies there of what a stage makes or reads, apart from code and what the user brought."""
    paths = [Path(entry["path"]) for entry in entries]
    tops = [path for path in paths if path.parts[0] in ("data", "reports") and path.parts[1] != "raw"]
    return [path for path in tops if path.exists()]


def _files(path: Path) -> list[Path]:
    return [file for file in (path, *path.rglob("*")) if file.is_file()]


def _digest(path: Path) -> None:
    """As seals do it; vectors have another digest in their manifest."""
    for file in _files(path):
        if path.is_relative_to("data/vectors"):
            fingerprint.of_file(file)
        else:
            _xxh3(file)


def _xxh3(file: Path) -> None:
    seal._digest.__wrapped__(file, None, ())  # a process digests a file once: `_digest` remembers it


def _has_texts(path: Path) -> bool:
    return texts.IDENTITY.keys() <= pl.read_parquet_schema(path).keys()


def _compare_ids(path: Path) -> None:
    table = pl.read_parquet(path, columns=["text_id", "text"])
    texts.text_ids(table["text"])


def _sync(path: Path) -> None:
    for each in (*path.rglob("*"), path, path.parent):
        atomic._sync(each)


def _seal_and_sync(state: Path) -> None:
    _xxh3(state)
    atomic._sync(state)


if __name__ == "__main__":
    main()
