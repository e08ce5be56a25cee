"""What training asks of a loss of any kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.data.tokens.tokens import Tokens

if TYPE_CHECKING:
    from pipeline.train.distillation.states import TeacherStates


@dataclass(frozen=True)
class Batch:
    """n sentences with T tokens in all; everything is float32."""

    vectors: Tensor
    """(n, dim) the student's vectors."""
    targets: Tensor
    """(n, target_dim) the teacher's."""
    rows: Tensor
    """(n,) int64: which of the training sentences these are; in eval mode it is not looked at."""
    inputs: Tensor | None = None
    """(n, d) means over each sentence of the student's embedding layer's output."""
    tokens: Tokens | None = None
    """The n sentences' token ids."""
    embedded: Tensor | None = None
    """(T, d) the student's embedding layer's output, in the order of `tokens.ids`."""

    states: Mapping[int, Tensor] = field(default_factory=dict)
    """(T, width) the hidden states of the student's layers that are asked for, by layer, in the same order;
    none in eval mode."""

    def without_tokens(self) -> "Batch":
        """What a loss over the batch sees of it, in far less memory."""
        return replace(self, tokens=None, embedded=None, states={})


@dataclass(frozen=True)
class LossContext:
    """What a loss is built for."""

    dim: int
    """Of the student's vectors."""
    target_dim: int
    rows: int
    """Training sentences."""
    longest: int
    """Tokens of the longest sentence, training or dev."""
    teacher: Path
    """The folder of the teacher's parts."""
    seed: int
    token_table: Callable[[], Tensor] | None = None
    """The student's word vectors (V, d) in the space that its first layer reads, differentiable; called for
    every batch. None where the student has no such table."""
    teacher_ids: NDArray[np.int64] | None = None
    """(V,) the teacher's ids of the student's tokens; None where they are the same."""
    layers: int = 0
    """Of the student; 0 where it has none."""
    width: int = 0
    """Of their hidden states."""
    hidden: "TeacherStates | None" = None
    """The teacher's hidden states; None where no loss reads them."""


class Loss(nn.Module):
    """A distillation loss, with the parameters that it trains along.

    A kind's module has `build(params, context) -> Loss`. In eval mode a batch is of dev sentences, and
    nothing is remembered of it. Losses are computed outside autocast: their exponentials need float32.
    """

    over: Literal["sentences", "tokens", "batch"] = "batch"
    """What the loss is a mean over. One over sentences or tokens can be added up from parts of a batch; one
    over the batch needs all its vectors at once."""
    of_vectors = True
    """Whether it looks at `Batch.vectors`; one that does not is taken once, whatever the prefixes."""
    needs_inputs = False
    """Whether it reads `Batch.inputs`."""
    needs_embedded = False
    """Whether it reads `Batch.tokens` and `Batch.embedded`."""
    layers: tuple[int, ...] = ()
    """The student's layers that it reads in `Batch.states`, beside `Batch.tokens`."""

    def forward(self, batch: Batch) -> Tensor:
        """The loss of a batch, ()."""
        raise NotImplementedError

    def read_ahead(self, rows: NDArray[np.int64]) -> None:
        """Have the disk read what the loss will want for these training sentences; another thread calls."""

    def measures(self) -> dict[str, float]:
        """What the curve shows beside the loss, as of the last batch: a saturated kernel, for one."""
        return {}
