"""Random batches and what losses are built for."""

from pathlib import Path

import numpy as np
import torch

from pipeline.train.loop.loss import Batch, LossContext


def vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def context(dim: int = 4, target_dim: int = 4, rows: int = 20, **more) -> LossContext:
    return LossContext(dim, target_dim, rows, **{"longest": 9, "teacher": Path("none"), "seed": 0, **more})


def batch(student: torch.Tensor, targets: torch.Tensor | None = None, **more) -> Batch:
    """Rows 0, 1, ... unless given."""
    there = torch.zeros_like(student) if targets is None else targets
    return Batch(student, there, **{"rows": torch.arange(len(student)), **more})
