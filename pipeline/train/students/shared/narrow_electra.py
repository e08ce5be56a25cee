"""An ELECTRA with narrow embeddings under the layers of another encoder: of BERT's relatives, or ALBERT's."""

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from pipeline.encoders.packing.packing import BERT, Names, first_position
from pipeline.train.students.shared.narrow_tables import Tables, directions
from pipeline.train.students.shared.ridge import ridge
from pipeline.train.students.shared.teacher_layers import NAMES, layers_in_turn

if TYPE_CHECKING:
    from transformers import ElectraConfig, ElectraModel, PreTrainedModel


def config(teacher: "PreTrainedModel", table_dim: int) -> "ElectraConfig":
    """The configuration of an ELECTRA with narrow embeddings that takes this encoder's layers.

    ALBERT's are untied: each time that it runs one is a layer.
    """
    from transformers import ElectraConfig

    theirs = teacher.config
    return ElectraConfig(
        vocab_size=theirs.vocab_size,
        embedding_size=table_dim,
        hidden_size=theirs.hidden_size,
        num_hidden_layers=len(layers_in_turn(teacher)),
        num_attention_heads=theirs.num_attention_heads,
        intermediate_size=getattr(theirs, "intermediate_size", None) or theirs.hidden_dim,
        hidden_act=getattr(theirs, "hidden_act", None) or theirs.activation,
        max_position_embeddings=theirs.max_position_embeddings - first_position(teacher),
        type_vocab_size=getattr(theirs, "type_vocab_size", 1),
        layer_norm_eps=getattr(theirs, "layer_norm_eps", 1e-12),  # DistilBERT's is fixed
        pad_token_id=theirs.pad_token_id,
    )


def empty(teacher: "PreTrainedModel", table_dim: int) -> "ElectraModel":
    """Such an ELECTRA of random weights."""
    from transformers import ElectraModel

    return ElectraModel(config(teacher, table_dim)).eval()


@torch.no_grad()
def copy(teacher: "PreTrainedModel", student: "ElectraModel") -> None:
    """Give the student the weights of all of the teacher's encoder layers."""
    names = NAMES[type(teacher).__name__]
    for source, target in zip(layers_in_turn(teacher), student.encoder.layer, strict=True):
        for theirs, ours in zip(_parts(names), _parts(BERT), strict=True):
            target.get_submodule(ours).load_state_dict(source.get_submodule(theirs).state_dict())


def project(teacher: Tables, student: "ElectraModel", axes: Tensor) -> None:
    """Give the student the teacher's tables in the coordinates of `axes` (d, k), and the way back."""
    teacher.project(axes, student.embeddings, cast("Any", student).embeddings_project)


@torch.no_grad()
def fit(teacher: Tables, student: "ElectraModel", ids: Tensor, places: Tensor, penalty: float) -> None:
    """Bring the student's projected embeddings as close to the teacher's block as these tokens allow.

    Directions from the uncentred SVD of the sums that the block normalises; the projection by ridge
    regression from the student's normalised sums.
    """
    project(teacher, student, directions(teacher.sums(ids, places), student.config.embedding_size))
    inputs = student.embeddings(input_ids=ids[None], position_ids=places[None])[0]
    weights, bias = ridge(inputs.numpy(), teacher.outputs(ids, places).numpy(), penalty)
    back = student.embeddings_project
    back.weight.copy_(torch.from_numpy(weights.T))
    back.bias.copy_(torch.from_numpy(bias))


def _parts(names: Names) -> tuple[str, ...]:
    norms = (names.attended_norm, names.outer_norm)
    return (*names.query_key_value, names.attended, names.inner, names.outer, *norms)
