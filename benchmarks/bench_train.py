"""Training speed: a 3-layer student, a BiLSTM and a static table, each against the usual trainers, in turn.

`python benchmarks/bench_train.py [--steps N] [--rounds N] [--float32]`, after `make repro`: texts, vectors
and teacher parts are the default run's. tokenlearn's loop needs `pip install --no-deps tokenlearn
more-itertools`; without it, its row is left out, which is said. With `--float32` nothing is computed in
bfloat16, as on a processor that has none.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from measuring import interleaved, report, speedup
from numpy.typing import NDArray
from torch.nn.functional import mse_loss

from pipeline.data.common import texts
from pipeline.params.students import BilstmStudent, StaticStudent, StudentBlock, TransformerStudent
from pipeline.train.loop.data import Examples, materialise, open_corpus
from pipeline.train.loop.loop import Settings
from pipeline.train.loop.loss import LossContext
from pipeline.train.loop.mixture import Portion
from pipeline.train.loop.objective import Step
from pipeline.train.loop.optimizers import Optimizers, clip_gradients
from pipeline.train.loop.world import World
from pipeline.train.losses.building.objective import build_objective
from pipeline.train.students.kinds import bilstm, static, transformer
from pipeline.train.students.shared.base.interface import Student

CORPUS = Path("data/corpus/corpus.parquet")
PARTS = Path("data/teacher")
VOCABULARY = Path("data/vocabulary/static")
BATCH = 256
Steps = Callable[[], float | None]
"""Makes the steps of a round; the seconds that they took, where the call sets up more than that."""


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    steps = "of a transformer or a BiLSTM, a round; a table makes 20 times as many"
    parser.add_argument("--steps", type=int, default=6, help=steps)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--float32", action="store_true", help="nothing in bfloat16")
    args = parser.parse_args()
    command = f"python benchmarks/bench_train.py --steps {args.steps} --rounds {args.rounds}"
    precisions = ["float32"] if args.float32 else ["float32", "bfloat16"]
    with tempfile.TemporaryDirectory() as folder:
        rows = compared("3-layer transformer", transformers(Path(folder), args.steps, precisions), args)
        rows += compared("BiLSTM", bilstms(Path(folder), args.steps, precisions[-1]), args)
        contenders, dev_losses = tables(Path(folder), 20 * args.steps)
        static_rows = compared("static table", contenders, args, scale=20)
    for row in static_rows:
        row["dev loss"] = dev_losses[str(row["trainer"])]()
    rows = [{**row, "dev loss": ""} for row in rows] + static_rows
    name, command = ("train_float32", f"{command} --float32") if args.float32 else ("train", command)
    report(name, rows, command, ratios=["ours is faster by"])


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
            "ours is faster by": speedup(seconds, ours, name),
        }
        for name, times in seconds.items()
    ]


def transformers(folder: Path, steps: int, precisions: list[str]) -> dict[str, Steps]:
    """Trainers of three of the teacher's layers with a projection to 128 dimensions; ours in the last."""
    own = {"kind": "transformer", "dim": 128, "init": {"layers": [3, 4, 5], "max_length": 128}}
    block = TransformerStudent.model_validate({**own, **common(lr=1e-4, precision=precisions[-1])})
    contenders, sentences, examples = beside_naive(block, transformer, folder / "transformer", steps)
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
    block: StudentBlock, kind: ModuleType, folder: Path, steps: int
) -> tuple[dict[str, Steps], list[str], Examples]:
    """Our trainer of a student and a naive loop, the training texts, and these as our trainer reads them."""
    ours, examples, _ = prepared(block, kind, folder)
    sentences = [text for part in texts.stream(CORPUS, "train") for text in part]
    contenders = {
        "ours": ours_steps(block, ours, examples, steps),
        "naive loop, float32": naive(kind.build(block, PARTS), sentences, examples, steps),
    }
    return contenders, sentences, examples


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


def batches(rows: int) -> Iterator[NDArray[np.int64]]:
    """Random batches without end, the same for all."""
    settings = Settings("student", (Portion(rows),), 1000, BATCH, 1e-4, "linear", 0.0, 1, 0)
    return (settings.batch(step) for step in count())


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


def naive(student: Student, sentences: list[str], examples: Examples, steps: int) -> Steps:
    """Random batches, tokenised when they are needed, padded to their longest, float32, dense AdamW."""
    model: Any = student.module
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    order = batches(len(examples))

    def run() -> None:
        for _ in range(steps):
            rows = next(order)
            features = model.tokenize([sentences[row] for row in rows])
            optimizer.zero_grad()
            found = model(features)["sentence_embedding"]
            mse_loss(found, torch.from_numpy(np.array(examples.targets[rows]))).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return run


def sentence_transformers(
    student: Student, sentences: list[str], examples: Examples, steps: int, precision: str, folder: Path
) -> Steps:
    """SentenceTransformerTrainer with MSELoss; what each call sets up does not count."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.losses import MSELoss
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        """Times the steps of a call."""

        began = seconds = 0.0

        def on_train_begin(self, *_: object, **__: object) -> None:
            """Before the first step."""
            self.began = time.perf_counter()

        def on_train_end(self, *_: object, **__: object) -> None:
            """After the last one."""
            self.seconds = time.perf_counter() - self.began

    rows = np.random.default_rng(0).permutation(len(examples))[: 20 * BATCH]
    data = {
        "sentence": [sentences[row] for row in rows],
        "label": [examples.targets[row].tolist() for row in rows],
    }
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / precision),
        per_device_train_batch_size=BATCH,
        max_steps=steps,
        learning_rate=1e-4,
        bf16=precision == "bfloat16",
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    model: Any = student.module.train()
    dataset, clock = Dataset.from_dict(data), Clock()
    trainer = SentenceTransformerTrainer(model, arguments, dataset, loss=MSELoss(model), callbacks=[clock])

    def run() -> float:
        trainer.train()
        return clock.seconds

    return run


def tokenlearn(
    student: static.Static, examples: Examples, dev: Examples, steps: int
) -> tuple[Steps, Callable[[], float]]:
    """The loop of tokenlearn 0.2: padded ids, dense AdamW, a linear layer after the mean."""
    from tokenlearn.pretrain import StaticModelFineTuner, TextDataset
    from torch.utils.data import DataLoader

    table = student._folded()
    table[~student._used] = 1e-3
    model = StaticModelFineTuner(torch.from_numpy(table), examples.targets.shape[1], pad_id=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = np.random.default_rng(0).permutation(len(examples))
    tokens, targets = examples.select(rows)
    ids = [part.tolist() for part in np.split(tokens.ids, tokens.offsets[1:-1])]
    pairs: Any = list(zip(ids, torch.from_numpy(targets), strict=True))
    loader = DataLoader(pairs, batch_size=BATCH, shuffle=True, collate_fn=TextDataset.collate_fn)
    order = (batch for _ in count() for batch in loader)

    def run() -> None:
        for _ in range(steps):
            ids, wanted = next(order)
            optimizer.zero_grad()
            found, _ = model(ids)
            mse_loss(found, wanted).backward()
            optimizer.step()

    @torch.no_grad()
    def dev_loss() -> float:
        ids, _ = dev.tokens.padded(0)
        return float(mse_loss(model(torch.from_numpy(ids))[0], torch.from_numpy(np.array(dev.targets))))

    return run, dev_loss


if __name__ == "__main__":
    main()
