"""A small transformer with mean pooling and a linear projection (HPD)."""

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from pipeline.core.errors import UserError
from pipeline.data import student_folder
from pipeline.params.students import TransformerStudent
from pipeline.train.students.shared.encoder import EncoderStudent
from pipeline.train.students.shared.teacher_layers import (
    as_module,
    keep_layers,
    narrow_feed_forward,
    start_of,
)


def build(params: TransformerStudent, teacher_folder: Path) -> EncoderStudent:
    """The student before training: embeddings and chosen layers of the teacher, or of `init.model`.

    Raises:
        UserError: a layer, a length or a dimension that the encoder does not have is chosen.
    """
    init = params.init
    encoder, folder = start_of(init, teacher_folder)
    if init.layers:
        encoder = keep_layers(encoder, init.layers)
    if init.intermediate:
        encoder = narrow_feed_forward(encoder, init.intermediate)
    encoder_module = as_module(encoder, folder, init.max_length)
    hidden = encoder_module.get_embedding_dimension()
    modules: list[nn.Module] = [encoder_module, Pooling(hidden, "mean")]
    if init.projection != "none":
        activation = nn.Tanh() if init.activation == "tanh" else nn.Identity()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(params.train.seed)
            modules.append(Dense(hidden, params.dim, bias=True, activation_function=activation))
    elif params.dim != hidden:
        raise UserError(f"dim is {params.dim}, the encoder's {hidden}; they differ: set init.projection")
    return EncoderStudent(init, SentenceTransformer(modules=modules, device="cpu"))


def load(params: TransformerStudent, folder: Path) -> EncoderStudent:
    """A saved student, to go on training."""
    return EncoderStudent(params.init, student_folder.read(folder, f"distill@{folder.name}"))
