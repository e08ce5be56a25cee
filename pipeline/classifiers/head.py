"""A classifier's head beside its encoder: head.safetensors and classifier.json in a student's folder.

classifier.json: `labels`, in the order of the logits; `pairs`, whether it reads pairs of texts; `task`.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from pipeline.core import json_text
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

WEIGHTS, SETTINGS = "head.safetensors", "classifier.json"


@dataclass(frozen=True)
class Said:
    """What a classifier says, beside its weights."""

    task: str
    labels: tuple[str, ...]
    pairs: bool


class Head(nn.Module):
    """Vectors (n, d), or 2n vectors of which each two are a pair, to logits (n, c).

    One hidden layer of ReLU units on the features, centred and scaled by numbers that are not trained: SRA
    (Wu et al. 2020), section 4.3. Of a pair u, v the features are [u, v, |u - v|, u * v], section 3.2.

    Args:
        dim: d.
        hidden: units.
        classes: c.
        pairs: whether it reads pairs.
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
    """Write a head beside its encoder."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in head.state_dict().items()}, folder / WEIGHTS)
    write_text(folder / SETTINGS, json.dumps(asdict(said), indent=2, ensure_ascii=False) + "\n")


def read_settings(folder: Path) -> Said:
    """What the classifier in a folder says.

    Raises:
        UserError: there is none, or its settings are damaged.
    """
    path = folder / SETTINGS
    try:
        found = json_text.parse(path.read_text(encoding="utf-8"))
        labels: Sequence[str] = found["labels"]
        return Said(str(found["task"]), tuple(map(str, labels)), bool(found["pairs"]))
    except FileNotFoundError:
        raise UserError(
            f"{folder} holds no classifier (no {SETTINGS}); run `dvc repro classify@{folder.name}`"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); run `dvc repro -f classify@{folder.name}`") from None


def read(folder: Path) -> Head:
    """The head in a folder.

    Raises:
        UserError: it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    pairs = read_settings(folder).pairs
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
