"""Narrow token embeddings under some of an encoder's layers (SimTDE): a stock ELECTRA or DeBERTa."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from pipeline.core.errors import UserError
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.data.student import student_folder
from pipeline.data.tokens.tokens import Tokens
from pipeline.encoders.packing.packing import can_pack
from pipeline.params.students import CompactInit, CompactStudent
from pipeline.train.students.shared import narrow_deberta, narrow_electra
from pipeline.train.students.shared.encoder import EncoderStudent
from pipeline.train.students.shared.feed_forward import narrow_feed_forward
from pipeline.train.students.shared.narrow_tables import Tables, directions
from pipeline.train.students.shared.teacher_layers import (
    DEBERTA,
    as_module,
    check_module,
    empty_start,
    keep_layers,
    left_out,
    numbers_of,
    start_of,
)

if TYPE_CHECKING:
    from types import ModuleType

    from transformers import PreTrainedModel

FEW = 3
"""Up to one in so many of MPNet's layers, an ELECTRA without its biases trains as well as a DeBERTa-v2 with
them, in less time."""
MOST_TOKENS = 65_536
"""Of the sample that the embeddings are fitted on."""


def build(params: CompactStudent, teacher_folder: Path) -> "Compact":
    """The student before training: an encoder's layers, and embeddings from the SVD of its word table.

    Raises:
        UserError: no stock architecture holds the encoder's layers under narrow embeddings, or a layer, a
            length or a dimension is chosen that it does not have.
    """
    init = params.init
    start, folder = start_of(init, teacher_folder)
    kept, encoder, head = _arranged(params, start)
    narrow = holder(start, init.kept)
    narrow.copy(kept, encoder)
    if init.table == "svd":
        tables = Tables(start)
        narrow.project(tables, encoder, directions(tables.words, init.table_width))
    model = SentenceTransformer(modules=[as_module(encoder, folder, init.longest), *head], device="cpu")
    return Compact(init, model, teacher_folder)


def _whole(init: CompactInit, teacher_folder: Path) -> "PreTrainedModel":
    """The encoder with the student's layers, and all neurons of its feed-forward blocks."""
    start, _ = start_of(init, teacher_folder)
    return keep_layers(start, init.kept) if init.kept else start


def weigh(params: CompactStudent, teacher: TeacherFacts) -> int:
    """How many numbers `build` starts from, by the encoder's config.

    Raises:
        UserError: as `build`.
    """
    with torch.device("meta"):
        _, encoder, head = _arranged(params, empty_start(params.init, teacher))
    check_module(encoder, params.init.longest)
    return numbers_of(encoder, *head) - left_out(encoder, params.init.tokens)


def _arranged(
    params: CompactStudent, start: "PreTrainedModel"
) -> tuple["PreTrainedModel", "PreTrainedModel", list[nn.Module]]:
    """An encoder with the layers that are kept, the student's of random weights, and the modules after it.

    On torch's meta device it takes no memory, and refuses as well.
    """
    init, hidden = params.init, start.config.hidden_size
    narrow = holder(start, init.kept)
    if init.table_width >= hidden:
        raise UserError(f"init.table_dim is {init.table_width}, the encoder is {hidden} wide; take less")
    own = cast("nn.Embedding", start.get_input_embeddings()).embedding_dim
    if init.table == "svd" and init.table_width > own:
        raise UserError(
            f"init.table_dim is {init.table_width}, the encoder's embeddings allow {own} or less; lower it"
        )
    if init.projection == "none" and params.width != hidden:
        raise UserError(
            f"dim is {params.width}, the encoder's {hidden}; set it to auto, or set init.projection"
        )
    kept = keep_layers(start, init.kept) if init.kept else start
    if init.intermediate:
        kept = narrow_feed_forward(kept, init.intermediate)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        encoder = narrow.empty(kept, init.table_width)
        head: list[nn.Module] = [Pooling(hidden, init.pooling)]
        if init.projection != "none":
            head.append(Dense(hidden, params.width, bias=True, activation_function=nn.Identity()))
    return kept, encoder, head


def holder(encoder: "PreTrainedModel", layers: tuple[int, ...] | None) -> "ModuleType":
    """What builds a stock model that holds these layers of the encoder, or all, under narrow embeddings.

    ELECTRA has no place for MPNet's relative position biases. Few layers relearn what they need of them.

    Raises:
        UserError: there is none.
    """
    name = type(encoder).__name__
    many = layers is None or FEW * len(layers) > encoder.config.num_hidden_layers
    if name in DEBERTA or (name == "MPNetModel" and many):
        return narrow_deberta
    if name == "AlbertModel" or can_pack(encoder):
        return narrow_electra
    raise UserError(
        f"no stock model holds the layers of a {encoder.config.model_type} model under narrow embeddings, "
        "which is what `kind: compact` builds; use `kind: transformer` with `init.tokens`, or name a BERT, "
        "RoBERTa, XLM-R, CamemBERT, MPNet, DistilBERT, ELECTRA, ALBERT or DeBERTa as init.model"
    )


def load(params: CompactStudent, folder: Path) -> "Compact":
    """A saved student, to go on training."""
    return Compact(params.init, student_folder.read_to_train(folder, f"distill@{folder.name}"), None)


class Compact(EncoderStudent):
    """A narrow encoder with pooling and perhaps a Dense layer, in training."""

    def __init__(self, init: CompactInit, model: SentenceTransformer, teacher_folder: Path | None) -> None:
        whole = partial(_whole, init, teacher_folder) if init.intermediate and teacher_folder else None
        super().__init__(init, model, whole)
        self._start = init
        self._teacher_folder = teacher_folder

    @torch.no_grad()
    def fit_projection(self, tokens: Tokens, targets: NDArray[np.float32]) -> None:
        """Fit the embeddings to the encoder's on texts, then the output layer to the targets (n, dim).

        The SVD of the word table takes a token of every text and one of no text as equally important, and
        knows nothing of positions. Here the directions are found again from the sums of word, position and
        type embeddings of the texts' tokens, and the projection to the encoder's embedding block is solved.
        """
        if self._teacher_folder and self._start.table == "svd":
            start, _ = start_of(self._start, self._teacher_folder)
            within = int(np.searchsorted(tokens.offsets, MOST_TOKENS, side="right")) - 1
            sample = tokens.select(np.arange(min(len(tokens), self._init.ridge_rows, max(within, 1))))
            ids = torch.from_numpy(sample.ids.astype(np.int64))
            places = np.arange(len(ids)) - np.repeat(sample.offsets[:-1], sample.lengths)
            tokens_kept = None if self.teacher_ids is None else torch.from_numpy(self.teacher_ids)
            holder(start, self._start.kept).fit(
                Tables(start, tokens_kept),
                self._transformer.model,
                ids,
                torch.from_numpy(places),
                self._init.ridge_lambda,
            )
        super().fit_projection(tokens, targets)
