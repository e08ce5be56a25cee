"""What a student is trained to lower, and its gradients for steps larger than memory or shared out."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.data.tokens.tokens import Tokens
from pipeline.train.loop.data import Examples
from pipeline.train.loop.loss import Batch, Loss
from pipeline.train.loop.optimizers import sparse_parameters
from pipeline.train.loop.world import World
from pipeline.train.students.shared.base.interface import Encoded, HasLayers, Student

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Term:
    """A loss on the first `dim` numbers of the vectors, with its weight."""

    weight: float
    loss: Loss
    dim: int
    target_dim: int


class Objective(nn.Module):
    """A weighted sum of losses of a student's vectors and, for shorter dimensions, of their prefixes.

    Args:
        terms: what is summed up.
        whole: the loss that tells what the curve shows; None: all terms do.
    """

    def __init__(self, terms: list[Term], whole: Loss | None = None) -> None:
        super().__init__()
        self.terms = terms
        self._told = [whole] if whole else [term.loss for term in terms]
        self.losses = nn.ModuleList(term.loss for term in terms)

    @property
    def needs_embedded(self) -> bool:
        """Whether a loss looks at the student's embedding layer."""
        return any(term.loss.needs_inputs or term.loss.needs_embedded for term in self.terms)

    @property
    def layers(self) -> list[int]:
        """The student's layers at whose hidden states a loss looks, while it trains."""
        return sorted({layer for term in self.terms for layer in term.loss.layers}) if self.training else []

    @property
    def has_batch_terms(self) -> bool:
        """Whether a loss needs all vectors of a step at once."""
        return any(term.loss.over == "batch" for term in self.terms)

    def read_ahead(self, rows: Rows) -> None:
        """Have the disk read what the losses will want for these training rows."""
        for term in self.terms:
            term.loss.read_ahead(rows)

    def local(self, batch: Batch, sentences: float, tokens: float) -> Tensor:
        """The losses over sentences and tokens, times this batch's shares of those of the step."""
        shares = {"sentences": sentences, "tokens": tokens}
        terms = [term for term in self.terms if term.loss.over != "batch"]
        return _total(batch, [(term.weight * shares[term.loss.over], term) for term in terms])

    def over_batch(self, batch: Batch) -> Tensor:
        """The losses over a whole step."""
        return _total(batch, [(term.weight, term) for term in self.terms if term.loss.over == "batch"])

    def measures(self) -> dict[str, float]:
        """What the losses tell of the last batch."""
        return {name: value for loss in self._told for name, value in loss.measures().items()}


def _total(batch: Batch, terms: list[tuple[float, Term]]) -> Tensor:
    total = batch.vectors.new_zeros(())
    for weight, term in terms:
        vectors, targets = batch.vectors[:, : term.dim], batch.targets[:, : term.target_dim]
        cut = replace(batch, vectors=vectors, targets=targets)
        total = total + weight * term.loss(cut)
    return total


class Pull(NamedTuple):
    """Gradients of the losses over the batch, for a part of it."""

    vectors: Tensor | None
    inputs: Tensor | None


@dataclass(frozen=True)
class Step:
    """The gradients of one optimizer step.

    Losses over sentences or tokens add up over parts of the step. One over the batch needs all vectors at
    once: they are computed without gradient first, the loss gives the gradient of each, and a second pass
    takes it through the student (GradCache, Gao et al. 2021). So are the vectors that other processes have
    computed.
    """

    student: Student
    objective: Objective
    examples: Examples
    world: World
    micro_batch: int | None = None
    bfloat16: bool = False

    def read_ahead(self, rows: Rows) -> None:
        """Have the disk read what `backward` will want for these rows."""
        own = rows if len(rows) < self.world.size else self.world.share(rows)
        self.examples.read_ahead(own)
        self.objective.read_ahead(own)

    def backward(self, rows: Rows) -> dict[str, float]:
        """Add a step's gradients to the parameters; the loss, and what the losses tell beside it."""
        if len(rows) < self.world.size:  # too few to share out: every process takes them all
            return replace(self, world=World()).backward(rows)
        split = self._split(self.world.share(rows))
        parts = [self.examples.select(part) for part in split]
        lengths = self.examples.tokens.offsets[rows + 1] - self.examples.tokens.offsets[rows]
        whole = self.world.size == 1 and len(parts) == 1
        value = torch.zeros(())
        pulls: Sequence[Pull | None] = [None] * len(parts)
        if self.objective.has_batch_terms and not whole:
            batch_value, pulls = self._pulls(parts, rows)
            value += batch_value / self.world.size
        for part, (tokens, targets), pull in zip(split, parts, pulls, strict=True):
            batch = self.encode(tokens, targets, torch.from_numpy(part))
            shares = len(targets) / len(rows), len(tokens.ids) / max(1, lengths.sum())
            loss = self.objective.local(batch, *shares)
            if whole:
                loss = loss + self.objective.over_batch(batch)
            local = loss.detach()
            for output, gradient in zip((batch.vectors, batch.inputs), pull or (), strict=False):
                if output is not None and gradient is not None:
                    loss = loss + (output * gradient).sum()
            loss.backward()
            value += local.cpu()  # after the backward pass is queued, for a GPU is waited for here
        self._reduce(value)
        return {"loss": float(value), **self.objective.measures()}

    @torch.no_grad()
    def value(self, rows: Rows) -> Tensor:
        """The loss of these rows, (), with no more sentences in memory at a time than in `backward`."""
        total, seen = torch.zeros(()), []
        lengths = self.examples.tokens.offsets[rows + 1] - self.examples.tokens.offsets[rows]
        for part in self._split(rows):
            tokens, targets = self.examples.select(part)
            batch = self.encode(tokens, targets, torch.arange(len(part)))
            shares = len(part) / len(rows), len(tokens.ids) / max(1, lengths.sum())
            total += self.objective.local(batch, *shares).cpu()
            seen.append(batch.without_tokens())
        if self.objective.has_batch_terms:
            vectors, wanted = (torch.cat([getattr(b, name) for b in seen]) for name in ("vectors", "targets"))
            inputs = [batch.inputs for batch in seen if batch.inputs is not None]
            order = torch.arange(len(rows), device=vectors.device)
            whole = Batch(vectors, wanted, order, torch.cat(inputs) if inputs else None)
            total += self.objective.over_batch(whole).cpu()
        return total

    def encode(self, tokens: Tokens, targets: NDArray[np.float32], rows: Tensor) -> Batch:
        """What the losses see of these sentences, in float32."""
        with autocast(self.student.module, bfloat16=self.bfloat16):
            encoded = self._encoded(tokens)
        vectors = encoded.vectors.float()
        inputs = embedded = None
        if encoded.embedded is not None:
            embedded = encoded.embedded.float()
            lengths = torch.from_numpy(tokens.lengths).to(vectors.device)
            inputs = torch.segment_reduce(embedded, "mean", lengths=lengths, axis=0, initial=0.0, unsafe=True)
        there = torch.from_numpy(targets).to(vectors.device)
        states = {layer: found.float() for layer, found in encoded.states.items()}
        return Batch(vectors, there, rows.to(vectors.device), inputs, tokens, embedded, states)

    def _encoded(self, tokens: Tokens) -> Encoded:
        embedded = self.objective.needs_embedded
        if not (layers := self.objective.layers):
            return self.student.encode(tokens, embedded=embedded)
        assert isinstance(self.student, HasLayers), "params allow such a loss to no other student"
        return self.student.encode_layers(tokens, layers, embedded=embedded)

    def _pulls(
        self, parts: list[tuple[Tokens, NDArray[np.float32]]], rows: Rows
    ) -> tuple[Tensor, list[Pull]]:
        """The losses over the batch, and for each part of this process their gradients."""
        with torch.no_grad():
            batches = [self.encode(*part, torch.empty(0)).without_tokens() for part in parts]

        def joined(tensors: list[Tensor]) -> Tensor:
            return self.world.gathered(torch.cat(tensors), len(rows))

        vectors = joined([batch.vectors for batch in batches]).requires_grad_()
        inputs = None
        if batches[0].inputs is not None:
            inputs = joined([batch.inputs for batch in batches if batch.inputs is not None]).requires_grad_()
        targets = joined([batch.targets for batch in batches])
        order = torch.from_numpy(self.world.all_rows(rows)).to(vectors.device)
        loss = self.objective.over_batch(Batch(vectors, targets, order, inputs))
        loss.backward()
        for parameter in self.objective.parameters():
            # Every process has computed the whole of it, and they will be added up.
            if parameter.grad is not None:
                parameter.grad /= self.world.size
        own = slice(before := self.world.rows_before(len(rows)), before + sum(len(part[1]) for part in parts))
        sizes = [len(targets) for _, targets in parts]
        return loss.detach().cpu(), [
            Pull(*pull)
            for pull in zip(_gradients(vectors, own, sizes), _gradients(inputs, own, sizes), strict=True)
        ]

    def _split(self, rows: Rows) -> list[Rows]:
        size = self.micro_batch or max(1, len(rows))
        return np.split(rows, range(size, len(rows), size))

    def _reduce(self, value: Tensor) -> None:
        """Add up the loss and all gradients over the processes."""
        if self.world.size == 1:
            return
        tables = {id(table) for table in sparse_parameters(self.student.module)}
        parameters = (*self.student.module.parameters(), *self.objective.parameters())
        trained = [one for one in parameters if one.grad is not None]  # the same in all processes
        gradients = [one.grad.to_dense() for one in trained if one.grad is not None]
        self.world.add_up([*gradients, value])
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.grad = gradient.to_sparse(1) if id(parameter) in tables else gradient


def autocast(module: nn.Module, *, bfloat16: bool) -> AbstractContextManager[object]:
    """Where the module's products are of bfloat16, or float32 as its weights are."""
    device = next(module.parameters()).device.type
    return torch.autocast(device, torch.bfloat16) if bfloat16 else nullcontext()


def _gradients(tensor: Tensor | None, own: slice, sizes: list[int]) -> Sequence[Tensor | None]:
    """The gradient of this process' rows, in parts."""
    if tensor is None or tensor.grad is None:
        return [None] * len(sizes)
    return tensor.grad[own].split(sizes)
