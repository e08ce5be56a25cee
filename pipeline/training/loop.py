"""The one training loop: batches of rows, a loss, a dev value to bring down, the best weights kept."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.core.progress import progress
from pipeline.training.checkpoint import Checkpoint, restore_optimizer
from pipeline.training.guard import check_loss
from pipeline.training.schedule import schedule_factor

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """How long and how fast; the fields are those of `students.NAME.train` and `.finetune`."""

    name: str
    rows: int
    epochs: int
    batch_size: int
    lr: float
    schedule: str
    warmup: float
    evaluations: int
    seed: int
    weight_decay: float = 0.0
    clip_norm: float | None = None
    patience: int | None = None
    precision: str = "float32"

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch, the last one smaller."""
        return -(-self.rows // self.batch_size)

    @property
    def steps(self) -> int:
        """Most optimizer steps."""
        return self.epochs * self.steps_per_epoch

    def batch(self, step: int) -> Rows:
        """The rows of a step: a new order every epoch, which depends on the seed and the epoch alone."""
        epoch, number = divmod(step, self.steps_per_epoch)
        order = _epoch_order(self.rows, self.seed, epoch)
        return order[number * self.batch_size : (number + 1) * self.batch_size]

    def evaluation_steps(self) -> set[int]:
        """After how many steps the dev value is taken, the start (0) and the end included."""
        return {round(self.steps * part / self.evaluations) for part in range(self.evaluations + 1)}


@lru_cache(maxsize=1)
def _epoch_order(rows: int, seed: int, epoch: int) -> Rows:
    return np.random.default_rng([seed, epoch]).permutation(rows)


@dataclass
class Point:
    """One line of the training curve."""

    step: int
    sentences: int
    lr: float
    train_loss: float
    dev_value: float


@dataclass
class Progress:
    """What a resumed run needs beside tensors."""

    step: int = 0
    best: float = float("inf")
    best_step: int = 0
    since_best: int = 0
    halvings: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0


def fit(
    module: nn.Module,
    loss_of: Callable[[Rows], Tensor],
    dev_value: Callable[[], float],
    settings: Settings,
    checkpoint: Checkpoint,
    checkpoint_seconds: float,
) -> list[Point]:
    """Train `module` in place and leave it with the weights of the lowest dev value, untrained ones included.

    Args:
        module: what is trained.
        loss_of: the loss of a batch of row numbers.
        dev_value: the value to bring down, taken `settings.evaluations` times and before the first step.
        settings: how long and how fast.
        checkpoint: where an interrupted run's state lies; it is resumed from there, to the same result.
        checkpoint_seconds: how often that state is written.

    Returns:
        The curve, one point an evaluation.

    Raises:
        UserError: the loss is not finite.
    """
    run = _Run(module, settings)
    run.resume(checkpoint)
    evaluations = settings.evaluation_steps()
    written = time.monotonic()
    with progress(f"train {settings.name}", settings.steps, "steps") as advance:
        advance(run.at.step)
        while True:
            if run.at.step in evaluations and (not run.curve or run.curve[-1].step < run.at.step):
                run.evaluate(dev_value())
            if run.at.step >= settings.steps or run.out_of_patience():
                break
            run.step(loss_of)
            advance(1)
            if time.monotonic() - written > checkpoint_seconds:
                run.save(checkpoint)
                written = time.monotonic()
    module.load_state_dict(run.best)
    return run.curve


class _Run:
    """The moving parts of one training."""

    def __init__(self, module: nn.Module, settings: Settings) -> None:
        self.module = module
        self.settings = settings
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            trained, lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        self.at = Progress()
        self.curve: list[Point] = []
        self.best = _copy(module)

    def step(self, loss_of: Callable[[Rows], Tensor]) -> None:
        settings, at = self.settings, self.at
        lr = self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        autocast = (
            torch.autocast("cpu", torch.bfloat16) if settings.precision == "bfloat16" else nullcontext()
        )
        with autocast:
            loss = loss_of(settings.batch(at.step))
        check_loss(loss.item(), at.step, settings.name)
        self.optimizer.zero_grad()
        loss.backward()
        if settings.clip_norm:
            nn.utils.clip_grad_norm_(self.module.parameters(), settings.clip_norm)
        self.optimizer.step()
        at.step += 1
        at.loss_sum += loss.item()
        at.loss_count += 1

    def learning_rate(self) -> float:
        settings = self.settings
        warmup_steps = round(settings.warmup * settings.steps)
        factor = schedule_factor(settings.schedule, self.at.step, settings.steps, warmup_steps)
        return settings.lr * factor * 0.5**self.at.halvings

    def evaluate(self, value: float) -> None:
        at = self.at
        check_loss(value, at.step, self.settings.name)
        loss = at.loss_sum / at.loss_count if at.loss_count else float("nan")
        epochs, batches = divmod(at.step, self.settings.steps_per_epoch)
        sentences = epochs * self.settings.rows + batches * self.settings.batch_size
        self.curve.append(Point(at.step, sentences, self.learning_rate(), loss, value))
        at.loss_sum, at.loss_count = 0.0, 0
        if value < at.best:
            at.best, at.best_step, at.since_best = value, at.step, 0
            self.best = _copy(self.module)
        else:
            at.since_best += 1
            at.halvings += self.settings.schedule == "plateau"

    def out_of_patience(self) -> bool:
        return self.settings.patience is not None and self.at.since_best >= self.settings.patience

    def save(self, checkpoint: Checkpoint) -> None:
        state = {"progress": asdict(self.at), "curve": [asdict(point) for point in self.curve]}
        checkpoint.save(self.module.state_dict(), self.best, self.optimizer.state_dict(), state)

    def resume(self, checkpoint: Checkpoint) -> None:
        saved = checkpoint.load()
        if saved is None:
            return
        groups, state = saved
        self.module.load_state_dict(groups["weights"])
        self.best = groups["best"]
        restore_optimizer(self.optimizer, groups["optimizer"])
        self.at = Progress(**state["progress"])
        self.curve = [Point(**point) for point in state["curve"]]


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
