"""A trained student's vectors, as its users get them but for rounding."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core import fingerprint, kept_rows, machine
from pipeline.core.resumable import Resumable
from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.params.load import Params
from pipeline.params.runtime import Runtime
from pipeline.tasks.embeddings import Embeddings, Ids

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BATCH_SIZE = 64
Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""Texts to vectors (n, dim)."""

PRECISION = "evaluate.precision"
CHARACTERS_OF_A_TOKEN = 64
"""A block has so many characters for each token of a batch: some sixteen batches, which take seconds."""


def kept(params: Params, name: str, ids: Ids) -> Resumable:
    """What a killed run of a stage has left of students' vectors.

    Args:
        params: `runtime`.
        name: of the stage.
        ids: of the texts, ascending.

    Raises:
        UserError: torch sees no such device.
    """
    import pipeline.encoders.packed_model  # its code is part of what decides the vectors  # noqa: F401

    runtime = params.runtime
    how = {"device": machine.find_device(runtime.device), "tokens_per_batch": runtime.tokens_per_batch}
    return Resumable.of(Path(runtime.cache), name, texts=fingerprint.of_bytes(ids.tobytes()), how=how)


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
    ids. What a killed run has left in the file is not encoded again.

    Args:
        folder: the student.
        stage: what wrote it, for messages.
        table: a text set, as `write_texts` writes it.
        precision: `evaluate.precision`.
        runtime: on which device, how many tokens at a time, and how often the file is fit to go on from.
        file: where the vectors lie; that of another student, or of other texts, must not be there.

    Raises:
        UserError: there is none, or it is damaged; torch sees no such device.
    """
    model = student_folder.read(folder, stage).eval().to(machine.find_device(runtime.device))
    encode, taken = packed(model, precision, PRECISION, runtime.tokens_per_batch), "float32"
    if encode:
        taken = machine.chosen[PRECISION]
    else:
        encode = partial(
            model.encode, prompt="", batch_size=BATCH_SIZE, convert_to_numpy=True, show_progress_bar=False
        )
    blocks = texts.stream(table, None, student_folder.prompts(folder))
    cut = _cut(blocks, CHARACTERS_OF_A_TOKEN * runtime.tokens_per_batch)
    ids, label = texts.ids(table, None), f"{folder.parent.name} {folder.name}"
    vectors = kept_rows.made(
        label, "texts", file, len(ids), cut, partial(_in_float32, encode), taken, runtime.checkpoint_seconds
    )
    return Embeddings(ids, vectors, student_folder.similarity(folder))


def _in_float32(encode: Encode, given: Sequence[str]) -> NDArray[np.float32]:
    return encode(given).astype(np.float32, copy=False)


def _cut(blocks: Iterable[list[str]], characters: int) -> Iterator[list[str]]:
    """The same texts, so many characters at a time, cut alike however they are read."""
    from pipeline.encoders.packed_model import windows

    waiting: list[str] = []
    for block in blocks:
        waiting += block
        *whole, (last, _) = windows(waiting, characters)
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
