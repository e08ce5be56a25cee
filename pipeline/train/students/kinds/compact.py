"""Narrow token embeddings under some of the teacher's layers (SimTDE): a stock ELECTRA with mean pooling."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn

from pipeline.core.errors import UserError
from pipeline.data import student_folder, teacher_parts
from pipeline.data.teacher_facts import TeacherFacts
from pipeline.data.tokens.tokens import Tokens
from pipeline.encoders.packing.packing import (
    BERT,
    FAMILIES,
    MPNET,
    Names,
    PackedEncoder,
    can_pack,
    first_position,
)
from pipeline.params.students import CompactInit, CompactStudent
from pipeline.train.students.shared.encoder import EncoderStudent
from pipeline.train.students.shared.ridge import ridge
from pipeline.train.students.shared.teacher_layers import (
    as_module,
    check_module,
    keep_layers,
    narrow_feed_forward,
    numbers_of,
)

if TYPE_CHECKING:
    from transformers import ElectraConfig, ElectraModel, PreTrainedModel

MOST_TOKENS = 65_536
"""Of the sample that the embeddings are fitted on."""


def build(params: CompactStudent, teacher_folder: Path) -> "Compact":
    """The student before training: the teacher's layers, and embeddings from the SVD of its word table.

    Raises:
        UserError: the teacher's layers do not fit into ELECTRA, or a layer, a length or a dimension is chosen
            that it does not have.
    """
    init = params.init
    teacher = teacher_parts.read_encoder(teacher_folder)
    kept, encoder, head = _arranged(params, teacher)
    copy_layers(kept, _names(teacher), encoder)
    if init.table == "svd":
        embeddings = TeacherEmbeddings(teacher)
        embeddings.project(encoder, directions(embeddings.words, init.table_width))
    model = SentenceTransformer(
        modules=[as_module(encoder, teacher_folder, init.max_length), *head], device="cpu"
    )
    return Compact(init, model, teacher_folder)


def weigh(params: CompactStudent, teacher: TeacherFacts) -> int:
    """How many numbers `build` starts from, by the teacher's config.

    Raises:
        UserError: as `build`.
    """
    with torch.device("meta"):
        _, encoder, head = _arranged(params, teacher_parts.empty_encoder(teacher.config))
    check_module(encoder, params.init.max_length)
    return numbers_of(encoder, *head)


def _arranged(
    params: CompactStudent, teacher: "PreTrainedModel"
) -> tuple["PreTrainedModel", "ElectraModel", list[nn.Module]]:
    """The teacher with the layers that are kept, the student's encoder, and the modules after it."""
    from transformers import ElectraModel

    init = params.init
    _names(teacher)
    kept = keep_layers(teacher, init.kept) if init.kept else teacher
    if init.intermediate:
        kept = narrow_feed_forward(kept, init.intermediate)
    if init.table == "svd":
        _check_table(init.table_width, cast("nn.Embedding", teacher.get_input_embeddings()).embedding_dim)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.train.seed)
        encoder = ElectraModel(electra_config(kept, init.table_width)).eval()
        hidden = encoder.config.hidden_size
        head: list[nn.Module] = [Pooling(hidden, "mean")]
        if init.projection != "none":
            head.append(Dense(hidden, params.width, bias=True, activation_function=nn.Identity()))
        elif params.width != hidden:
            raise UserError(
                f"dim is {params.width}, the teacher's {hidden}; set it to auto, or set init.projection"
            )
    return kept, encoder, head


def load(params: CompactStudent, folder: Path) -> "Compact":
    """A saved student, to go on training."""
    return Compact(params.init, student_folder.read(folder, f"distill@{folder.name}"), None)


class Compact(EncoderStudent):
    """An ELECTRA with mean pooling and perhaps a Dense layer, in training."""

    def __init__(self, init: CompactInit, model: SentenceTransformer, teacher_folder: Path | None) -> None:
        super().__init__(init, model)
        self._table = init.table
        self._teacher_folder = teacher_folder

    @torch.no_grad()
    def fit_projection(self, tokens: Tokens, targets: NDArray[np.float32]) -> None:
        """Fit the embeddings to the teacher's on texts, then the output layer to the targets (n, dim).

        The SVD of the word table takes a token of every text and one of no text as equally important, and
        knows nothing of positions. Here the directions are found again from the sums of word, position and
        type embeddings of the texts' tokens, and the projection to the teacher's embedding block is solved.
        """
        if self._teacher_folder and self._table == "svd":
            teacher = TeacherEmbeddings(teacher_parts.read_encoder(self._teacher_folder))
            within = int(np.searchsorted(tokens.offsets, MOST_TOKENS, side="right")) - 1
            sample = tokens.select(np.arange(min(len(tokens), self._init.ridge_rows, max(within, 1))))
            teacher.fit(cast("ElectraModel", self._transformer.model), sample, self._init.ridge_lambda)
        super().fit_projection(tokens, targets)


class TeacherEmbeddings:
    """The tables of a teacher's embedding block, as ELECTRA numbers them, and what the block gives."""

    def __init__(self, teacher: "PreTrainedModel") -> None:
        block = cast("Any", teacher).embeddings  # its parts differ from family to family
        self._block = PackedEncoder(teacher, training=True).embedded
        self._projection = getattr(teacher, "embeddings_project", None)
        self.words: Tensor = block.word_embeddings.weight.detach()
        self._positions: Tensor = block.position_embeddings.weight.detach()[first_position(teacher) :]
        types = getattr(block, "token_type_embeddings", None)
        self._types: Tensor = types.weight.detach() if types else self.words.new_zeros(1, self.words.shape[1])

    @torch.no_grad()
    def project(self, student: "ElectraModel", axes: Tensor) -> None:
        """Give a student the tables in the coordinates of `axes` (d, k), and the way back."""
        tables = student.embeddings
        tables.word_embeddings.weight.copy_(self.words @ axes)
        tables.position_embeddings.weight.copy_(self._positions @ axes)
        tables.token_type_embeddings.weight.copy_(self._types @ axes)
        back = self._projection.weight @ axes if self._projection else axes
        student.embeddings_project.weight.copy_(back)

    @torch.no_grad()
    def fit(self, student: "ElectraModel", tokens: Tokens, penalty: float) -> None:
        """Bring a student's projected embeddings as close to the block's as these tokens allow.

        Directions from the uncentred SVD of the sums that the block normalises; the projection by ridge
        regression from the student's normalised sums.
        """
        ids = torch.from_numpy(tokens.ids.astype(np.int64))
        lengths = tokens.lengths
        places = torch.from_numpy(np.arange(len(ids)) - np.repeat(tokens.offsets[:-1], lengths))
        sums = self.words[ids] + self._positions[places] + self._types[0]
        self.project(student, directions(sums, student.config.embedding_size))
        inputs = student.embeddings(input_ids=ids[None], position_ids=places[None])[0]
        wanted = self._block(ids, lengths.tolist())
        weights, bias = ridge(inputs.numpy(), wanted.numpy(), penalty)
        student.embeddings_project.weight.copy_(torch.from_numpy(weights.T))
        student.embeddings_project.bias.copy_(torch.from_numpy(bias))


def directions(rows: Tensor, count: int) -> Tensor:
    """The first right singular vectors V_k (d, count) of a matrix (n, d): rows @ V_k is U_k S_k."""
    wide = rows.double()
    # The same as the SVD's, in a fraction of its time: n is the size of a vocabulary.
    _, vectors = torch.linalg.eigh(wide.T @ wide)
    return vectors.flip(1)[:, :count].float()


def _check_table(table_dim: int, embedded: int) -> None:
    if table_dim > embedded:
        raise UserError(
            f"init.table_dim is {table_dim}, the teacher's embeddings allow {embedded} or less; lower it"
        )


def electra_config(teacher: "PreTrainedModel", table_dim: int) -> "ElectraConfig":
    """The configuration of an ELECTRA with narrow embeddings that takes this teacher's layers.

    Raises:
        UserError: the embeddings would not be narrower than the layers.
    """
    from transformers import ElectraConfig

    config = teacher.config
    if table_dim >= config.hidden_size:
        raise UserError(
            f"init.table_dim is {table_dim}; take less than the teacher's width, {config.hidden_size}"
        )
    return ElectraConfig(
        vocab_size=config.vocab_size,
        embedding_size=table_dim,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=getattr(config, "intermediate_size", None) or config.hidden_dim,
        hidden_act=getattr(config, "hidden_act", None) or config.activation,
        max_position_embeddings=config.max_position_embeddings - first_position(teacher),
        type_vocab_size=getattr(config, "type_vocab_size", 1),
        layer_norm_eps=getattr(config, "layer_norm_eps", 1e-12),  # DistilBERT's is fixed
        pad_token_id=config.pad_token_id,
    )


@torch.no_grad()
def copy_layers(teacher: "PreTrainedModel", names: Names, student: "ElectraModel") -> None:
    """Give the student the weights of all of the teacher's encoder layers."""
    sources = teacher.get_submodule(names.layers).children()
    for source, target in zip(sources, student.encoder.layer, strict=True):
        for theirs, ours in zip(_parts(names), _parts(BERT), strict=True):
            target.get_submodule(ours).load_state_dict(source.get_submodule(theirs).state_dict())


def _parts(names: Names) -> tuple[str, ...]:
    norms = (names.attended_norm, names.outer_norm)
    return (*names.query_key_value, names.attended, names.inner, names.outer, *norms)


def _names(teacher: "PreTrainedModel") -> Names:
    """Where the teacher keeps the parts of its layers.

    Raises:
        UserError: its layers compute what ELECTRA's do not.
    """
    names = FAMILIES.get(type(teacher).__name__)
    # MPNet's layers need its relative positions.
    if names is None or names is MPNET or not can_pack(teacher):
        raise UserError(
            f"the layers of a {teacher.config.model_type} model do not fit into ELECTRA, which is what "
            "`kind: compact` builds; use `kind: transformer`, or a BERT, ELECTRA, RoBERTa, XLM-R, CamemBERT "
            "or DistilBERT teacher"
        )
    return names
