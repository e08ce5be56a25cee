"""AdamW, with SparseAdam for tables of which a step meets few rows."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class Optimizers:
    """The optimizers of all trained parameters of a module.

    Args:
        module: what is trained.
        lr: learning rate.
        weight_decay: of AdamW; SparseAdam has none.
        sparse: whether the module gives sparse gradients to its embedding tables.
    """

    def __init__(self, module: nn.Module, lr: float, weight_decay: float, *, sparse: bool) -> None:
        tables = {id(parameter) for parameter in sparse_parameters(module)} if sparse else set()
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        dense = [parameter for parameter in trained if id(parameter) not in tables]
        self._all: list[torch.optim.Optimizer] = []
        if dense:
            self._all.append(torch.optim.AdamW(dense, lr=lr, weight_decay=weight_decay, fused=True))
        if tables:
            self._all.append(
                torch.optim.SparseAdam([parameter for parameter in trained if id(parameter) in tables], lr=lr)
            )

    def set_rate(self, lr: float) -> None:
        """Set the learning rate of the next step."""
        for optimizer in self._all:
            for group in optimizer.param_groups:
                group["lr"] = lr

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for optimizer in self._all:
            optimizer.zero_grad()

    def step(self) -> None:
        """Update all parameters that have a gradient."""
        for optimizer in self._all:
            optimizer.step()

    def tensors(self) -> dict[str, Tensor]:
        """The moments and step counts, by "OPTIMIZER/PARAMETER/NAME"."""
        return {
            f"{number}/{index}/{name}": torch.as_tensor(value)
            for number, optimizer in enumerate(self._all)
            for index, moments in optimizer.state_dict()["state"].items()
            for name, value in moments.items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put saved moments back."""
        states: list[dict[int, dict[str, Any]]] = [{} for _ in self._all]
        for key, tensor in tensors.items():
            number, index, name = key.split("/")
            states[int(number)].setdefault(int(index), {})[name] = tensor
        for optimizer, state in zip(self._all, states, strict=True):
            if isinstance(optimizer, torch.optim.SparseAdam):
                for moments in state.values():
                    moments["step"] = int(moments["step"])
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": state, "param_groups": groups})


def sparse_parameters(module: nn.Module) -> list[Tensor]:
    """The tables that get sparse gradients."""
    tables = (part for part in module.modules() if isinstance(part, nn.Embedding) and part.sparse)
    return [table.weight for table in tables if table.weight.requires_grad]


def clip_gradients(parameters: Iterable[nn.Parameter], longest: float) -> None:
    """Scale all gradients, sparse ones too, so that together they are no longer than `longest` (L2)."""
    values: list[Tensor] = []
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None:
            continue
        if gradient.is_sparse:
            parameter.grad = gradient = gradient.coalesce()
            gradient = gradient.values()
        values.append(gradient)
    if values:
        norm = float(torch.linalg.vector_norm(torch.stack([value.norm() for value in values])))
        if norm > longest:
            for value in values:
                value.mul_(longest / norm)
