"""The processes that train together: one, or as many as torchrun starts."""

import os
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.core.errors import UserError
from pipeline.core.machine import find_device

Rows = NDArray[np.int64]

LONGEST_WAIT = timedelta(days=7)
"""Of a process for another, which may tokenise a large corpus or wait for an earlier run."""


@dataclass(frozen=True)
class World:
    """One process among `size`; a step's sentences are shared out among them."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"
    """Where this process trains."""

    @classmethod
    def join(cls, device: str = "auto") -> "World":
        """The world that torchrun has started this process in; alone without it.

        Args:
            device: `runtime.device`. Several processes take a GPU each.

        Raises:
            UserError: torch sees no such device.
        """
        device = find_device(device)
        if processes() == 1:
            return cls(device=device)
        on_gpus = device != "cpu"
        here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.accelerator.device_count()
        if on_gpus and here > gpus:
            raise UserError(
                f"torchrun has started {here} processes on a machine of {gpus} GPUs, and each takes one; "
                f"run torchrun with --nproc-per-node {gpus}, or set runtime.device: cpu"
            )
        from accelerate import PartialState

        state = PartialState(cpu=not on_gpus, timeout=LONGEST_WAIT)
        return cls(state.process_index, state.num_processes, str(state.device))

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def share(self, rows: Rows) -> Rows:
        """This process' part of a step's rows."""
        return rows[self.rank :: self.size]

    def rows_before(self, rows: int) -> int:
        """How many of a step's rows go to processes of lower rank."""
        return sum(len(range(rank, rows, self.size)) for rank in range(self.rank))

    def all_rows(self, rows: Rows) -> Rows:
        """A step's rows in the order in which `gathered` has them."""
        return np.concatenate([rows[rank :: self.size] for rank in range(self.size)])

    def gathered(self, part: Tensor, rows: int) -> Tensor:
        """The parts (k, d) of all processes, end to end, `rows` in all; without gradient."""
        if self.size == 1:
            return part.detach()
        from accelerate.utils import gather, pad_across_processes

        lengths = [len(range(rank, rows, self.size)) for rank in range(self.size)]
        whole = gather(pad_across_processes(part.detach().contiguous(), dim=0))
        return torch.cat(
            [piece[:length] for piece, length in zip(whole.chunk(self.size), lengths, strict=True)]
        )

    def add_up(self, tensors: list[Tensor]) -> None:
        """Replace each float32 tensor by its sum over the processes, in one exchange."""
        if self.size > 1:
            from accelerate.utils import reduce

            together = torch.cat([tensor.to(self.device).flatten() for tensor in tensors])
            sums = reduce(together, "sum").split([tensor.numel() for tensor in tensors])
            for tensor, found in zip(tensors, sums, strict=True):
                tensor.copy_(found.view_as(tensor))

    def agree(self, number: int) -> bool:
        """Whether every process has this number."""
        if self.size == 1:
            return True
        from accelerate.utils import gather

        return bool((gather(torch.tensor([number], device=self.device)) == number).all())

    def of_the_leader(self, number: float) -> float:
        """The leading process' number, whatever the others have."""
        if self.size == 1:
            return number
        from accelerate.utils import broadcast

        return float(broadcast(torch.tensor([number], dtype=torch.float64, device=self.device)))

    def follow(self, module: nn.Module) -> None:
        """Take the leading process' weights: another CPU may round differently, or turn an eigenvector."""
        if self.size > 1:
            from accelerate.utils import broadcast

            for tensor in module.state_dict().values():
                tensor.copy_(broadcast(tensor.to(self.device)))

    def wait(self) -> None:
        """Until every process has come here."""
        if self.size > 1:
            from accelerate.utils import wait_for_everyone

            wait_for_everyone()


def processes() -> int:
    """As many as torchrun has started; one without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))
