"""A small regression, which the tests of the loop train."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from pipeline.training.checkpoint import Checkpoint
from pipeline.training.loop import Point, Settings, fit

ROWS = 10


def settings(**changes: Any) -> Settings:
    base = {"name": "tiny", "rows": ROWS, "epochs": 3, "batch_size": 4, "lr": 0.1, "schedule": "linear"}
    return Settings(**{**base, "warmup": 0.2, "evaluations": 4, "seed": 0, **changes})


class Regression:
    """A two-layer network and its data; another start is other weights before training."""

    def __init__(self, start: int = 0) -> None:
        random = np.random.default_rng(0)
        inputs, targets = random.standard_normal((2, 2 * ROWS, 3)).astype(np.float32)
        self.inputs, self.targets = torch.from_numpy(inputs), torch.from_numpy(targets)
        self.module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
        starting = torch.Generator().manual_seed(start)
        for parameter in self.module.parameters():
            nn.init.normal_(parameter, generator=starting)
        self.batches: list[list[int]] = []

    def loss_of(self, rows: np.ndarray) -> Tensor:
        self.batches.append(rows.tolist())
        return mse_loss(self.module(self.inputs[rows]), self.targets[rows])

    @torch.no_grad()
    def dev_value(self) -> float:
        return mse_loss(self.module(self.inputs[ROWS:]), self.targets[ROWS:]).item()

    def fit(self, chosen: Settings, cache: Path, seconds: float = 1e9) -> list[Point]:
        checkpoint = Checkpoint(cache / "state.safetensors")
        return fit(self.module, self.loss_of, self.dev_value, chosen, checkpoint, seconds)

    def weights(self) -> bytes:
        return b"".join(tensor.numpy().tobytes() for tensor in self.module.state_dict().values())
