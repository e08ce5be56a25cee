"""A normalising flow of vectors: Glow (Kingma and Dhariwal 2018), as BERT-flow has it (Li et al. 2020).

An invertible map f of vectors x to latents z, which are to be of a standard normal distribution:
log p(x) = log N(f(x); 0, 1) + log |det df/dx|.
"""

from math import log, pi

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pipeline.params.teacher import Flow

START = 0.05
"""Standard deviation of the networks' first weights; those of the last layer are 0: a step starts as nothing
but its scaling. Both as Glow."""
OPEN = 2.0
"""Added to what scales, before its sigmoid: as Glow."""
FLAT = 1e-3
"""Of the mean standard deviation: a dimension that varies less, as a dead one of a model, is stretched as the
mean one is. Were it brought to variance 1, the steps together would stretch what training adds to it."""


class FlowStep(nn.Module):
    """Actnorm, a fixed random permutation, and a coupling: half of the dimensions moves the other half."""

    permutation: Tensor

    def __init__(self, dim: int, settings: Flow, generator: torch.Generator) -> None:
        super().__init__()
        self.is_affine = settings.coupling == "affine"
        self.sizes = [(dim + 1) // 2, dim // 2]
        self.bias, self.log_scale = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("permutation", torch.randperm(dim, generator=generator))
        kept, moved = self.sizes
        self.network = nn.Sequential(
            nn.Linear(kept, settings.hidden),
            nn.ReLU(),
            nn.Linear(settings.hidden, settings.hidden),
            nn.ReLU(),
            nn.Linear(settings.hidden, 2 * moved if self.is_affine else moved),
        )
        linear = [layer for layer in self.network if isinstance(layer, nn.Linear)]
        for layer in linear:
            last = layer is linear[-1]
            nn.init.normal_(layer.weight, 0.0, 0.0 if last else START, generator=generator)
            nn.init.zeros_(layer.bias)

    @torch.no_grad()
    def initialise(self, vectors: Tensor) -> None:
        """Let the actnorm bring these vectors (n, d) to mean 0 and variance 1: Glow's start."""
        spread = vectors.std(dim=0, correction=0)
        typical = spread.mean() if spread.any() else torch.ones_like(spread.mean())
        self.bias.copy_(-vectors.mean(dim=0))
        self.log_scale.copy_(-spread.where(spread > FLAT * typical, typical).log())

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (n, d) one step on, and the log-determinant of each, (n,)."""
        scaled = (vectors + self.bias) * self.log_scale.exp()
        kept, moved = scaled.index_select(1, self.permutation).split(self.sizes, dim=1)
        shift, log_factor = self._coupling(kept)
        moved = (moved + shift) * log_factor.exp()
        return torch.cat([kept, moved], dim=1), self.log_scale.sum() + log_factor.sum(dim=1)

    def inverse(self, latents: Tensor) -> Tensor:
        """What the step makes these latents (n, d) of."""
        kept, moved = latents.split(self.sizes, dim=1)
        shift, log_factor = self._coupling(kept)
        moved = moved * (-log_factor).exp() - shift
        back = torch.cat([kept, moved], dim=1).index_select(1, self.permutation.argsort())
        return back * (-self.log_scale).exp() - self.bias

    def _coupling(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """What is added to the other half, and the logarithm of what it is then multiplied by."""
        found = self.network(kept)
        if not self.is_affine:
            return found, torch.zeros_like(found)
        shift, factor = found.chunk(2, dim=1)
        return shift, logsigmoid(factor + OPEN)


class NormalisingFlow(nn.Module):
    """Levels of steps; after each level but the last, half of the dimensions goes no further (Glow).

    Args:
        dim: of the vectors, at least `settings.least_dim`.
        settings: how many levels and steps; the seed of all that is random.
    """

    def __init__(self, dim: int, settings: Flow) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(settings.seed)
        self.widths = [dim]
        while len(self.widths) < settings.levels:
            self.widths.append((self.widths[-1] + 1) // 2)
        with torch.random.fork_rng(devices=[]):  # layers draw weights before theirs are set
            self.levels = nn.ModuleList(
                nn.ModuleList(FlowStep(width, settings, generator) for _ in range(settings.steps))
                for width in self.widths
            )

    def initialise(self, vectors: Tensor) -> None:
        """Fit every actnorm to what reaches it of these vectors (n, d)."""
        self._run(vectors, fit=True)

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Latents (n, d) of vectors (n, d), and the log-determinant of each, (n,)."""
        return self._run(vectors, fit=False)

    def _run(self, vectors: Tensor, *, fit: bool) -> tuple[Tensor, Tensor]:
        log_det, done = vectors.new_zeros(len(vectors)), vectors[:, :0]
        for width, steps in zip(self.widths, self.levels, strict=True):
            vectors, left = vectors[:, :width], vectors[:, width:]
            done = torch.cat([left, done], dim=1)
            for step in steps:  # type: ignore[attr-defined]
                if fit:
                    step.initialise(vectors)
                vectors, more = step(vectors)
                log_det = log_det + more
        return torch.cat([vectors, done], dim=1), log_det

    @torch.no_grad()
    def inverse(self, latents: Tensor) -> Tensor:
        """The vectors (n, d) of which these are the latents."""
        for width, steps in zip(reversed(self.widths), reversed([*self.levels]), strict=True):
            found = latents[:, :width]
            for step in reversed([*steps]):
                found = step.inverse(found)
            latents = torch.cat([found, latents[:, width:]], dim=1)
        return latents

    def log_likelihood(self, vectors: Tensor) -> Tensor:
        """The log-likelihood log p(x) of vectors (n, d), in nats, (n,)."""
        latents, log_det = self(vectors)
        return log_det - 0.5 * (latents.square() + log(2 * pi)).sum(dim=1)
