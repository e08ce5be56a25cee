"""A trained student's vectors, as its users get them but for rounding."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.artifacts import student

BATCH_SIZE = 64

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""Texts to vectors (n, dim)."""


def open_student(folder: Path, stage: str) -> Encode:
    """What encodes, on the CPU, with the student that `stage` wrote: transformers without padding.

    Raises:
        UserError: there is none, or it is damaged.
    """
    from sentence_transformers.base.modules import Transformer

    from pipeline.encoders.packed_model import PackedModel
    from pipeline.encoders.packing import can_pack

    model = student.read(folder, stage).eval()
    first = model[0]
    if isinstance(first, Transformer) and can_pack(first.model) and model.max_seq_length:
        packed = PackedModel(model, model.max_seq_length)
        return lambda texts: packed.encode(texts, ["sentence"])["sentence"]
    return partial(model.encode, batch_size=BATCH_SIZE, convert_to_numpy=True, show_progress_bar=False)
