"""Linear layers by oneDNN: laid out once to encode, with gradients to train.

torch's own products are MKL's in float32 on x86, which takes fewer of a processor's instructions where it is
not Intel's: half the speed on an AMD with AVX-512.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu, linear

from pipeline.core.progress import say

PREPACKED_ROWS = 2048
"""Tokens that oneDNN lays a weight out for; other numbers work too."""

Transform = Callable[[Tensor], Tensor]
"""(tokens, d_in) -> (tokens, d_out)."""
Activation = Callable[[Tensor], Tensor]
Context = Any
"""What autograd keeps from forward for backward: torch's type does not tell what that is."""


def prepared(weight: Tensor, bias: Tensor, activation: Activation | None = None) -> Transform:
    """A linear layer with an optional activation, its weight laid out for oneDNN where that can be done."""
    if weight.device.type == "cpu":
        try:
            return _prepacked(weight, bias, activation)
        except (RuntimeError, AttributeError, NotImplementedError):
            _say_slower()  # _prepacked is of private parts of torch

    def plain(states: Tensor) -> Tensor:
        out = linear(states, weight, bias)
        return activation(out) if activation else out

    return plain


@cache
def _say_slower() -> None:
    say(f"warning: torch {torch.__version__} cannot lay weights out for oneDNN: the same vectors, slower")


def _prepacked(weight: Tensor, bias: Tensor, activation: Activation | None) -> Transform:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, PREPACKED_ROWS)
    fused = is_gelu(activation)
    name, algorithm = ("gelu", "none") if fused else ("none", None)

    def product(states: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(states, packed, bias, name, [], algorithm)
        return out if fused or activation is None else activation(out)

    product(weight.new_zeros(1, weight.shape[1]))
    return product


def is_gelu(activation: Activation | None) -> bool:
    """Whether an activation is the exact GELU, which oneDNN computes along with the product."""
    probe = torch.linspace(-4, 4, 33)
    return activation is not None and torch.equal(activation(probe), gelu(probe))


def trained(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer with gradients: (tokens, d_in), (d_out, d_in), (d_out,) -> (tokens, d_out).

    In float32 on a CPU by oneDNN, in autocast and elsewhere as torch computes it.
    """
    on_cpu = states.is_cpu and states.dtype == weight.dtype == torch.float32
    if on_cpu and not torch.is_autocast_enabled("cpu") and _has_products():
        return _Product.apply(states, weight, bias)
    return linear(states, weight, bias)


class _Product(torch.autograd.Function):
    """states weight^T + bias; its gradients are two more products."""

    @staticmethod
    def forward(ctx: Context, states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(tokens, d_out)."""
        ctx.save_for_backward(states, weight)
        return _product(states, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From (tokens, d_out), to the states, the weight and the bias."""
        states, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        to_states = _product(gradient, weight.t().contiguous())
        to_weight = _product(gradient.t().contiguous(), states.t().contiguous())
        return to_states, to_weight, gradient.sum(0)


def _product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """(n, k), (m, k), (m,) -> (n, m), without gradients."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], None)
    return found


@cache
def _has_products() -> bool:
    """Whether torch still has these private parts, and oneDNN."""
    try:
        _product(torch.zeros(1, 2), torch.zeros(3, 2), torch.zeros(3))
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    return True
