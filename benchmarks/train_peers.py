"""The usual trainers beside which ours is timed, and the batches that all of them take."""

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import mse_loss

from pipeline.train.loop.data import Examples
from pipeline.train.loop.loop import Settings
from pipeline.train.loop.mixture import Portion
from pipeline.train.students.kinds import static
from pipeline.train.students.shared.base.interface import Student

BATCH = 256
Steps = Callable[[], float | None]
"""Makes the steps of a round; the seconds that they took, where the call sets up more than that."""


def batches(rows: int) -> Iterator[NDArray[np.int64]]:
    """Random batches without end, the same for all."""
    settings = Settings("student", (Portion(rows),), 1000, BATCH, 1e-4, "linear", 0.0, 1, 0)
    return (settings.batch(step) for step in count())


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
