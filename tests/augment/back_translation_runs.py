"""Back-translations of the tiny grammar, and of what random weights make of it."""

from pathlib import Path
from typing import Any

import polars as pl
import small_translation

from pipeline.augment.back_translation.augmenter import augment
from pipeline.augment.method.interface import Resources
from pipeline.data.common.texts import text_id
from pipeline.params.augment import BackTranslationAugment

SENTENCES = [row["en"] for row in small_translation.sentences()]


def pivot(*folders: Path, **languages: str) -> list[dict[str, str]]:
    """A chain of models; `languages` are those of every one."""
    return [{"model": str(folder), **languages} for folder in folders]


def table(sentences: list[str]) -> pl.DataFrame:
    """Texts with their ids, ascending."""
    rows = [(text_id(text), text) for text in sentences]
    return pl.DataFrame(rows, schema={"text_id": pl.UInt64, "text": pl.String}, orient="row").sort("text_id")


def block(
    pivots: list[Any], engine: str = "ctranslate2", size: int = 4, **fields: Any
) -> BackTranslationAugment:
    """Params for sentences of some ten tokens."""
    chosen = {"decoding": {"kind": "beam", "size": size}, "max_length": 24, "chunk_texts": 100} | fields
    return BackTranslationAugment.model_validate(
        {"enabled": True, "pivots": pivots, "engine": engine, **chosen}
    )


def variants(
    params: BackTranslationAugment, cache: Path, sentences: list[str] = SENTENCES
) -> list[list[str]]:
    """What comes back of each sentence, in their order, by pivot."""
    made = augment(table(sentences), params, Resources(cache, cache, cache, "cpu")).rows
    assert made.schema == {"parent_id": pl.UInt64, "text": pl.String}
    assert made["parent_id"].is_sorted()
    found: dict[int, list[str]] = {}
    for parent, text in made.iter_rows():
        found.setdefault(parent, []).append(text)
    return [found[text_id(text)] for text in sentences]
