"""A last layer of a student: a projection that is fine-tuned, or whitening."""

from collections.abc import Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from pipeline.core import fingerprint, kept_rows
from pipeline.core.errors import UserError
from pipeline.core.memory import in_parts
from pipeline.core.progress import say
from pipeline.core.resumable import Resumable
from pipeline.data.common import texts as text_sets
from pipeline.data.tokens.tokens import Tokens
from pipeline.params.finetune import Whitening
from pipeline.params.runtime import Runtime
from pipeline.params.students import StudentBlock
from pipeline.train.loop.checkpoint import of_tensors
from pipeline.train.students.shared.base.interface import MapsLinearly, Student
from pipeline.vectors.space import pca

PROJECTION_TEXTS = 20_000
"""Texts that a projection is fitted on: many times as many as it has numbers a row."""
TEXTS_AT_A_TIME = 1024
"""That whitening tokenises, and encodes before it keeps their vectors."""


@torch.no_grad()
def append_projection(student: Student, tokens: Tokens, dim: int) -> None:
    """Append a linear layer from d to `dim` to the student's model. IBKD eq. 11.

    It starts as an orthogonal projection, the one that keeps most of these texts' vectors at length 1, of the
    first PROJECTION_TEXTS. It is not centred, so that cosines change as little as they can.

    Raises:
        UserError: the student's `encode` does not run it.
    """
    sample = tokens.select(np.arange(min(len(tokens), PROJECTION_TEXTS)))
    found = (normalize(student.encode(part).vectors.cpu().double(), dim=1) for part in sample.in_parts())
    products = sum((vectors.T @ vectors for vectors in found), torch.zeros(()))
    weights = torch.linalg.eigh(products).eigenvectors.flip(1)[:, :dim].float()
    first = tokens.select(np.arange(1))
    before = student.encode(first).vectors
    append_layer(student, weights, torch.zeros(dim))
    try:
        after = student.encode(first).vectors
    except RuntimeError:  # a layer of the student's own reads what the new one gives
        after = before
    if after.shape != (1, dim) or torch.equal(after, before):
        raise UserError(
            "finetune.projection appends a layer, which this kind's `encode` does not run; set it to null"
        )


def check_last_layer(block: StudentBlock, student: Student) -> None:
    """Fail where the student cannot get a last layer that its block asks for, before anything is trained."""
    from sentence_transformers import SentenceTransformer

    projection = block.finetune and block.finetune.projection
    if (projection or block.whitening) and not isinstance(student.module, SentenceTransformer):
        if not projection and isinstance(student, MapsLinearly):
            return
        key = "finetune.projection" if projection else "whitening"
        raise UserError(f"{key} appends a layer, which this kind of student does not take; set it to null")


def append_layer(student: Student, weights: Tensor, bias: Tensor) -> None:
    """Append a linear layer to the student's model: v @ weights + bias; weights (d, dim), bias (dim,)."""
    from sentence_transformers.base.modules import Dense

    model: Any = student.module  # a SentenceTransformer: `check_last_layer` has seen it
    width, dim = weights.shape
    layer = Dense(width, dim, activation_function=None, init_weight=weights.T.contiguous(), init_bias=bias)
    model.append(layer.to(model.device))


def whiten(
    name: str,
    student: Student,
    params: Whitening,
    corpus: Path,
    prompts: Mapping[str, str],
    device: str = "cpu",
    runtime: Runtime | None = None,
    block: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Give the student a last layer after which its vectors of the corpus have mean 0 and covariance 1.

    w = diag(variance)^(-1/2) C (v - mean), C the `dim` principal components of the largest variance of the
    vectors v of the corpus' training texts, before they are brought to length 1. In float32, whatever the
    student was trained in. A killed run goes on after the last vectors that it kept.

    Args:
        name: of the student, for messages.
        student: is changed, and left on the CPU.
        params: its block.
        corpus: corpus/corpus.parquet.
        prompts: what it has before the texts of each role.
        device: where its vectors are computed.
        runtime: where they are kept, and how often.
        block: the student's, by which they are told from those of another one with the same weights.

    Returns:
        Metrics: dimensions, texts, and the share of the variance that the dimensions had.

    Raises:
        UserError: the vectors vary in fewer directions than are to be kept.
    """
    runtime = runtime or Runtime()
    start = of_tensors(student.module.state_dict())
    student.module.to(device)
    wanted = islice(chain.from_iterable(text_sets.stream(corpus, "train", prompts)), params.max_rows)
    content = list(wanted)
    say(f"{name}: whitening is fitted on the vectors of {len(content):,} texts")
    identity: dict[str, Any] = {
        "start": start,
        "block": dict(block or {}),
        "texts": fingerprint.of_json({"texts": content}),
        "device": device,
    }
    kept = Resumable.of(Path(runtime.cache), f"whiten-{name}", **identity)
    with kept.folder() as folder:
        found = _vectors(name, student, content, folder / "vectors.bin", runtime.checkpoint_seconds)
        fitted = pca.fit(in_parts(found, TEXTS_AT_A_TIME), found.shape[1], centre=True)
    if params.dim > fitted.rank:
        raise UserError(
            f"students.{name}.whitening.dim is {params.dim}, but its vectors of {len(content):,} texts of "
            f"{corpus} vary in {fitted.rank} directions; choose {fitted.rank} or less, or add texts"
        )
    weights = (fitted.components[: params.dim] / np.sqrt(fitted.explained_variance[: params.dim, None])).T
    bias = -fitted.mean @ weights
    student.module.to("cpu")
    if isinstance(student, MapsLinearly):
        student.map_linearly(weights.astype(np.float32), bias.astype(np.float32))
    else:
        append_layer(student, torch.from_numpy(weights).float(), torch.from_numpy(bias).float())
    kept = fitted.explained_variance[: params.dim].sum() / fitted.explained_variance.sum()
    return {"whitened_dim": params.dim, "whitened_texts": len(content), "whitened_variance": float(kept)}


@torch.no_grad()
def _vectors(name: str, student: Student, content: list[str], file: Path, seconds: float) -> np.memmap:
    """The student's vectors (n, d), in a file."""
    blocks = (content[at : at + TEXTS_AT_A_TIME] for at in range(0, len(content), TEXTS_AT_A_TIME))

    def encode(block: list[str]) -> NDArray[np.float32]:
        parts = student.tokenise(block).in_parts()
        return np.concatenate([student.encode(part).vectors.float().cpu().numpy() for part in parts])

    return kept_rows.made(f"whiten {name}", "texts", file, len(content), blocks, encode, "", seconds)
