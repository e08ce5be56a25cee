"""Labelled data of any task: corpus/tasks.parquet (evaluation) and corpus/triplets.parquet (fine-tuning)."""

from pathlib import Path

import polars as pl

from pipeline.data.common.files.tables import Schema, read_table, write_table

PAIRS_SCHEMA: Schema = {
    "task": pl.String,
    "split": pl.String,
    "subset": pl.String,
    "left_id": pl.UInt64,
    "right_id": pl.UInt64,
    "negative_ids": pl.List(pl.UInt64),
    "score": pl.Float32,
    "label": pl.String,
}
"""What a row says depends on the task:

- similarity: left and right have this score; the subset is the file's or the column's.
- retrieval: query left has document right with relevance `score`, or PASSED_OVER for a document that is no
  find; a row without a left is a document that no query is known to match. The right sides of a task are its
  document collection. Where several queries or documents have one text, the subset is the query's own id in
  all rows, and the label is the document's; so they are where a row without a right says that a document is
  relevant which is not there.
- entity resolution: query left names entity right; a row without a left is another entity of its subset. The
  right sides of a subset are its candidates.
- choice: query left has the answer right; the hard negatives are the other candidates.
- triplets: anchor left, positive right, hard negatives; no score. A row without a left is a document that
  negatives may be mined from beside those that triplets name. A row with the score PASSED_OVER is a triplet
  that a limit left out: its right is still a positive of left, and never mined as a negative. Stage `mine`
  leaves both kinds of rows out.
- clustering: left has this label, and the subset test.
- classes: left, or left and right, has this label. The subset says what the row is for: to train a
  classifier, to choose its settings or to score it (train, dev, test); the split, where that score counts.
"""
PASSED_OVER = -1.0
"""The score of a query's own document, and of a positive whose triplet a limit left out."""
IS_TRIPLET = pl.all_horizontal(pl.col("left_id").is_not_null(), pl.col("score").is_null())
"""Whether a row of triplets is trained on; the others are for `mine`."""
HAS_CLASS = pl.all_horizontal(pl.col("label", "left_id").is_not_null(), pl.col("score").is_null())
"""Whether a row's label is a class, and no document's own id."""
SORT = ["task", "split", "subset", "left_id", "right_id", "label"]


def read(path: Path) -> pl.DataFrame:
    """Read a pairs file written by `prepare`."""
    return read_table(path, PAIRS_SCHEMA, "prepare")


def write(pairs: pl.DataFrame, path: Path) -> None:
    """Write pairs, sorted by task, split, subset and ids."""
    write_table(pairs.sort(SORT, nulls_last=False), PAIRS_SCHEMA, path)


def make(task: str, split: str, rows: dict[str, list]) -> pl.DataFrame:
    """Pairs of one task and split.

    Args:
        task: the task's name in params.yaml.
        split: train, dev or test.
        rows: equally long columns; `left_id` and `right_id`, and any of `subset`, `negative_ids`, `score`,
            `label`.
    """
    missing: dict[str, pl.Expr] = {
        "subset": pl.lit(""),
        "negative_ids": pl.lit([], dtype=pl.List(pl.UInt64)),
        "score": pl.lit(None, dtype=pl.Float32),
        "label": pl.lit(None, dtype=pl.String),
    }
    given = {name: pl.Series(name, values, dtype=PAIRS_SCHEMA[name]) for name, values in rows.items()}
    frame = pl.DataFrame(given).with_columns(
        pl.lit(task).alias("task"),
        pl.lit(split).alias("split"),
        *(default.alias(name) for name, default in missing.items() if name not in rows),
    )
    return frame.select(pl.col(name).cast(kind) for name, kind in PAIRS_SCHEMA.items())
