"""A small transformer with pooling and a linear projection (HPD)."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from pipeline.core.errors import UserError
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.data.student import student_folder
from pipeline.params.students import TransformerInit, TransformerStudent
from pipeline.train.students.shared.encoder import EncoderStudent
from pipeline.train.students.shared.feed_forward import narrow_feed_forward
from pipeline.train.students.shared.narrow_width import narrow_width, random_weights
from pipeline.train.students.shared.teacher_layers import (
    as_module,
    check_module,
    empty_start,
    keep_layers,
    left_out,
    numbers_of,
    start_of,
    width_of,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def build(params: TransformerStudent, teacher_folder: Path) -> EncoderStudent:
    """The student before training: embeddings and chosen layers of the teacher, or of `init.model`.

    Raises:
        UserError: a layer, a length or a dimension that the encoder does not have is chosen.
    """
    init = params.init
    encoder, folder = start_of(init, teacher_folder)
    encoder, head = _arranged(params, encoder)
    modules = [as_module(encoder, folder, init.longest), *head]
    narrow = init.intermediate and init.weights == "encoder"
    whole = partial(_shaped, init, teacher_folder) if narrow else None
    return EncoderStudent(init, SentenceTransformer(modules=modules, device="cpu"), whole)


def _shaped(init: TransformerInit, teacher_folder: Path) -> "PreTrainedModel":
    """The encoder with the student's layers and width, and all neurons of its feed-forward blocks."""
    return _kept(init, start_of(init, teacher_folder)[0])


def _kept(init: TransformerInit, encoder: "PreTrainedModel") -> "PreTrainedModel":
    if init.kept:
        encoder = keep_layers(encoder, init.kept)
    return narrow_width(encoder, init.hidden) if init.hidden else encoder


def weigh(params: TransformerStudent, teacher: TeacherFacts) -> int:
    """How many numbers `build` starts from, by the encoder's config.

    Raises:
        UserError: as `build`.
    """
    init = params.init
    with torch.device("meta"):
        encoder, head = _arranged(params, empty_start(init, teacher))
    check_module(encoder, init.longest)
    return numbers_of(encoder, *head) - left_out(encoder, init.tokens)


def _arranged(
    params: TransformerStudent, encoder: "PreTrainedModel"
) -> tuple["PreTrainedModel", list[nn.Module]]:
    """The encoder with the layers that are kept, and the modules after it."""
    init = params.init
    encoder = _kept(init, encoder)
    if init.intermediate:
        encoder = narrow_feed_forward(encoder, init.intermediate)
    if init.weights == "random":
        encoder = random_weights(encoder, params.seed)
    hidden = width_of(encoder)
    head: list[nn.Module] = [Pooling(hidden, init.pooling)]
    if init.projection != "none":
        activation = nn.Tanh() if init.activation == "tanh" else nn.Identity()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(params.seed)
            head.append(Dense(hidden, params.width, bias=True, activation_function=activation))
    elif params.width != hidden:
        raise UserError(
            f"dim is {params.width}, the encoder's {hidden}; set it to auto, or set init.projection"
        )
    return encoder, head


def load(params: TransformerStudent, folder: Path) -> EncoderStudent:
    """A saved student, to go on training."""
    return EncoderStudent(params.init, student_folder.read_to_train(folder, f"distill@{folder.name}"))
