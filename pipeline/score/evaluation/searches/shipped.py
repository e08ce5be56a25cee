"""A trained student's vectors, as its users get them but for rounding."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core import machine
from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.params.runtime import Runtime
from pipeline.tasks.embeddings import Embeddings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BATCH_SIZE = 64

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""Texts to vectors (n, dim)."""


def embeddings(
    folder: Path, stage: str, table: pl.DataFrame, precision: machine.Precision, runtime: Runtime
) -> Embeddings:
    """Texts in their roles by the student that `stage` wrote; transformers without padding.

    Args:
        folder: the student.
        stage: what wrote it, for messages.
        table: `texts.LABELLED_SCHEMA`, sorted by text_id.
        precision: `evaluate.precision`.
        runtime: on which device, and how many tokens at a time.

    Raises:
        UserError: there is none, or it is damaged; torch sees no such device.
    """
    model = student_folder.read(folder, stage).eval().to(machine.find_device(runtime.device))
    encode = packed(model, precision, "evaluate.precision", runtime.tokens_per_batch) or partial(
        model.encode, prompt="", batch_size=BATCH_SIZE, convert_to_numpy=True, show_progress_bar=False
    )
    shown = texts.with_prompts(table, student_folder.prompts(folder))["text"].to_list()
    return Embeddings(table["text_id"].to_numpy(), encode(shown), student_folder.similarity(folder))


def packed(
    model: "SentenceTransformer", precision: machine.Precision, key: str, tokens_per_batch: int | None = None
) -> Encode | None:
    """What encodes with a transformer that can be packed; None for other models, which have float32 alone.

    Args:
        model: its encoder is brought to the precision.
        precision: of the encoder's products.
        key: where that is said, for messages.
        tokens_per_batch: padded tokens that go through it at a time; None: as many as suit a CPU.
    """
    import torch
    from sentence_transformers.base.modules import Transformer

    from pipeline.encoders.packed_model import TOKENS_PER_BATCH, PackedModel
    from pipeline.encoders.packing.packing import can_pack

    first = model[0]
    if not (isinstance(first, Transformer) and can_pack(first.model) and model.max_seq_length):
        return None
    chosen = machine.precision(precision, first.model, str(model.device), key)
    first.model.to(getattr(torch, chosen))
    found = PackedModel(model, model.max_seq_length, tokens_per_batch or TOKENS_PER_BATCH)
    return lambda given: found.encode(given, ["sentence"])["sentence"]
