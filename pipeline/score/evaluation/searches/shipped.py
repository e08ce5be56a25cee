"""A trained student's vectors, as its users get them but for rounding."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from pipeline.tasks.embeddings import Embeddings, Ids, in_file

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BATCH_SIZE = 64

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""Texts to vectors (n, dim)."""


def write_texts(eval_texts: Path, more: pl.DataFrame, wanted: Ids, out: Path) -> None:
    """Write those of the wanted ids that lie in corpus/eval.parquet, or are more texts, as a text set.

    Args:
        eval_texts: corpus/eval.parquet.
        more: `texts.LABELLED_SCHEMA`, sorted by text_id, some of which may be evaluation texts too.
        wanted: ascending, one at least.
        out: the file.
    """

    def chosen(*parts: pl.DataFrame) -> pl.DataFrame:
        rows = pl.concat(parts).unique("text_id").sort("text_id")
        ids = rows["text_id"].to_numpy()
        return rows.filter(wanted[np.minimum(np.searchsorted(wanted, ids), len(wanted) - 1)] == ids)

    with texts.writer(texts.LABELLED_SCHEMA, out) as put:
        for part in texts.parts(eval_texts, texts.LABELLED_SCHEMA):
            upto = np.searchsorted(more["text_id"].to_numpy(), part["text_id"].to_numpy()[-1:], "right").sum()
            put(chosen(part, more[:upto]))
            more = more[upto:]
        put(chosen(more))


def embeddings(
    folder: Path, stage: str, table: Path, precision: machine.Precision, runtime: Runtime, file: Path
) -> Embeddings:
    """Texts in their roles by the student that `stage` wrote; transformers without padding.

    Texts are read, encoded and written some at a time: memory does not grow with their number but by their
    ids.

    Args:
        folder: the student.
        stage: what wrote it, for messages.
        table: a text set, as `write_texts` writes it.
        precision: `evaluate.precision`.
        runtime: on which device, and how many tokens at a time.
        file: where the vectors lie.

    Raises:
        UserError: there is none, or it is damaged; torch sees no such device.
    """
    model = student_folder.read(folder, stage).eval().to(machine.find_device(runtime.device))
    blocks: Iterable[list[str]] = texts.stream(table, None, student_folder.prompts(folder))
    if encode := packed(model, precision, "evaluate.precision", runtime.tokens_per_batch):
        blocks = _as_windows(blocks)
    else:
        encode = partial(
            model.encode, prompt="", batch_size=BATCH_SIZE, convert_to_numpy=True, show_progress_bar=False
        )
    similarity = student_folder.similarity(folder)
    return in_file(file, texts.ids(table, None), map(encode, blocks), similarity)


def _as_windows(blocks: Iterable[list[str]]) -> Iterator[list[str]]:
    """The same texts, cut where a packed model cuts all of them: no vector depends on the blocks."""
    from pipeline.encoders.packed_model import windows

    waiting: list[str] = []
    for block in blocks:
        waiting += block
        *whole, (last, _) = windows(waiting)
        yield from (waiting[start:stop] for start, stop in whole)
        waiting = waiting[last:]
    yield waiting


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
