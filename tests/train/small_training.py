"""Small regressions, which the tests of the loop train."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.loop import Point, Settings, fit
from pipeline.train.loop.mixture import Portion

ROWS = 10


def settings(**changes: Any) -> Settings:
    base = {
        "name": "tiny",
        "portions": (Portion(ROWS),),
        "epochs": 3,
        "batch_size": 4,
        "lr": 0.1,
        "schedule": "linear",
    }
    return Settings(**{**base, "warmup": 0.2, "evaluations": 4, "seed": 0, **changes})


class Regression:
    """A two-layer network and its data; another start is other weights before training."""

    losses: nn.Module | None = None

    def __init__(self, start: int = 0) -> None:
        random = np.random.default_rng(0)
        inputs, targets = random.standard_normal((2, 2 * ROWS, 3)).astype(np.float32)
        self.inputs, self.targets = torch.from_numpy(inputs), torch.from_numpy(targets)
        self.module: nn.Module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
        starting = torch.Generator().manual_seed(start)
        for parameter in self.module.parameters():
            nn.init.normal_(parameter, generator=starting)
        self.batches: list[list[int]] = []

    def loss_of(self, rows: np.ndarray) -> Tensor:
        return mse_loss(self.module(self.inputs[rows]), self.targets[rows])

    def backward(self, rows: np.ndarray) -> dict[str, float]:
        self.batches.append(rows.tolist())
        loss = self.loss_of(rows)
        loss.backward()
        return {"loss": loss.item(), "first_row": float(rows[0])}

    @torch.no_grad()
    def dev_value(self) -> float:
        return mse_loss(self.module(self.inputs[ROWS:]), self.targets[ROWS:]).item()

    def fit(self, chosen: Settings, cache: Path, seconds: float = 1e9) -> list[Point]:
        checkpoint = Checkpoint(cache / "state.safetensors")
        return fit(
            self.module, self.backward, self.dev_value, chosen, checkpoint, seconds, losses=self.losses
        )

    def weights(self) -> bytes:
        return weights(self.module)


class Table(Regression):
    """A table with sparse gradients, of which a batch meets few rows, under a dense layer."""

    def __init__(self, start: int = 0) -> None:
        super().__init__(start)
        self.module = nn.Sequential(nn.Embedding(2 * ROWS, 4, sparse=True), nn.Linear(4, 3))
        starting = torch.Generator().manual_seed(start)
        for parameter in self.module.parameters():
            nn.init.normal_(parameter, generator=starting)
        self.inputs = torch.arange(2 * ROWS) % (ROWS + 2)


class Projected(Regression):
    """A loss with a matrix that is trained along, and a count of what it has seen."""

    def __init__(self, start: int = 0) -> None:
        super().__init__(start)
        self.losses = nn.Linear(3, 3)
        starting = torch.Generator().manual_seed(start + 1)
        for parameter in self.losses.parameters():
            nn.init.normal_(parameter, generator=starting)
        self.losses.register_buffer("seen", torch.zeros(ROWS))

    def loss_of(self, rows: np.ndarray) -> Tensor:
        self.losses.seen[rows] += 1
        weights = 1 / (1 + self.losses.seen[rows, None])  # so that a lost buffer shows
        projected = self.losses(self.module(self.inputs[rows]))
        return (weights * (projected - self.targets[rows]).square()).mean()


def weights(module: nn.Module) -> bytes:
    return b"".join(tensor.numpy().tobytes() for tensor in module.state_dict().values())
