"""Training speed: a 3-layer student, a BiLSTM and a static table, each against the usual trainers, in turn.

`python benchmarks/bench_train.py [--steps N] [--rounds N] [--float32] [--joined N]`, after `make repro`:
texts, vectors and teacher parts are the default run's. tokenlearn's loop needs `pip install --no-deps
tokenlearn more-itertools`; without it, its row is left out, which is said. With `--float32` nothing is
computed in bfloat16, as on a processor that has none; with `--joined N` the transformers alone are
compared, on passages of N neighbouring texts each.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from measuring import interleaved, report, speedup
from torch.nn.functional import mse_loss
from train_peers import BATCH, Steps, batches, naive, sentence_transformers, tokenlearn

from pipeline.data.common import texts
from pipeline.params.students import BilstmStudent, StaticStudent, StudentBlock, TransformerStudent
from pipeline.train.loop.data import Examples, materialise, open_corpus
from pipeline.train.loop.loss import LossContext
from pipeline.train.loop.objective import Step
from pipeline.train.loop.optimizers import Optimizers, clip_gradients
from pipeline.train.loop.world import World
from pipeline.train.losses.building.objective import build_objective
from pipeline.train.students.kinds import bilstm, static, transformer
from pipeline.train.students.shared.base.interface import Student

CORPUS = Path("data/corpus/corpus.parquet")
PARTS = Path("data/teacher")
VOCABULARY = Path("data/vocabulary/static")
LONGEST = 256
"""Tokens of a passage."""
RATIO = "ours is faster by"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    steps = "of a transformer or a BiLSTM, a round; a table makes 20 times as many"
    parser.add_argument("--steps", type=int, default=6, help=steps)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--float32", action="store_true", help="nothing in bfloat16")
    parser.add_argument("--joined", type=int, default=1, help="texts of a passage")
    args = parser.parse_args()
    command = f"python benchmarks/bench_train.py --steps {args.steps} --rounds {args.rounds}"
    command += " --float32" * args.float32 + f" --joined {args.joined}" * (args.joined > 1)
    name = "train" + "_passages" * (args.joined > 1) + "_float32" * args.float32
    precisions = ["float32"] if args.float32 else ["float32", "bfloat16"]
    with tempfile.TemporaryDirectory() as folder:
        trainers = transformers(Path(folder), args.steps, precisions, args.joined)
        rows = compared("3-layer transformer", trainers, args)
        if args.joined > 1:
            report(name, rows, command, ratios=[RATIO])
            return
        rows += compared("BiLSTM", bilstms(Path(folder), args.steps, precisions[-1]), args)
        contenders, dev_losses = tables(Path(folder), 20 * args.steps)
        static_rows = compared("static table", contenders, args, scale=20)
    for row in static_rows:
        row["dev loss"] = dev_losses[str(row["trainer"])]()
    rows = [{**row, "dev loss": ""} for row in rows] + static_rows
    report(name, rows, command, ratios=[RATIO])


def compared(what: str, contenders: dict[str, Steps], args: argparse.Namespace, scale: int = 1) -> list[dict]:
    """Sentences a second of each, and how many times as fast ours is."""
    seconds = interleaved(contenders, args.rounds)
    sentences = BATCH * args.steps * scale
    ours = next(iter(contenders))
    return [
        {
            "student": what,
            "trainer": name,
            "sentences/s": float(sentences / np.median(times)),
            RATIO: speedup(seconds, ours, name),
        }
        for name, times in seconds.items()
    ]


def transformers(folder: Path, steps: int, precisions: list[str], joined: int) -> dict[str, Steps]:
    """Trainers of three of the teacher's layers with a projection to 128 dimensions; ours in the last."""
    init = {"layers": [3, 4, 5], "max_length": 128 if joined == 1 else LONGEST}
    own = {"kind": "transformer", "dim": 128, "init": init}
    block = TransformerStudent.model_validate({**own, **common(lr=1e-4, precision=precisions[-1])})
    contenders, sentences, examples = beside_naive(block, transformer, folder / "transformer", steps, joined)
    if find_spec("datasets"):
        for precision in precisions:
            peer = transformer.build(block, PARTS)
            name = f"SentenceTransformerTrainer, MSELoss, {precision}"
            contenders[name] = sentence_transformers(peer, sentences, examples, steps, precision, folder)
    else:
        print("without `datasets`, sentence-transformers' trainer is left out", file=sys.stderr)
    return contenders


def bilstms(folder: Path, steps: int, precision: str) -> dict[str, Steps]:
    """Trainers of a BiLSTM of the default run's size; sentence-transformers' own fails on its tokenizer."""
    own = {"kind": "bilstm", "dim": 384, "init": {"units": 256, "pooling": "mean", "max_length": 128}}
    block = BilstmStudent.model_validate({**own, **common(lr=1e-3, precision=precision)})
    return beside_naive(block, bilstm, folder / "bilstm", steps)[0]


def common(**own: float | str) -> dict[str, Any]:
    """What the students have in common, beside their own settings of the training."""
    train = {"texts": ["corpus"], "epochs": 1, "batch_size": BATCH, **own}
    return {"view": "sentence", "loss": {"kind": "mse"}, "train": train, "finetune": None}


def beside_naive(
    block: StudentBlock, kind: ModuleType, folder: Path, steps: int, joined: int = 1
) -> tuple[dict[str, Steps], list[str], Examples]:
    """Our trainer of a student and a naive loop, the training texts, and these as our trainer reads them."""
    ours, examples, _ = prepared(block, kind, folder)
    sentences = [text for part in texts.stream(CORPUS, "train") for text in part]
    if joined > 1:
        sentences, examples = passages(ours, sentences, examples, joined)
    contenders = {
        "ours": ours_steps(block, ours, examples, steps),
        "naive loop, float32": naive(kind.build(block, PARTS), sentences, examples, steps),
    }
    return contenders, sentences, examples


def passages(
    student: Student, sentences: list[str], examples: Examples, joined: int
) -> tuple[list[str], Examples]:
    """Neighbouring texts as one, with the target of the first: speed is all that is looked at."""
    joint = [" ".join(sentences[row : row + joined]) for row in range(0, len(sentences), joined)]
    return joint, Examples(student.tokenise(joint), np.array(examples.targets[::joined]))


def tables(folder: Path, steps: int) -> tuple[dict[str, Steps], dict[str, Callable[[], float]]]:
    """Trainers of a table of the teacher's vocabulary, 256 dimensions, and what they have come to on dev.

    Starts are the default run's and tokenlearn's own; all take the same number of steps at constant rates:
    ours at 3e-3, tokenlearn at its own 1e-3.
    """
    own = {"kind": "static", "dim": 256, "init": {}}
    block = StaticStudent.model_validate({**own, **common(lr=3e-3, sparse=True)})
    ours, examples, dev = prepared(block, static, folder / "static")
    ours.fit_projection(examples.tokens, examples.targets)
    wanted = torch.from_numpy(np.array(dev.targets))
    dense = block.model_copy(update={"train": block.training.model_copy(update={"sparse": False})})
    ours_dense = static.build(dense, VOCABULARY)
    ours_dense.fit_projection(examples.tokens, examples.targets)
    students: dict[str, tuple[StaticStudent, Any]] = {
        "ours, sparse": (block, ours),
        "ours, dense": (dense, ours_dense),
    }
    contenders = {
        name: ours_steps(student_block, student, examples, steps)
        for name, (student_block, student) in students.items()
    }
    dev_losses: dict[str, Callable[[], float]] = {
        name: partial(lambda student: float(mse_loss(student.encode(dev.tokens).vectors, wanted)), student)
        for name, (_, student) in students.items()
    }
    if find_spec("tokenlearn"):
        name = "tokenlearn 0.2"
        start = static.build(block, VOCABULARY)
        contenders[name], dev_losses[name] = tokenlearn(start, examples, dev, steps)
    else:
        print("without `tokenlearn`, its loop is left out", file=sys.stderr)
    return contenders, dev_losses


def prepared(block: StudentBlock, kind: ModuleType, folder: Path) -> tuple[Student, Examples, Examples]:
    """A student and the default run's training and dev texts with their targets."""
    gated, vectors, pca = Path("data/gated"), Path("data/vectors"), Path("data/pca")
    corpus = open_corpus("student", block, CORPUS, gated, vectors, pca)
    student = kind.build(block, VOCABULARY if block.reads_vocabulary else PARTS)
    train = materialise(corpus.train, corpus, student.tokenise, folder / "train")
    return student, train, materialise([corpus.dev], corpus, student.tokenise, folder / "dev")


def ours_steps(block: StudentBlock, student: Student, examples: Examples, steps: int) -> Steps:
    """Steps as the training loop makes them."""
    longest = int(examples.tokens.lengths.max())
    setting = LossContext(block.width, examples.targets.shape[1], len(examples), longest, PARTS, 0)
    bfloat16 = block.training.precision == "bfloat16"
    step = Step(student, build_objective(block, setting), examples, World(), bfloat16=bfloat16)
    optimizers = Optimizers(student.module, block.training.lr, 0.0, sparse=block.training.sparse)
    order = batches(len(examples))

    def run() -> None:
        for _ in range(steps):
            optimizers.zero_grad()
            step.backward(next(order))
            clip_gradients(student.module.parameters(), 1.0)
            optimizers.step()

    return run


if __name__ == "__main__":
    main()
