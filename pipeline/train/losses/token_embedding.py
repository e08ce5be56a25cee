"""Distance of the student's token embeddings to the teacher's (SimTDE)."""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from pipeline.core.errors import UserError
from pipeline.data.teacher_parts import read_encoder
from pipeline.encoders.packing.packing import FAMILIES, PackedEncoder, can_pack, first_position, word_table
from pipeline.params.losses import TokenEmbeddingLoss
from pipeline.train.loop.loss import Batch, Loss, LossContext

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def build(params: TokenEmbeddingLoss, context: LossContext) -> Loss:
    """The loss of these params.

    Raises:
        UserError: the teacher or the student has no such embeddings, or a text is longer than the teacher can
            read.
    """
    encoder = read_encoder(context.teacher).eval()
    return EmbeddingBlock(encoder, context) if params.reading == "block" else Table(encoder, context)


class EmbeddingBlock(Loss):
    """SimTDE eq. 3 on the embedding blocks' outputs: words, positions, types, norm and projection, if any.

    The student has to read the teacher's tokens.
    """

    over = "tokens"
    of_vectors = False
    needs_embedded = True

    def __init__(self, encoder: "PreTrainedModel", context: LossContext) -> None:
        super().__init__()
        if not can_pack(encoder):
            raise UserError(
                f"loss.kind is token_embedding: the teacher is a {type(encoder).__name__}, and it knows the "
                f"embeddings of {', '.join(FAMILIES)} alone; set reading to table, or choose another loss"
            )
        positions = encoder.config.max_position_embeddings - first_position(encoder)
        if context.longest > positions:
            raise UserError(
                f"loss.kind is token_embedding: a text has {context.longest} tokens, the teacher {positions} "
                f"positions; set the student's init.max_length to {positions} or less"
            )
        layers = cast("nn.ModuleList", encoder.get_submodule(FAMILIES[type(encoder).__name__].layers))
        del layers[:]
        # Neither is a submodule: what torch counts among this loss' weights is trained and saved.
        self._encoders: tuple[nn.Module] = (encoder,)
        self._teacher = PackedEncoder(encoder)
        self._ids = context.teacher_ids

    def forward(self, batch: Batch) -> Tensor:
        """Mean over all tokens and dimensions of the squared difference, ().

        Raises:
            UserError: the embeddings are not of the teacher's shape.
        """
        assert batch.tokens is not None
        assert batch.embedded is not None
        there = batch.embedded.device
        self._encoders[0].to(there)
        with torch.no_grad():
            theirs = batch.tokens.ids if self._ids is None else self._ids[batch.tokens.ids]
            ids = torch.from_numpy(theirs).long().to(there)
            targets = self._teacher.embedded(ids, batch.tokens.lengths.tolist())
        return mean_square(batch.embedded, targets)


class Table(Loss):
    """SimTDE eq. 3 on the word tables of the whole vocabulary: the same for every batch."""

    over = "sentences"
    of_vectors = False

    def __init__(self, encoder: "PreTrainedModel", context: LossContext) -> None:
        super().__init__()
        if context.token_table is None:
            raise UserError("loss.reading is table, and this kind of student has none; set it to block")
        self._student = context.token_table
        table = word_table(encoder).detach()
        self._teacher = table if context.teacher_ids is None else table[torch.from_numpy(context.teacher_ids)]

    def forward(self, batch: Batch) -> Tensor:
        """Mean over the vocabulary and all dimensions of the squared difference, ()."""
        student = self._student()
        self._teacher = self._teacher.to(student)
        return mean_square(student, self._teacher)


def mean_square(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared difference of (rows, d) and (rows, d); 0 without rows.

    Raises:
        UserError: they are not of one shape.
    """
    if student.shape != teacher.shape:
        raise UserError(
            f"loss.kind is token_embedding: the student's embeddings are {tuple(student.shape)}, the "
            f"teacher's {tuple(teacher.shape)}; it takes a student that reads the teacher's tokens at the "
            "teacher's width (kind: compact or transformer, without init.model), or choose another loss"
        )
    return (student - teacher.to(student)).square().sum() / max(student.numel(), 1)
