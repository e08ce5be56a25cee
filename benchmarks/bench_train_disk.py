"""Training from inputs that memory does not hold: rows of coming batches read ahead, or row by row.

`python benchmarks/bench_train_disk.py [--rows N] [--rounds N]`, after `make repro`: the default run's inputs
of a training, one after the other until there are N texts. They lie in the folder for temporary files
(TMPDIR), which has to be on a disk. Before a round that "fits" the system holds all of them in memory. Before
another one it holds a quarter of their bytes, as with a corpus four times the memory: all token ids, each
page of which is read many times in an epoch, and some of the targets, spread evenly. In turn.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from bench_train import PARTS, common, prepared
from measuring import interleaved, report, speedup
from train_peers import BATCH

from pipeline.data.tokens.mapped import map_file
from pipeline.data.tokens.tokens import Tokens
from pipeline.params.students import StaticStudent, StudentBlock, TransformerStudent
from pipeline.train.loop.ahead import ReadAhead
from pipeline.train.loop.data import Examples
from pipeline.train.loop.loop import Settings
from pipeline.train.loop.loss import LossContext
from pipeline.train.loop.mixture import Portion
from pipeline.train.loop.objective import Step
from pipeline.train.loop.optimizers import Optimizers, clip_gradients
from pipeline.train.loop.world import World
from pipeline.train.losses.building.objective import build_objective
from pipeline.train.students.kinds import static, transformer
from pipeline.train.students.shared.base.interface import Student

PART_BYTES = 1 << 20
BEYOND = 4
"""Times the memory."""
FITS = "fits in memory"
Cpu = dict[str, list[float]]
"""Seconds of each round, the first of which is not timed, by mode."""
MODES = (
    FITS,
    "fits in memory, read ahead",
    "four times the memory, row by row",
    "four times the memory, read ahead",
)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    found = []
    for name, steps, contenders in (
        ("3-layer transformer", 2, partial(transformers, args.rows)),
        ("static table, dense", 60, partial(tables, args.rows, sparse=False)),
        ("static table, sparse", 60, partial(tables, args.rows, sparse=True)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            cpu: dict[str, list[float]] = {mode: [] for mode in MODES}
            seconds = interleaved(contenders(folder=Path(folder), steps=steps, cpu=cpu), args.rounds)
        found += [
            {
                "student": name,
                "inputs": mode,
                "sentences/s": float(BATCH * steps / np.median(times)),
                "of what fits": speedup(seconds, mode, FITS),
                "CPU µs a sentence": float(1e6 * np.median(cpu[mode][1:]) / BATCH / steps),
            }
            for mode, times in seconds.items()
        ]
    options = f"--rows {args.rows} --rounds {args.rounds}"
    command = f"python benchmarks/bench_train_disk.py {options}"
    report("train_disk", found, command, ratios=["of what fits"])


def transformers(rows: int, folder: Path, steps: int, cpu: Cpu) -> dict[str, Callable[[], float]]:
    """Of three of the teacher's layers with a projection to 128 dimensions."""
    own = {"kind": "transformer", "dim": 128, "init": {"layers": [3, 4, 5], "max_length": 128}}
    block = TransformerStudent.model_validate({**own, **common(lr=1e-4, precision="bfloat16")})
    student, examples, _ = prepared(block, transformer, folder / "few")
    return contenders_of(block, student, repeated(examples, rows, folder), steps, cpu)


def tables(rows: int, folder: Path, steps: int, cpu: Cpu, *, sparse: bool) -> dict[str, Callable[[], float]]:
    """Of the teacher's vocabulary, 256 dimensions."""
    own = {"kind": "static", "dim": 256, "init": {}}
    block = StaticStudent.model_validate({**own, **common(lr=3e-3, sparse=sparse)})
    student, examples, _ = prepared(block, static, folder / "few")
    return contenders_of(block, student, repeated(examples, rows, folder), steps, cpu)


def repeated(examples: Examples, rows: int, folder: Path) -> Examples:
    """The examples over and over, in files as a training has them."""
    times = -(-rows // len(examples))
    for array, name in ((examples.tokens.ids, "ids"), (examples.targets, "targets")):
        with (folder / f"{name}.bin").open("wb") as file:
            for _ in range(times):
                file.write(np.ascontiguousarray(array).data)
            os.fsync(file.fileno())
    offsets = np.concatenate([[0], np.cumsum(np.tile(examples.tokens.lengths, times))])
    ids = map_file(folder / "ids.bin", np.int32, (int(offsets[-1]),))
    shape = (times * len(examples), examples.targets.shape[1])
    return Examples(Tokens(ids, offsets), map_file(folder / "targets.bin", np.float32, shape))


def contenders_of(
    block: StudentBlock, student: Student, examples: Examples, steps: int, cpu: Cpu
) -> dict[str, Callable[[], float]]:
    """Rounds of steps as the training loop makes them; each goes on where the last one was in an epoch.

    The time of all threads is added to `cpu`.
    """
    longest = int(examples.tokens.lengths.max())
    setting = LossContext(block.width, examples.targets.shape[1], len(examples), longest, PARTS, 0)
    bfloat16 = block.training.precision == "bfloat16"
    step = Step(student, build_objective(block, setting), examples, World(), bfloat16=bfloat16)
    optimizers = Optimizers(student.module, block.training.lr, 0.0, sparse=block.training.sparse)
    settings = Settings("student", (Portion(len(examples)),), 1, BATCH, 1e-4, "linear", 0.0, 1, 0)
    rounds = count()

    def run(mode: str) -> float:
        hold(examples, 1 if mode.startswith("fits") else 1 / BEYOND)
        first = next(rounds) * steps
        settings.batch(first)  # the order of an epoch is no part of what is compared
        fetch = step.read_ahead if mode.endswith("read ahead") else None
        begun, busy = time.perf_counter(), time.process_time()
        with ReadAhead(fetch, settings.batch, settings.own.steps_per_epoch) as ahead:
            for number in range(first, first + steps):
                ahead.come_to(number)
                optimizers.zero_grad()
                step.backward(settings.batch(number))
                clip_gradients(student.module.parameters(), 1.0)
                optimizers.step()
            seconds = time.perf_counter() - begun
        cpu[mode].append(time.process_time() - busy)
        return seconds

    return {mode: partial(run, mode) for mode in MODES}


def hold(examples: Examples, share: float) -> None:
    """Have the system hold this share of the files' bytes in memory, and no more of them."""
    ids, targets = examples.tokens.ids, examples.targets
    of_targets = (share * (ids.nbytes + targets.nbytes) - ids.nbytes) / targets.nbytes
    for array, part in ((ids, 1.0), (targets, of_targets)):
        assert isinstance(array, np.memmap)
        with Path(str(array.filename)).open("rb", buffering=0) as file:
            if share < 1:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(
                file.fileno(), 0, 0, os.POSIX_FADV_RANDOM
            )  # the disk reads no more than is asked
            for start in range(0, array.nbytes, PART_BYTES):
                os.pread(file.fileno(), int(part * PART_BYTES), start)


if __name__ == "__main__":
    main()
