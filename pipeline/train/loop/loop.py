"""The one training loop: batches of rows, a loss, a dev value to bring down, the best weights kept."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.core import memory
from pipeline.core.errors import UserError
from pipeline.core.progress import progress
from pipeline.train.loop.ahead import ReadAhead
from pipeline.train.loop.averaging import Averaging, Interpolation, MovingAverage
from pipeline.train.loop.checkpoint import FINISHED, Checkpoint
from pipeline.train.loop.guard import check_finite
from pipeline.train.loop.mixture import Batches, Portion, epochs
from pipeline.train.loop.optimizers import Optimizers, clip_gradients
from pipeline.train.loop.schedule import schedule_factor
from pipeline.train.loop.world import World

ALONE = World()
Rows = NDArray[np.int64]
Backward = Callable[[Rows], Mapping[str, float]]
"""Row numbers of a batch: adds its gradients to the parameters, and gives `loss` and what else the curve
shows."""


@dataclass(frozen=True)
class Settings:
    """How long and how fast; the fields are those of `students.NAME.train` and `.finetune`."""

    name: str
    portions: tuple[Portion, ...]
    epochs: float
    batch_size: int
    lr: float
    schedule: str
    warmup: float
    evaluations: int
    seed: int
    weight_decay: float = 0.0
    clip_norm: float | None = None
    patience: int | None = None
    sparse: bool = False
    average: float | None = None
    """Decay of the moving average that the dev value is of; None: it is of the weights themselves."""
    block: Literal["train", "finetune", "classify"] = "train"
    """Where in `students.NAME` they are, for messages; or the stage, which has them in `classifiers`."""
    interpolation: float = 1.0
    """Share of the trained weights in those that the dev value is of, beside the weights at the start."""
    bfloat16: bool = False
    """Whether the products are of bfloat16, as `backward` and `dev_value` see to; kept for a resumed run."""
    beside: Batches | None = None
    """Of other examples, of which every step reads a batch too."""

    @cached_property
    def own(self) -> Batches:
        """The examples of which the epochs are."""
        return Batches(self.portions, self.batch_size, self.seed)

    @property
    def steps(self) -> int:
        """Most optimizer steps."""
        return max(1, round(self.epochs * self.own.steps_per_epoch))

    def batch(self, step: int) -> Rows:
        """The rows of a step; those of `beside` follow, numbered on from its own."""
        own = self.own.batch(step)
        return np.concatenate([own, self._first_beside + self.beside.batch(step)]) if self.beside else own

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """The rows of a step that are its own, and those of `beside` by their own numbers."""
        are_own = rows < self._first_beside
        return rows[are_own], rows[~are_own] - self._first_beside

    @property
    def _first_beside(self) -> int:
        return sum(portion.rows for portion in self.portions)

    def evaluation_steps(self) -> set[int]:
        """After how many steps the dev value is taken, the start (0) and the end included."""
        return {round(self.steps * part / self.evaluations) for part in range(self.evaluations + 1)}


@dataclass
class Point:
    """One line of the training curve."""

    step: int
    examples: int
    """Texts of a distillation, triplets of a fine-tuning, that have been seen."""
    lr: float
    train_loss: float
    dev_value: float
    measures: dict[str, float] = field(default_factory=dict)
    """Means since the last point of what the losses tell beside their sum."""
    precision: str = "float32"
    """Of the products."""
    examples_per_second: float = field(default=float("nan"), compare=False, repr=False)
    """Since the last point, or since the run was resumed."""


@dataclass
class Progress:
    """What a resumed run needs beside tensors."""

    step: int = 0
    best: float = float("inf")
    best_step: int = 0
    since_best: int = 0
    halvings: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    """Of what the batches since the last point gave."""
    count: int = 0


def fit(
    module: nn.Module,
    backward: Backward,
    dev_value: Callable[[], float],
    settings: Settings,
    checkpoint: Checkpoint,
    checkpoint_seconds: float,
    *,
    losses: nn.Module | None = None,
    world: World = ALONE,
    read_ahead: Callable[[Rows], None] | None = None,
) -> list[Point]:
    """Train `module` in place and leave it with the weights of the lowest dev value, untrained ones included.

    With `settings.average` these are averaged weights, with `settings.interpolation` weights between those at
    the start and the trained ones.

    Args:
        module: what is trained and kept.
        backward: one batch's gradients.
        dev_value: the value to bring down, taken `settings.evaluations` times and before the first step.
        settings: how long and how fast.
        checkpoint: where an interrupted run's state lies; it is resumed from there, to the same result. That
            of a finished training, its best weights, stays until `clear`.
        checkpoint_seconds: how often that state is written.
        losses: what is trained along and dropped.
        world: the processes that train the same module.
        read_ahead: has the disk read the rows of a batch to come.

    Returns:
        The curve, one point an evaluation.

    Raises:
        UserError: the loss or the dev value is not finite.
    """
    memory.say_of_training(settings.name, sum(weight.nbytes for weight in module.parameters()))
    run = _Run(module, losses or nn.Module(), settings)
    run.resume(checkpoint)
    if not world.agree(run.at.step):
        raise UserError(
            "its processes resume from different steps; let runtime.cache be one folder that all of them see"
        )
    evaluations = settings.evaluation_steps()
    written = time.monotonic()
    with (
        progress(f"{settings.block} {settings.name}", settings.steps, "steps", done=run.at.step) as advance,
        ReadAhead(read_ahead, settings.batch, *epochs(settings.own, settings.beside)) as ahead,
    ):
        while True:
            if run.at.step in evaluations and (not run.curve or run.curve[-1].step < run.at.step):
                with run.averaging.shown() if run.averaging else nullcontext():
                    # One process' value decides, or rounding could part their rates and their ends.
                    run.evaluate(lambda: world.of_the_leader(dev_value()))
                memory.give_back()
            if run.at.step >= settings.steps or run.out_of_patience():
                break
            ahead.come_to(run.at.step)
            run.step(backward)
            advance(1)
            if world.leads and time.monotonic() - written > checkpoint_seconds:
                run.save(checkpoint)
                written = time.monotonic()
    if world.leads:
        run.save_finished(checkpoint)
    module.load_state_dict(run.best)
    return run.curve


class _Run:
    """The moving parts of one training."""

    def __init__(self, module: nn.Module, losses: nn.Module, settings: Settings) -> None:
        self.module = module
        self.everything = nn.ModuleDict({"student": module, "losses": losses})
        self.settings = settings
        self.optimizers = Optimizers(
            self.everything, settings.lr, settings.weight_decay, sparse=settings.sparse
        )
        self.averaging = _averaging(self.everything, settings)
        self.at = Progress()
        self.curve: list[Point] = []
        self.best = _copy(module)
        self.since = time.monotonic()
        self.seen = 0

    def step(self, backward: Backward) -> None:
        settings, at = self.settings, self.at
        self.optimizers.set_rate(self.learning_rate())
        self.optimizers.zero_grad()
        rows = settings.batch(at.step)
        told = backward(rows)
        check_finite(told["loss"], "the loss", at.step, settings.block)
        if settings.clip_norm:
            clip_gradients(self.everything.parameters(), settings.clip_norm)
        self.optimizers.step()
        at.step += 1
        if self.averaging:
            self.averaging.update(at.step)
        at.count += 1
        for name, value in told.items():
            at.sums[name] = at.sums.get(name, 0.0) + float(value)
        self.seen += len(settings.split(rows)[0])

    def learning_rate(self) -> float:
        settings = self.settings
        warmup_steps = round(settings.warmup * settings.steps)
        factor = schedule_factor(settings.schedule, self.at.step, settings.steps, warmup_steps)
        return settings.lr * factor * 0.5**self.at.halvings

    def evaluate(self, dev_value: Callable[[], float]) -> None:
        at, now = self.at, time.monotonic()
        value = dev_value()
        check_finite(value, "the dev value", at.step, self.settings.block)
        means = {name: total / at.count for name, total in at.sums.items()}
        loss = means.pop("loss", float("nan"))
        epochs, batches = divmod(at.step, self.settings.own.steps_per_epoch)
        examples = epochs * self.settings.own.rows + batches * self.settings.batch_size
        speed = self.seen / (now - self.since) if self.seen else float("nan")
        products = "bfloat16" if self.settings.bfloat16 else "float32"
        self.curve.append(Point(at.step, examples, self.learning_rate(), loss, value, means, products, speed))
        at.sums, at.count = {}, 0
        self.seen = 0
        if value < at.best:
            at.best, at.best_step, at.since_best = value, at.step, 0
            self.best = _copy(self.module)
        else:
            at.since_best += 1
            at.halvings += self.settings.schedule == "plateau"
        self.since = time.monotonic()

    def out_of_patience(self) -> bool:
        return self.settings.patience is not None and self.at.since_best >= self.settings.patience

    def state(self) -> dict[str, Any]:
        return {
            "progress": asdict(self.at),
            "curve": [asdict(point) for point in self.curve],
            "bfloat16": self.settings.bfloat16,
        }

    def save(self, checkpoint: Checkpoint) -> None:
        state = self.state()
        averaging = self.averaging.tensors if self.averaging else {}
        checkpoint.save(self.everything.state_dict(), self.best, self.optimizers.tensors(), state, averaging)

    def save_finished(self, checkpoint: Checkpoint) -> None:
        """Save what is left to know of a training that is over, of its losses too: metrics may tell it."""
        losses = self.everything["losses"].state_dict()
        checkpoint.save(losses, self.best, {}, self.state() | {FINISHED: True})
        checkpoint.before.unlink(missing_ok=True)

    def resume(self, checkpoint: Checkpoint) -> None:
        saved = checkpoint.load()
        if saved is None:
            return
        groups, state = saved
        self.best = groups["best"]
        if state.get(FINISHED):
            self.everything["losses"].load_state_dict(groups["weights"])
        else:
            self.everything.load_state_dict(groups["weights"])
            self.optimizers.restore(groups["optimizer"])
            if self.averaging:
                self.averaging.restore(groups["averaging"])
        self.at = Progress(**state["progress"])
        self.curve = [Point(**point) for point in state["curve"]]


def _averaging(module: nn.Module, settings: Settings) -> Averaging | None:
    """What the dev value is of; None: the weights themselves."""
    assert not settings.average or settings.interpolation == 1, "one average at a time"
    if settings.average:
        return MovingAverage(module, settings.average)
    return Interpolation(module, settings.interpolation) if settings.interpolation < 1 else None


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
