"""Texts, or pairs of texts, with labels: rows that train a classifier, choose its settings, and score it."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from pipeline.core.errors import UserError
from pipeline.params.classes import ClassificationTask, PairClassificationTask
from pipeline.prepare.cleaning import fold, ids, normalise
from pipeline.prepare.labelled.labelled import Labelled, Rows, join, label
from pipeline.prepare.readers.user_columns import filled
from pipeline.prepare.readers.user_files import expand, read_columns
from pipeline.prepare.sampling import keep_first, ranks

DEV_SHARE = 10
"""One in so many training rows of each label is a dev row, where no dev file is given."""
MAX_NAMED = 8
"""Labels that a message names."""

Examples = pl.DataFrame
"""Columns `left`, `right` (null for a single text), `label`, and `where`: file and row, for messages."""


def classification(task: str, block: ClassificationTask | PairClassificationTask) -> Labelled:
    """The rows of a task in files.

    Args:
        task: its name in params.
        block: its params.

    Raises:
        UserError: a file cannot be read, a cell is empty, or the rows make no task: see `divide`.
    """
    key = f"evaluate.tasks.{task}"
    dev = _read(block.dev, f"{key}.dev", block) if block.dev else None
    train, test = _read(block.train, f"{key}.train", block), _read(block.test, f"{key}.test", block)
    return divide(task, block.split, train=train, test=test, dev=dev, limit=block.max_train)


def divide(
    task: str, split: str, *, train: Examples, test: Examples, dev: Examples | None, limit: int | None
) -> Labelled:
    """Training, dev and test rows that have no row in common; the subset of each pair says which it is.

    Rows are the same if they fold to the same text, pairs in either order. Test rows all stay, so that scores
    compare with published ones: training and dev rows that are test rows are left out, and training rows
    that are dev rows.

    Args:
        task: the task's name.
        split: where the test rows' score counts: dev or test.
        train: training rows.
        test: test rows.
        dev: dev rows; None: a tenth of the training rows of each label, chosen by hash.
        limit: training rows, at most, chosen by hash, with that tenth.

    Raises:
        UserError: fewer than two labels are left to train on, no dev row is left, or a dev or test row has a
            label that no training row has.
    """
    train, test = _keyed(train), _keyed(test)
    dropped: dict[str, int] = {}

    def keep(reason: str, rows: Examples, kept: Examples) -> Examples:
        dropped[reason] = dropped.get(reason, 0) + len(rows) - len(kept)
        return kept

    train = keep("training_row_is_test_row", train, _without(train, test))
    if dev is not None:
        dev = _keyed(dev)
        dev = keep("dev_row_is_test_row", dev, _without(dev, test))
        train = keep("training_row_is_dev_row", train, _without(train, dev))
    train = keep("over_limit", train, keep_first(train, "key", limit, "limit"))
    if dev is None:
        dev, train = _tenth(train)
        train = keep("training_row_is_dev_row", train, _without(train, dev))
    counts = {reason: count for reason, count in dropped.items() if count}
    _check(f"evaluate.tasks.{task}", train, dev, test, counts)
    parts = {"train": train, "dev": dev, "test": test}
    joined = join(_label(task, split, subset, rows) for subset, rows in parts.items())
    return replace(joined, dropped={task: counts} if counts else {})


def _read(pattern: str, key: str, block: ClassificationTask | PairClassificationTask) -> Examples:
    """All files that a path or a glob names."""
    pair = isinstance(block, PairClassificationTask)
    sides = [block.left, block.right] if isinstance(block, PairClassificationTask) else [block.text]
    tables = []
    for path in expand(pattern, key):
        table = read_columns(path, [*sides, block.label])
        columns = [filled(table[column], path).to_list() for column in (*sides, block.label)]
        right = columns[1] if pair else [None] * len(table)
        where = [f"{path}, row {number} of the data" for number in range(1, len(table) + 1)]
        tables.append(examples(columns[0], right, columns[-1], where))
    return pl.concat(tables)


def examples(
    left: Sequence[str], right: Sequence[str | None], labels: Sequence[str], where: Sequence[str]
) -> Examples:
    """Equally long columns as a table."""
    columns = {"left": left, "right": right, "label": labels, "where": where}
    table = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    return table.with_columns(pl.col("label").str.strip_chars())


def _keyed(rows: Examples) -> Examples:
    """With a column `key`, equal where two rows are the same."""
    folded = [fold(normalise(rows[side].fill_null(""))).alias(side) for side in ("left", "right")]
    ends = pl.DataFrame(folded).select(
        pl.min_horizontal("left", "right") + "\n" + pl.max_horizontal("left", "right")
    )
    return rows.with_columns(ids(ends.to_series()).alias("key"))


def _without(rows: Examples, others: Examples) -> Examples:
    return rows.filter(~pl.col("key").is_in(others["key"].unique().implode()))


def _tenth(train: Examples) -> tuple[Examples, Examples]:
    """A tenth of the rows of each label, by hash, and the rest."""
    place = pl.col("rank").rank("ordinal").over("label")
    chosen = train.with_columns(rank=ranks(train["key"], "dev")).select(
        place <= pl.len().over("label") // DEV_SHARE
    )
    return train.filter(chosen.to_series()), train.filter(~chosen.to_series())


def _check(key: str, train: Examples, dev: Examples, test: Examples, dropped: dict[str, int]) -> None:
    known = sorted(train["label"].unique())
    said = ", ".join(known[:MAX_NAMED]) + (", ..." if len(known) > MAX_NAMED else "")
    left = f"{key}.train leaves {len(train):,} rows to train on; dropped: {dropped or 'none'}"
    if len(known) < 2:
        raise UserError(
            f"{left}; their labels are {said or 'none'}, a classifier needs two; give it other rows, or "
            "correct `label`"
        )
    if dev.is_empty():
        raise UserError(
            f"{left}; no row is left to choose the classifier's settings by (a tenth of each label of "
            f"{DEV_SHARE} or more rows); name a file of others as {key}.dev"
        )
    unseen = pl.concat([dev, test]).filter(~pl.col("label").is_in(known))
    if len(unseen):
        where, found = unseen.select("where", "label").row(0)
        limited = f" (or, by a higher {key}.max_train, keep)" if "over_limit" in dropped else ""
        raise UserError(
            f"{where}: no row that is left to train on has the label {found!r} (they have {said}; dropped: "
            f"{dropped or 'none'}); correct it, or give {key}.train{limited} such rows"
        )


def _label(task: str, split: str, subset: str, rows: Examples) -> Labelled:
    left, right, labels = (rows[column].to_list() for column in ("left", "right", "label"))
    return label(task, split, Rows(left, right, subset=[subset] * len(rows), label=labels))
