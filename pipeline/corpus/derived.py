"""Texts that an augmenter made: which of them are new."""

import polars as pl

from pipeline.artifacts.texts import AUGMENTED_SCHEMA
from pipeline.corpus.build import check_ids
from pipeline.corpus.cleaning import fold, ids, normalise


def new_texts(
    made: pl.DataFrame, seed: pl.DataFrame, evaluated: pl.DataFrame, method: str
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Clean an augmenter's texts, and drop those that are not new.

    Args:
        made: columns `parent_id` and `text`, in an order that does not depend on chance.
        seed: the seed texts of all splits, `texts.SEED_SCHEMA`.
        evaluated: the evaluation texts, `texts.LABELLED_SCHEMA`.
        method: the augmenter's name.

    Returns:
        A table of `texts.AUGMENTED_SCHEMA`, and the number of dropped rows by reason.
    """
    table = made.with_columns(normalise(made["text"]), pl.lit(method).alias("method"))
    table = table.with_columns(ids(table["text"]))
    check_ids(pl.concat([part.select("text_id", "text") for part in (seed, table)]))
    held_out = fold(evaluated["text"]).unique().implode()
    dropped: dict[str, int] = {}

    def keep(reason: str, kept: pl.DataFrame) -> pl.DataFrame:
        dropped[reason] = len(table) - len(kept)
        return kept

    table = keep("empty", table.filter(pl.col("text") != ""))
    table = keep("unchanged", table.filter(pl.col("text_id") != pl.col("parent_id")))
    table = keep("seed_text", table.join(seed, on="text_id", how="anti", maintain_order="left"))
    table = keep("duplicate", table.unique("text_id", keep="first", maintain_order=True))
    table = keep("evaluation_text", table.filter(~fold(table["text"]).is_in(held_out)))
    return table.select(list(AUGMENTED_SCHEMA)), {reason: count for reason, count in dropped.items() if count}
