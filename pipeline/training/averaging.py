"""An exponential moving average of weights while they are trained."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class Average:
    """The average of a module's trained parameters; buffers are as the last step left them.

    After step t it is d e + (1 - d) w, d = min(decay, (1 + t) / (10 + t)), from the starting weights on: the
    first ones are forgotten soon, as with TensorFlow's ExponentialMovingAverage.

    Args:
        module: what is trained.
        decay: share of the average that a step leaves, once there have been many.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._decay = decay
        self._trained = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        self.tensors: dict[str, Tensor] = {
            name: weight.detach().clone() for name, weight in self._trained.items()
        }
        """By name of the parameter."""

    def update(self, step: int) -> None:
        """Take in the weights after the `step`-th step, counted from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        get_ema_multi_avg_fn(decay)(list(self.tensors.values()), list(self._trained.values()), step)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put a saved average back."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The module has the average for its weights, and gets its own back, bit by bit."""
        own = {name: weight.detach().clone() for name, weight in self._trained.items()}
        self._set(self.tensors)
        try:
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, tensors: dict[str, Tensor]) -> None:
        for name, weight in self._trained.items():
            weight.copy_(tensors[name])
