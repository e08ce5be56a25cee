"""An encoder of fewer hidden dimensions: narrow and deep students (SimTDE's LMX-KD, MiniLM, TinyBERT)."""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from pipeline.core.errors import UserError
from pipeline.encoders.packing.packing import FAMILIES, Names, can_pack, to_width
from pipeline.train.students.shared.base.settings import settings_of

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

EMBEDDINGS_NORM = "embeddings.LayerNorm"


@torch.no_grad()
def narrow_width(encoder: "PreTrainedModel", width: int) -> "PreTrainedModel":
    """A model of the same kind, heads and layers whose hidden states have only `width` dimensions.

    Kept are the dimensions that the layers read most of, the same ones in all layers, since each layer adds
    to what the one before has written. A head's query and key become the pair of fewer dimensions that gives
    the nearest scores, its value and output the pair that gives the nearest sum: truncated SVDs of their
    products.

    Raises:
        UserError: the width is not below the encoder's, its heads do not divide it, or the encoder's layers
            are made in an unknown way.
    """
    _check(encoder, width)
    names = FAMILIES[type(encoder).__name__]
    narrow = type(encoder)(narrow_config(encoder, width)).eval()
    kept = strengths(encoder, names).topk(width).indices.sort().values
    wide, state = encoder.state_dict(), {}
    for name, tensor in narrow.state_dict().items():
        state[name] = wide[name]
        for axis in range(tensor.dim()):
            if tensor.shape[axis] != wide[name].shape[axis]:  # nothing but the width is another
                state[name] = state[name].index_select(axis, kept)
    heads = encoder.config.num_attention_heads
    for name, layer in encoder.get_submodule(names.layers).named_children():
        parts = _narrow_heads(layer, names, kept, heads)
        state |= {f"{names.layers}.{name}.{part}": tensor for part, tensor in parts.items()}
    narrow.load_state_dict(state)
    return narrow


def random_weights(encoder: "PreTrainedModel", seed: int) -> "PreTrainedModel":
    """A model of the same settings as a new one starts."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return type(encoder)(type(encoder.config).from_dict(settings_of(encoder.config))).eval()


def narrow_config(encoder: "PreTrainedModel", width: int) -> "PreTrainedConfig":
    """The settings of the encoder at this width."""
    config = encoder.config
    settings = settings_of(config)
    if settings.get("embedding_size") == config.hidden_size:
        settings["embedding_size"] = width  # ELECTRA has no projection where they are equal
    key = config.attribute_map.get("hidden_size", "hidden_size")
    return type(config).from_dict({**settings, key: width})


def strengths(encoder: "PreTrainedModel", names: Names) -> Tensor:
    """How much the layers read of each dimension of the hidden states, (d,).

    A layer reads norms' outputs, whose dimensions have the size of the norm's gain; ELECTRA's first layer
    reads those of a projection, which have the length of its weights. A dimension counts by that size times
    the length of the weights that lead from it, squared and summed over all that read.
    """
    found = torch.zeros(encoder.config.hidden_size)
    projection = to_width(encoder)
    gain = _weight(encoder, EMBEDDINGS_NORM) if projection is None else projection.weight.norm(dim=1)
    for layer in encoder.get_submodule(names.layers).children():
        attention = torch.cat([_weight(layer, part) for part in names.query_key_value])
        found = found + (gain * attention.norm(dim=0)).square()
        inner = _weight(layer, names.inner)
        found = found + (_weight(layer, names.attended_norm) * inner.norm(dim=0)).square()
        gain = _weight(layer, names.outer_norm)
    return found


def factors(left: Tensor, right: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The pair of lower rank whose product is nearest to that of left and right, heads apart.

    Args:
        left: (heads, m, d).
        right: (heads, d, n).
        rank: columns of the new left and rows of the new right, at most d, m and n.
    """
    left_basis, left_rest = torch.linalg.qr(left)
    right_basis, right_rest = torch.linalg.qr(right.mT)
    u, sizes, v = torch.linalg.svd(left_rest @ right_rest.mT, full_matrices=False)
    roots = sizes[:, :rank].sqrt()
    return left_basis @ u[..., :rank] * roots[:, None], roots[..., None] * v[:, :rank] @ right_basis.mT


def _narrow_heads(layer: nn.Module, names: Names, kept: Tensor, heads: int) -> dict[str, Tensor]:
    """Query, key, value and output of a layer, by their names in it."""
    query, key, value = (_by_head(layer, part, kept, heads) for part in names.query_key_value)
    rank, size = len(kept) // heads, query.shape[1]
    rows, columns = factors(query.mT, key, rank)
    # Scores are divided by the root of a head's dimensions, which are fewer now.
    scale = (rank / size) ** 0.25
    output = _weight(layer, names.attended)[kept].unflatten(1, (heads, size)).transpose(0, 1)
    written, read = factors(output, value, rank)
    found = {f"{names.attended}.weight": written.transpose(0, 1).flatten(1)}
    for part, new in zip(names.query_key_value, (scale * rows.mT, scale * columns, read), strict=True):
        found |= {f"{part}.weight": new[..., :-1].flatten(0, 1), f"{part}.bias": new[..., -1].flatten()}
    return found


def _by_head(layer: nn.Module, part: str, kept: Tensor, heads: int) -> Tensor:
    """(heads, d of a head, kept + 1): a projection's weights of the kept dimensions, then its bias."""
    linear = cast("nn.Linear", layer.get_submodule(part))
    return torch.cat([linear.weight[:, kept], linear.bias[:, None]], dim=1).unflatten(0, (heads, -1))


def _weight(module: nn.Module, name: str) -> Tensor:
    return cast("Tensor", module.get_submodule(name).weight)


def _check(encoder: "PreTrainedModel", width: int) -> None:
    if not can_pack(encoder):
        raise UserError(
            f"init.hidden: the layers of a {encoder.config.model_type} model are not made as BERT's are; set "
            "it to null, or name a BERT, RoBERTa, XLM-R, CamemBERT, MPNet, DistilBERT or ELECTRA as "
            "init.model"
        )
    config = encoder.config
    heads, whole = config.num_attention_heads, config.hidden_size
    if width >= whole:
        raise UserError(
            f"init.hidden is {width}, the encoder's hidden states have {whole} dimensions; lower it, or set "
            "it to null"
        )
    if width % heads:
        raise UserError(
            f"init.hidden is {width}, which the encoder's {heads} heads do not divide; set it to "
            f"{max(width // heads, 1) * heads}"
        )
    if hasattr(encoder, "embeddings_project") and width == config.embedding_size:
        raise UserError(
            f"init.hidden is {width}, the dimension of the encoder's embeddings, and no projection would be "
            f"left between them; set it to {width - heads or width + heads}"
        )
