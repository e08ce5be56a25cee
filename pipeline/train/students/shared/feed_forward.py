"""Encoders whose feed-forward blocks have fewer neurons."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.core.errors import UserError
from pipeline.data.tokens.tokens import Tokens
from pipeline.train.students.shared.base.settings import settings_of
from pipeline.train.students.shared.teacher_layers import NAMES, blocks_of, layers_in_turn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MOST_TOKENS = 16_384
"""Of the sample that the blocks are fitted on."""
AT_A_TIME = 64
"""Texts of a forward pass."""


@torch.no_grad()
def narrow_feed_forward(encoder: "PreTrainedModel", width: int) -> "PreTrainedModel":
    """A model of the same kind whose feed-forward blocks have only `width` neurons, the strongest ones.

    A neuron counts by the product of the lengths of the weights that lead to it and from it.

    Raises:
        UserError: the blocks are narrower than that, or the encoder's layers are made in an unknown way.
    """
    blocks = blocks_of(encoder)
    names = NAMES[type(encoder).__name__]
    key = "intermediate_size" if hasattr(encoder.config, "intermediate_size") else "hidden_dim"
    if width > getattr(encoder.config, key):
        raise UserError(
            f"init.intermediate is {width}, the encoder's layers have {getattr(encoder.config, key)} neurons"
            "; lower it"
        )
    narrow = type(encoder)(type(encoder.config).from_dict({**settings_of(encoder.config), key: width}))
    state = encoder.state_dict()
    for place, layer in blocks.items():
        inner, outer = (cast("nn.Linear", layer.get_submodule(name)) for name in (names.inner, names.outer))
        strength = inner.weight.norm(dim=1) * outer.weight.norm(dim=0)
        kept = strength.topk(width).indices.sort().values
        state[f"{place}.{names.inner}.weight"] = inner.weight[kept]
        state[f"{place}.{names.inner}.bias"] = inner.bias[kept]
        state[f"{place}.{names.outer}.weight"] = outer.weight[:, kept]
    narrow.load_state_dict(state)
    return narrow


@torch.no_grad()
def fit_feed_forward(
    whole: "PreTrainedModel",
    narrow: "PreTrainedModel",
    tokens: Tokens,
    penalty: float,
    ids_of_whole: NDArray[np.int64] | None = None,
) -> None:
    """Make the blocks of `narrow` nearest to those of `whole` on texts, which have more neurons.

    Kept are the neurons whose outputs vary most, times the length of the weights that lead from them. The
    weights and the bias from them are solved by ridge regression to what all neurons together give, block by
    block on the whole encoder's own states (channel pruning, He et al. 2017, eq. 1 without its second turn).

    Args:
        whole: the encoder.
        narrow: one with the same blocks in the same order, made by `narrow_feed_forward` and perhaps of
            another class; its weights are set. It may have a block once that the whole runs many times, or
            as often.
        tokens: a sample of texts.
        penalty: as of `ridge`.
        ids_of_whole: the token ids (V,) that the whole encoder has for those of the texts; None: the same.
    """
    wide, small = _projections(whole), _projections(narrow)
    width = small[0][1].in_features
    if width == wide[0][1].in_features or not len(tokens.ids):
        return  # nothing is left out, or nothing says of what
    # An ELECTRA of ALBERT's layers has each of them as often as ALBERT runs it.
    places = {layer: place for place, layer in enumerate(blocks_of(whole).values())}
    origin = [*places.values()] if len(small) == len(wide) else [places[one] for one in layers_in_turn(whole)]
    whole.eval()
    for module in whole.modules():
        if hasattr(module, "chunk_size_feed_forward"):
            setattr(module, "chunk_size_feed_forward", 0)  # noqa: B010
    batches = _batches(tokens, ids_of_whole)
    # Counts, sums and sums of squares: a block that an encoder runs several times sees a token as often.
    moments = [torch.zeros(3, outer.in_features, dtype=torch.float64) for _, outer in wide]

    def measure(block: int, neurons: Tensor) -> None:
        powers = (torch.ones_like(neurons), neurons, neurons.square())
        moments[block] += torch.stack([power.sum(0) for power in powers]).double()

    _run(whole, wide, batches, measure)
    kept, means = [], []
    for (count, first, second), (_, outer) in zip(moments, wide, strict=True):
        mean = first / count
        spread = (second / count - mean.square()).clamp(min=0).sqrt()
        strength = spread * outer.weight.norm(dim=0).double()
        kept.append(strength.topk(width).indices.sort().values)
        means.append(mean.float())
    grams = [torch.zeros(len(rows), len(rows), dtype=torch.float64) for rows in kept]
    crosses = [
        torch.zeros(len(rows), outer.out_features, dtype=torch.float64)
        for rows, (_, outer) in zip(kept, wide, strict=True)
    ]

    def compare(block: int, neurons: Tensor) -> None:
        centred = neurons - means[block]
        chosen = centred[:, kept[block]]
        grams[block] += (chosen.T @ chosen).double()
        crosses[block] += (chosen.T @ (centred @ wide[block][1].weight.T)).double()

    _run(whole, wide, batches, compare)
    for place, (few, out) in zip(origin, small, strict=True):
        rows, mean, gram, (inner, outer) = kept[place], means[place], grams[place], wide[place]
        scale = float(gram.diagonal().mean()) or 1.0
        ridge = gram + penalty * scale * torch.eye(width, dtype=gram.dtype)
        weight = torch.linalg.solve(ridge, crosses[place]).T.to(outer.weight)
        few.weight.copy_(inner.weight[rows])
        few.bias.copy_(inner.bias[rows])
        out.weight.copy_(weight)
        out.bias.copy_(outer.bias + outer.weight @ mean - weight @ mean[rows])


def _projections(encoder: "PreTrainedModel") -> list[tuple[nn.Linear, nn.Linear]]:
    """The first and the second projection of each block, in order."""
    names = NAMES[type(encoder).__name__]
    return [
        (
            cast("nn.Linear", layer.get_submodule(names.inner)),
            cast("nn.Linear", layer.get_submodule(names.outer)),
        )
        for layer in blocks_of(encoder).values()
    ]


def _batches(tokens: Tokens, ids_of_whole: NDArray[np.int64] | None) -> list[Mapping[str, Tensor]]:
    """Inputs of the whole encoder, of texts of similar length together."""
    within = int(np.searchsorted(tokens.offsets, MOST_TOKENS, side="right")) - 1
    order = np.argsort(tokens.lengths[: max(within, 1)], kind="stable")
    found: list[Mapping[str, Tensor]] = []
    for rows in np.split(order, range(AT_A_TIME, len(order), AT_A_TIME)):
        ids, mask = tokens.select(rows).padded(0)
        own = ids if ids_of_whole is None else ids_of_whole[ids]
        found.append({"input_ids": torch.from_numpy(own), "attention_mask": torch.from_numpy(mask)})
    return found


def _run(
    encoder: "PreTrainedModel",
    blocks: Sequence[tuple[nn.Linear, nn.Linear]],
    batches: Sequence[Mapping[str, Tensor]],
    see: Callable[[int, Tensor], None],
) -> None:
    """Show what the neurons of each block give, (tokens, neurons)."""
    real = torch.empty(0, dtype=torch.bool)

    def hook(block: int) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        return lambda _, inputs: see(block, inputs[0][real])

    hooks = [outer.register_forward_pre_hook(hook(block)) for block, (_, outer) in enumerate(blocks)]
    try:
        for batch in batches:
            real = batch["attention_mask"].bool()
            encoder(**batch)
    finally:
        for handle in hooks:
            handle.remove()
