"""A classifier's head beside its encoder: head.safetensors in a student's folder."""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from pipeline.classifiers.saved import said as said_file
from pipeline.classifiers.saved.said import Said
from pipeline.core.errors import UserError

WEIGHTS = "head.safetensors"


class Head(nn.Module):
    """Vectors (n, d) of texts, or of pairs that are read together, to logits (n, c).

    Or 2n vectors (2n, d) of which each two are a pair whose texts are read apart.

    One hidden layer of ReLU units on the features, centred and scaled by numbers that are not trained: SRA
    (Wu et al. 2020), section 4.3. Of a pair u, v the features are [u, v, |u - v|, u * v], section 3.2.

    Args:
        dim: d.
        hidden: units.
        classes: c.
        pairs: whether it reads two vectors of a pair.
    """

    mean: Tensor
    """(f,)."""
    scale: Tensor
    """(f,)."""

    def __init__(self, dim: int, hidden: int, classes: int, *, pairs: bool) -> None:
        super().__init__()
        width = 4 * dim if pairs else dim
        self.dim, self.pairs = dim, pairs
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.hidden = nn.Linear(width, hidden)
        self.output = nn.Linear(hidden, classes)

    def features(self, vectors: Tensor) -> Tensor:
        """What it reads of the vectors, neither centred nor scaled, (n, f)."""
        if not self.pairs:
            return vectors
        left, right = vectors.unflatten(0, (-1, 2)).unbind(1)
        return torch.cat([left, right, (left - right).abs(), left * right], dim=1)

    @torch.no_grad()
    def fit_scale(self, features: Tensor) -> None:
        """Centre and scale as these features (n, f) ask: a mean for each, a deviation for each block of d."""
        self.mean.copy_(features.mean(0))
        deviations = (features - self.mean).square().unflatten(1, (-1, self.dim)).mean((0, 2)).sqrt()
        self.scale.copy_(deviations.clamp_min(1e-12).reciprocal().repeat_interleave(self.dim))

    def forward(self, vectors: Tensor) -> Tensor:
        """The logits."""
        scaled = (self.features(vectors) - self.mean) * self.scale
        return self.output(relu(self.hidden(scaled)))


def write(head: Head, said: Said, folder: Path) -> None:
    """Write a head, and what it says, beside its encoder."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in head.state_dict().items()}, folder / WEIGHTS)
    said_file.write(said, folder)


def read(folder: Path) -> Head:
    """The head in a folder.

    Raises:
        UserError: it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    pairs = said_file.read(folder).group == 2
    try:
        weights = load_file(folder / WEIGHTS)
        hidden, width = weights["hidden.weight"].shape
        dim = width // 4 if pairs else width
        head = Head(dim, hidden, len(weights["output.bias"]), pairs=pairs)
        head.load_state_dict(weights)
    except (OSError, KeyError, RuntimeError, SafetensorError) as error:
        raise UserError(
            f"{folder / WEIGHTS} is damaged ({error}); run `dvc repro -f classify@{folder.name}`"
        ) from None
    return head
