"""Labelled rows with the texts that they name, and texts with their places, for `pipeline inspect`."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from pipeline.data.common.files.tables import readable_or
from pipeline.data.common.texts import CORPUS_SCHEMA
from pipeline.tasks.pairs import PAIRS_SCHEMA

NAMED = {"left_id": "left", "right_id": "right"}
AGAIN = "run `dvc repro -f prepare`"
BESIDE = ("texts.parquet", "eval.parquet", "finetune.parquet")
"""Files of texts that lie beside labelled rows, or in corpus/ beside their folder."""


def is_labelled(columns: list[str]) -> bool:
    """Whether a table of these columns holds tasks, triplets or mined negatives."""
    return columns == list(PAIRS_SCHEMA)


def with_texts(path: Path, rows: int) -> pl.DataFrame:
    """Rows of every task, some of each, with texts where the ids' texts are found, else with the ids.

    Args:
        path: labelled rows, `pairs.PAIRS_SCHEMA`.
        rows: at most.
    """
    table = pl.read_parquet(path)
    groups = table.select("task", "split").n_unique()
    each = table.group_by("task", "split", maintain_order=True).head(max(1, rows // max(1, groups)))
    chosen = each.head(rows).select(list(PAIRS_SCHEMA))
    ids = pl.concat([chosen["left_id"], chosen["right_id"], chosen["negative_ids"].explode()]).drop_nulls()
    known = dict(_texts(path, ids.unique()))

    def text(number: int | None) -> str | None:
        return None if number is None else known.get(number, str(number))

    named = {new: pl.Series(new, map(text, chosen[old]), dtype=pl.String) for old, new in NAMED.items()}
    negatives = [" | ".join(str(text(one)) for one in found) for found in chosen["negative_ids"]]
    shown = chosen.select("task", "split", "subset").with_columns(
        *named.values(), pl.Series("negatives", negatives), *chosen.select("score", "label").iter_columns()
    )
    empty = [name for name in shown.columns if shown[name].cast(pl.String).fill_null("").eq("").all()]
    return shown.drop(empty)


def with_places(path: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """Texts with the file, the row and the part that each comes from, where these lie beside the texts.

    Args:
        path: of the texts.
        rows: some of them.
    """
    beside = path.parent / "provenance.parquet"
    if list(CORPUS_SCHEMA) != rows.columns or not beside.exists():
        return rows
    with readable_or(beside, AGAIN):
        return _with_places(beside, rows)


def _with_places(beside: Path, rows: pl.DataFrame) -> pl.DataFrame:
    places = pl.scan_parquet(beside).drop("source").filter(pl.col("text_id").is_in(rows["text_id"].implode()))
    found = rows.join(places.collect(), on="text_id", how="left", maintain_order="left")
    return found.drop([name for name in found.columns if found[name].null_count() == len(found)])


def _texts(path: Path, ids: pl.Series) -> Iterator[tuple[int, str]]:
    """Id and text of those ids that the files of texts nearby hold."""
    for folder in (path.parent, path.parent.parent / "corpus"):
        for name in BESIDE:
            if (folder / name).exists():
                with readable_or(folder / name, AGAIN):
                    held = pl.scan_parquet(folder / name).select("text_id", "text")
                    found = list(held.filter(pl.col("text_id").is_in(ids.implode())).collect().iter_rows())
                yield from found
