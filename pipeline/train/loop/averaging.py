"""Averages that are evaluated and kept in place of the trained weights: over the steps, or with the start."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class Averaging(ABC):
    """What a module's trained parameters are while it is evaluated; its buffers stay as they are.

    Args:
        module: what is trained.
    """

    def __init__(self, module: nn.Module) -> None:
        self._trained = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        self.tensors: dict[str, Tensor] = {
            name: weight.detach().clone() for name, weight in self._trained.items()
        }
        """What a resumed run needs, by name of the parameter: at first the weights at the start."""

    def update(self, step: int) -> None:  # noqa: B027 - only an average over steps has to
        """Take in the weights after the `step`-th step, counted from 1."""

    @abstractmethod
    def weights(self) -> Mapping[str, Tensor]:
        """What is shown, by name of the parameter."""

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put saved `tensors` back."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The module has these weights, and gets its own back, bit by bit."""
        own = {name: weight.detach().clone() for name, weight in self._trained.items()}
        self._set(self.weights())
        try:
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, tensors: Mapping[str, Tensor]) -> None:
        for name, weight in self._trained.items():
            weight.copy_(tensors[name])


class MovingAverage(Averaging):
    """The exponential moving average.

    After step t it is d e + (1 - d) w, d = min(decay, (1 + t) / (10 + t)), from the starting weights on: the
    first ones are forgotten soon, as with TensorFlow's ExponentialMovingAverage.

    Args:
        module: what is trained.
        decay: share of the average that a step leaves, once there have been many.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        super().__init__(module)
        self._decay = decay

    def update(self, step: int) -> None:
        """Take in the weights after the `step`-th step, counted from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        get_ema_multi_avg_fn(decay)(list(self.tensors.values()), list(self._trained.values()), step)

    def weights(self) -> Mapping[str, Tensor]:
        """The average."""
        return self.tensors


class Interpolation(Averaging):
    """The line from the starting weights to the trained ones (WiSE-FT, Wortsman et al. 2022, eq. 1).

    Args:
        module: what is trained.
        share: of the trained weights, alpha in the paper.
    """

    def __init__(self, module: nn.Module, share: float) -> None:
        super().__init__(module)
        self._share = share

    @torch.no_grad()
    def weights(self) -> Mapping[str, Tensor]:
        """(1 - share) of the start and `share` of the trained weights."""
        return {name: start.lerp(self._trained[name], self._share) for name, start in self.tensors.items()}
