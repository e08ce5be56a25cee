"""Padding-free encoders: the stock weights of BERT's relatives on one flat array of tokens.

Linear layers and norms see the packed (tokens, d) matrix; attention runs within each text. The vectors
equal those of the model's own forward, but for rounding. The teacher encodes with it, the students train
through it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, pad

from pipeline.core.progress import say
from pipeline.encoders.packing.attention import Group, Packing, attend, rounded_length

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PREPACKED_ROWS = 2048
"""Tokens that oneDNN lays a weight out for; other numbers work too."""
Transform = Callable[[Tensor], Tensor]
"""(tokens, d_in) -> (tokens, d_out)."""
Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Names:
    """Where a family keeps the parts of a layer."""

    layers: str
    query_key_value: tuple[str, str, str]
    attended: str
    """The projection after attention."""
    attended_norm: str
    inner: str
    outer: str
    """The second projection of the feed-forward block."""
    outer_norm: str
    activation: str
    """Between the feed-forward block's projections."""
    skips_padding: bool = False
    """Positions count from padding_idx + 1, and a padding token inside a text counts as padding."""


BERT = Names(
    layers="encoder.layer",
    query_key_value=("attention.self.query", "attention.self.key", "attention.self.value"),
    attended="attention.output.dense",
    attended_norm="attention.output.LayerNorm",
    inner="intermediate.dense",
    outer="output.dense",
    outer_norm="output.LayerNorm",
    activation="intermediate.intermediate_act_fn",
)
ROBERTA = replace(BERT, skips_padding=True)
MPNET = Names(
    layers="encoder.layer",
    query_key_value=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    attended="attention.attn.o",
    attended_norm="attention.LayerNorm",
    inner="intermediate.dense",
    outer="output.dense",
    outer_norm="output.LayerNorm",
    activation="intermediate.intermediate_act_fn",
    skips_padding=True,
)
DISTILBERT = Names(
    layers="transformer.layer",
    query_key_value=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    attended="attention.out_lin",
    attended_norm="sa_layer_norm",
    inner="ffn.lin1",
    outer="ffn.lin2",
    outer_norm="output_layer_norm",
    activation="ffn.activation",
)
FAMILIES: Mapping[str, Names] = {
    "BertModel": BERT,
    "ElectraModel": BERT,
    "RobertaModel": ROBERTA,
    "XLMRobertaModel": ROBERTA,
    "CamembertModel": ROBERTA,
    "MPNetModel": MPNET,
    "DistilBertModel": DISTILBERT,
}
"""By the class of the model: a subclass may compute something else."""


def word_table(encoder: "PreTrainedModel") -> Tensor:
    """Word vectors (V, d) in the space that the encoder's first layer reads: ELECTRA projects them."""
    table = cast("nn.Embedding", encoder.get_input_embeddings()).weight
    project = to_width(encoder)
    return project(table) if project else table


def to_width(encoder: nn.Module) -> nn.Linear | None:
    """What brings narrow embeddings to the width of the layers; None where they have it."""
    for name in ("embeddings_project", "encoder.embedding_hidden_mapping_in", "embeddings.embed_proj"):
        with suppress(AttributeError):
            if found := attrgetter(name)(encoder):  # of ELECTRA, ALBERT, DeBERTa
                return cast("nn.Linear", found)
    return None


def first_position(model: "PreTrainedModel") -> int:
    """The row of the position table for a text's first token."""
    names = FAMILIES.get(type(model).__name__)
    return int(model.config.pad_token_id) + 1 if names and names.skips_padding else 0


def positions_of(model: "PreTrainedModel") -> int | None:
    """How many tokens a model has positions for; None: any number, they are relative alone."""
    stated = getattr(model.config, "max_position_embeddings", None)
    if not stated or stated < 0:  # XLNet, which has none, says -1
        return None
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    return stated if table is None or table.padding_idx is None else stated - table.padding_idx - 1


def can_pack(model: nn.Module) -> bool:
    """Whether a model takes the packed path."""
    config = getattr(model, "config", None)
    known = type(model).__name__ in FAMILIES and not is_namesake(model)
    absolute = getattr(config, "position_embedding_type", None) in (None, "absolute")
    return known and absolute and not getattr(config, "is_decoder", False)


def is_namesake(model: nn.Module) -> bool:
    """Whether a model that brings its own code has the class name of a family."""
    return type(model).__name__ in FAMILIES and not type(model).__module__.startswith("transformers.")


class PackedEncoder:
    """A model's encoder on packed tokens.

    Args:
        model: of one of the families; its weights are shared.
        training: read the weights anew in every call, so that gradients reach them and updates are seen.
            Without it they are laid out for speed once.
    """

    def __init__(self, model: "PreTrainedModel", *, training: bool = False) -> None:
        names = FAMILIES[type(model).__name__]
        heads: int = model.config.num_attention_heads
        self._model = cast("Any", model)  # its parts differ from family to family
        self._skips_padding = names.skips_padding
        self._layers = [
            _Layer(layer, names, heads, training=training)
            for layer in self._model.get_submodule(names.layers)
        ]
        self._position_bias = getattr(getattr(model, "encoder", None), "compute_position_bias", None)

    def __call__(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """Last hidden states (tokens, d) of texts end to end.

        Args:
            ids: (tokens,) the texts' token ids; texts of one length lie together.
            lengths: tokens of each text.
        """
        return self.contextual(self.embedded(ids, lengths), lengths)

    def embedded(self, ids: Tensor, lengths: Sequence[int], types: Tensor | None = None) -> Tensor:
        """What the embedding layer gives, (tokens, d): transformers' hidden state 0.

        Args:
            ids: as for a call.
            lengths: as for a call.
            types: (tokens,) of a model that has some; None: 0.
        """
        positions = self._positions(ids, torch.tensor(lengths, device=ids.device))
        told = {} if types is None else {"token_type_ids": types[None]}
        hidden: Tensor = self._model.embeddings(input_ids=ids[None], position_ids=positions[None], **told)[0]
        if hasattr(self._model, "embeddings_project"):
            hidden = self._model.embeddings_project(hidden)
        return hidden

    def contextual(self, hidden: Tensor, lengths: Sequence[int]) -> Tensor:
        """Last hidden states (tokens, d) from the embedding layer's."""
        states = hidden
        for states in self.layer_by_layer(hidden, lengths):  # noqa: B007
            pass
        return states

    def layer_by_layer(self, hidden: Tensor, lengths: Sequence[int]) -> Iterator[Tensor]:
        """The hidden states (tokens, d) that each layer gives, from the embedding layer's."""
        groups = [Group(length, len(list(same))) for length, same in groupby(lengths)]
        ends = torch.tensor([0, *lengths], device=hidden.device).cumsum(0).int()
        packing = Packing(groups, ends, self._bias(rounded_length(max(lengths)), hidden))
        states = pad(hidden, (0, 0, 0, packing.filler))
        for layer in self._layers:
            states = layer(states, packing)
            yield states[: len(hidden)]

    def _positions(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Positions (tokens,) as the model counts them."""
        starts = lengths.cumsum(0) - lengths
        if not self._skips_padding:
            return torch.arange(len(ids), device=ids.device) - _repeated(starts, lengths, len(ids))
        padding: int = self._model.embeddings.padding_idx
        real = (ids != padding).long()
        seen = real.cumsum(0)
        before = _repeated(seen[starts] - real[starts], lengths, len(ids))
        return (seen - before) * real + padding

    def _bias(self, length: int, hidden: Tensor) -> Tensor | None:
        """What MPNet adds to its attention scores, (1, heads, length, length)."""
        if self._position_bias is None:
            return None
        return self._position_bias(hidden.new_empty(1, length, 1)).to(hidden.dtype)


def _repeated(of_texts: Tensor, lengths: Tensor, tokens: int) -> Tensor:
    """Each text's number once a token: (texts,) -> (tokens,). Told how many, a GPU is not waited for."""
    return of_texts.repeat_interleave(lengths, output_size=tokens)


class _Layer:
    """One encoder layer: query, key and value in one product, norms after the residual sums."""

    def __init__(self, layer: nn.Module, names: Names, heads: int, *, training: bool) -> None:
        self._heads = heads
        self._training = training
        self._query_key_value = self._product(layer, *names.query_key_value)
        self._attended = self._product(layer, names.attended)
        self._attended_norm = cast("nn.LayerNorm", layer.get_submodule(names.attended_norm))
        activation = attrgetter(names.activation)(layer)
        self._inner = self._product(layer, names.inner, activation=activation)
        self._outer = self._product(layer, names.outer)
        self._outer_norm = cast("nn.LayerNorm", layer.get_submodule(names.outer_norm))

    def _product(self, layer: nn.Module, *names: str, activation: Activation | None = None) -> Transform:
        """Linear layers side by side, then an activation."""
        parts = [cast("nn.Linear", layer.get_submodule(name)) for name in names]
        if self._training:
            return partial(_trained, parts, activation)
        return prepared(*_side_by_side(parts), activation)

    def __call__(self, hidden: Tensor, packing: Packing) -> Tensor:
        """One layer on packed states (tokens, d)."""
        split = self._query_key_value(hidden).unflatten(1, (3, self._heads, -1))
        attended = self._attended(attend(split, packing).flatten(1))
        hidden = self._attended_norm(attended.add_(hidden))
        return self._outer_norm(self._outer(self._inner(hidden)).add_(hidden))


def _side_by_side(parts: Sequence[nn.Linear]) -> tuple[Tensor, Tensor]:
    if len(parts) == 1:
        return parts[0].weight, parts[0].bias
    return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])


def _trained(parts: Sequence[nn.Linear], activation: Activation | None, states: Tensor) -> Tensor:
    out = linear(states, *_side_by_side(parts))
    return activation(out) if activation else out


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
