"""A small transformer with mean pooling and a linear projection (HPD)."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from pipeline.core.errors import UserError
from pipeline.data import student_folder, teacher_parts
from pipeline.data.locate import find_model
from pipeline.data.teacher_facts import TeacherFacts
from pipeline.params.students import TransformerStudent
from pipeline.train.students.shared.encoder import EncoderStudent
from pipeline.train.students.shared.teacher_layers import (
    as_module,
    check_module,
    fast_tokenizer,
    keep_layers,
    narrow_feed_forward,
    numbers_of,
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
    if init.model:
        folder = find_model(init.model, "init.model", revision=init.revision)
        encoder = teacher_parts.load_encoder(folder, "set init.model to another model")
    else:
        folder = teacher_folder
        encoder = teacher_parts.read_encoder(folder)
    encoder, head = _arranged(params, encoder)
    modules = [as_module(encoder, folder, init.max_length), *head]
    return EncoderStudent(init, SentenceTransformer(modules=modules, device="cpu"))


def weigh(params: TransformerStudent, teacher: TeacherFacts) -> int:
    """How many numbers `build` starts from, by the encoder's config.

    Raises:
        UserError: as `build`.
    """
    init = params.init
    with torch.device("meta"):
        if init.model:
            folder = find_model(init.model, "init.model", revision=init.revision)
            fast_tokenizer(folder)
            encoder = teacher_parts.empty_encoder(folder)
        else:
            encoder = teacher_parts.empty_encoder(teacher.config)
        encoder, head = _arranged(params, encoder)
    check_module(encoder, init.max_length)
    return numbers_of(encoder, *head)


def _arranged(
    params: TransformerStudent, encoder: "PreTrainedModel"
) -> tuple["PreTrainedModel", list[nn.Module]]:
    """The encoder with the layers that are kept, and the modules after it."""
    init = params.init
    if hasattr(encoder, "encoder") and hasattr(encoder, "decoder"):
        raise UserError(
            f"the encoder of a {encoder.config.model_type} model has a decoder, and no student is made of "
            "its layers; take the kinds bilstm and static, or name an encoder as init.model"
        )
    if init.kept:
        encoder = keep_layers(encoder, init.kept)
    if init.intermediate:
        encoder = narrow_feed_forward(encoder, init.intermediate)
    hidden = width_of(encoder)
    head: list[nn.Module] = [Pooling(hidden, "mean")]
    if init.projection != "none":
        activation = nn.Tanh() if init.activation == "tanh" else nn.Identity()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(params.train.seed)
            head.append(Dense(hidden, params.width, bias=True, activation_function=activation))
    elif params.width != hidden:
        raise UserError(
            f"dim is {params.width}, the encoder's {hidden}; set it to auto, or set init.projection"
        )
    return encoder, head


def load(params: TransformerStudent, folder: Path) -> EncoderStudent:
    """A saved student, to go on training."""
    return EncoderStudent(params.init, student_folder.read(folder, f"distill@{folder.name}"))
