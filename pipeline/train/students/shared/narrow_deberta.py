"""A DeBERTa with narrow embeddings: under its own layers, or, as DeBERTa-v2, under MPNet's.

MPNet adds b[h, i - j] to what head h makes of query i and key j. DeBERTa-v2 has no such number, but the
product of key j with a vector of the distance ("p2c"). So one of a head's dimensions is set free, the one
that its scores lose least by, and the keys have 1 in it: the vector of the distance has b there, and zeros.
"""

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from pipeline.encoders.packing.packing import MPNET, first_position
from pipeline.train.students.shared.base.settings import settings_of
from pipeline.train.students.shared.narrow_tables import Tables, directions

if TYPE_CHECKING:
    from transformers import DebertaModel, DebertaV2Config, DebertaV2Model, MPNetModel, PreTrainedModel

FARTHEST = 128
"""Distance from which MPNet's biases are all one."""
SCALE = 2
"""DeBERTa divides scores by sqrt(SCALE d): of content, and of positions."""


def empty(teacher: "PreTrainedModel", table_dim: int) -> "DebertaModel | DebertaV2Model":
    """A DeBERTa of random weights that can hold the encoder's layers."""
    from transformers import DebertaV2Model

    if type(teacher).__name__ == "MPNetModel":
        return DebertaV2Model(config_of_mpnet(teacher, table_dim)).eval()
    narrow = type(teacher.config).from_dict({**settings_of(teacher.config), "embedding_size": table_dim})
    return cast("DebertaModel | DebertaV2Model", type(teacher)(narrow).eval())


def copy(teacher: "PreTrainedModel", student: "PreTrainedModel") -> None:
    """Give a DeBERTa the encoder's layers, and the norm of its embeddings."""
    if type(teacher).__name__ == "MPNetModel":
        copy_mpnet(cast("MPNetModel", teacher), cast("DebertaV2Model", student))
        return
    own = ("embeddings.word_", "embeddings.position_", "embeddings.token_type_", "embeddings.embed_proj.")
    kept = {name: tensor for name, tensor in teacher.state_dict().items() if not name.startswith(own)}
    student.load_state_dict(kept, strict=False)


def project(teacher: Tables, student: "PreTrainedModel", axes: Tensor) -> None:
    """Give the student the teacher's tables in the coordinates of `axes` (d, k), and the way back."""
    block = cast("Any", student).embeddings
    teacher.project(axes, block, block.embed_proj)


def fit(teacher: Tables, student: "PreTrainedModel", ids: Tensor, places: Tensor, penalty: float) -> None:
    """Bring the student's projected sums as close to the teacher's as these tokens allow.

    Directions from their uncentred SVD. DeBERTa normalises after the projection, as the teacher did.
    """
    project(teacher, student, directions(teacher.sums(ids, places), student.config.embedding_size))


def config_of_mpnet(teacher: "PreTrainedModel", table_dim: int) -> "DebertaV2Config":
    """The configuration of a DeBERTa-v2 that takes an MPNet's layers."""
    from transformers import DebertaV2Config

    theirs = teacher.config
    return DebertaV2Config(
        vocab_size=theirs.vocab_size,
        embedding_size=table_dim,
        hidden_size=theirs.hidden_size,
        num_hidden_layers=theirs.num_hidden_layers,
        num_attention_heads=theirs.num_attention_heads,
        intermediate_size=theirs.intermediate_size,
        hidden_act=theirs.hidden_act,
        max_position_embeddings=theirs.max_position_embeddings - first_position(teacher),
        type_vocab_size=0,
        layer_norm_eps=theirs.layer_norm_eps,
        pad_token_id=theirs.pad_token_id,
        relative_attention=True,
        max_relative_positions=FARTHEST,
        position_buckets=-1,
        pos_att_type=["p2c"],
        share_att_key=False,
    )


@torch.no_grad()
def copy_mpnet(mpnet: "MPNetModel", deberta: "DebertaV2Model") -> None:
    """Give a DeBERTa-v2 an MPNet's layers, its biases and the norm of its embeddings."""
    teacher, student = cast("Any", mpnet), cast("Any", deberta)  # their parts' types are not told
    student.embeddings.LayerNorm.load_state_dict(teacher.embeddings.LayerNorm.state_dict())
    heads, width = teacher.config.num_attention_heads, teacher.config.hidden_size
    student.encoder.rel_embeddings.weight.zero_()
    student.encoder.rel_embeddings.weight[:, :heads] = biases(mpnet)
    # What a head's last dimension takes of the vector of a distance: the bias of that head.
    lasts = torch.arange(1, heads + 1) * (width // heads) - 1
    reads = torch.zeros(width, width)
    reads[lasts, torch.arange(heads)] = (SCALE * width / heads) ** 0.5
    norm = teacher.embeddings.LayerNorm
    for theirs, ours in zip(teacher.encoder.layer, student.encoder.layer, strict=True):
        attention, own = theirs.attention.attn, ours.attention.self
        query, key = freed(attention.q, attention.k, heads, norm)
        for part, (weight, bias) in zip((own.query_proj, own.key_proj), (query, key), strict=True):
            part.weight.copy_(weight)
            part.bias.copy_(bias)
        own.pos_query_proj.weight.copy_(reads)
        own.pos_query_proj.bias.zero_()
        own.value_proj.load_state_dict(attention.v.state_dict())
        for place, name in (
            ("attention.output.dense", "attention.attn.o"),
            ("attention.output.LayerNorm", MPNET.attended_norm),
            ("intermediate.dense", MPNET.inner),
            ("output.dense", MPNET.outer),
            ("output.LayerNorm", MPNET.outer_norm),
        ):
            ours.get_submodule(place).load_state_dict(theirs.get_submodule(name).state_dict())
        norm = theirs.output.LayerNorm


def biases(teacher: "MPNetModel") -> Tensor:
    """What MPNet adds at query minus key = -FARTHEST ... FARTHEST - 1, (2 FARTHEST, heads)."""
    made = cast("Any", teacher).encoder.compute_position_bias(torch.empty(1, FARTHEST + 1, 1))
    square: Tensor = made[0]  # (heads, query, key)
    return torch.cat([square[:, 0, 1:].flip(1), square[:, :-1, 0]], dim=1).T


def freed(
    query: nn.Linear, key: nn.Linear, heads: int, norm: nn.LayerNorm
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Weights and biases of a DeBERTa-v2's queries and keys, each head's last dimension 0 and 1.

    The others hold the best approximation of the head's scores with one dimension less, by the SVD of their
    bilinear form, for states of independent coordinates with the scale and shift of `norm`, which they left.
    What is added to all keys alike is left out: softmax does not see it.
    """
    scale, shift = norm.weight.double(), norm.bias.double()
    size = len(query.weight) // heads
    found = torch.zeros(2, *query.weight.shape, dtype=torch.double)
    added = torch.zeros(2, len(query.weight), dtype=torch.double)
    for head in range(heads):
        rows = slice(head * size, (head + 1) * size)
        queries, constant = query.weight[rows].double(), query.bias[rows].double()
        keys = key.weight[rows].double()
        # Second moments of what is multiplied: queries with their mean, keys around theirs.
        mean = (constant + queries @ shift)[:, None]
        left = torch.linalg.qr(torch.cat([queries * scale, mean], dim=1).T, mode="r").R
        right = torch.linalg.qr((keys * scale).T, mode="r").R
        u, s, v = torch.linalg.svd(left @ right.T)
        kept = s[: size - 1].sqrt()[:, None]
        # Queries are left^T times orthonormal coordinates, of which sqrt(s) u^T makes the new ones.
        to_queries = kept * torch.linalg.lstsq(left, u[:, : size - 1], driver="gelsd").solution.T
        to_keys = kept * torch.linalg.lstsq(right, v[: size - 1].T, driver="gelsd").solution.T
        last = rows.stop - 1
        inner = slice(rows.start, last)
        found[0, inner], added[0, inner] = to_queries @ queries, to_queries @ constant
        found[1, inner] = to_keys @ keys
        added[1, last] = 1
    grown = SCALE**0.5  # content scores are divided by sqrt(SCALE d), MPNet's by sqrt(d)
    return (found[0].float() * grown, added[0].float() * grown), (found[1].float(), added[1].float())
