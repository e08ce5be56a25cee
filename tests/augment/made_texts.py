"""What becomes of texts that an augmenter made."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pipeline.augment.method.derived import NewTexts, look_at
from pipeline.data.common.files.tables import Range, lies
from pipeline.data.common.texts import AUGMENTED_SCHEMA
from pipeline.params.gates import TextGates


@dataclass(frozen=True)
class Derived:
    """Texts by rising id, and the counts."""

    texts: pl.DataFrame
    dropped: dict[str, int]
    novelty: float | None


def new_texts(made: pl.DataFrame, corpus: pl.DataFrame, method: str, gates: TextGates) -> Derived:
    """What is left of `made`."""

    def within(among: Range) -> pl.DataFrame:
        return corpus.select("text_id", "text").filter(lies(among))

    with tempfile.TemporaryDirectory() as folder:
        found = NewTexts(look_at([corpus] if len(corpus) else []), method, gates, Path(folder))
        found.add(made, corpus)
        texts = pl.concat([pl.DataFrame(schema=AUGMENTED_SCHEMA), *found.parts(within)])
    return Derived(texts, found.dropped, found.novelty)
