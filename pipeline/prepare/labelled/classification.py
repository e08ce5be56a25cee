"""Texts, or pairs of texts, with labels: rows that train a classifier, choose its settings, and score it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from pipeline.core.errors import UserError
from pipeline.data.common.texts import fold
from pipeline.params.classes import ClassificationTask, PairClassificationTask
from pipeline.params.phrases import ParaphraseTask
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.labelled.labelled import Labelled, Rows, join, label
from pipeline.prepare.readers.named import expand
from pipeline.prepare.readers.official_glue import NLI
from pipeline.prepare.readers.user_columns import filled, is_filled, truth, whole_numbers
from pipeline.prepare.readers.user_files import read_columns
from pipeline.prepare.sampling import keep_first, ranks
from pipeline.prepare.shared.cleaning import ids, normalise

DEV_SHARE = 10
"""One in so many training rows of each label is a dev row, where no dev file is given."""
HELD_OUT = 0.15
"""The share of PEARL's pairs that is scored, and the share that chooses settings."""
UNDECIDED = "-"
"""SNLI's label of a pair on which its people do not agree."""
PART = {"train": "training"}
"""Parts as the reasons for leaving rows out name them."""
MAX_NAMED = 8
"""Labels that a message names."""

Examples = pl.DataFrame
"""Columns `left`, `right` (null for a single text), `label`, and `where`: file and row, for messages."""


def classification(keys: Keys, block: ClassificationTask | PairClassificationTask) -> Labelled:
    """The rows of a task in files; those without a label are left out and counted.

    Args:
        keys: the task's place in params.
        block: its params.

    Raises:
        UserError: a file cannot be read or has no label, a text is empty, or the rows make no task: see
            `divide`.
    """
    named = {"train": block.train, "test": block.test, **({"dev": block.dev} if block.dev else {})}
    files = {part: _read(path, keys.key(part), block) for part, path in named.items()}
    parts, dropped = _with_labels(files, block.label)
    return divide(
        keys,
        block.split,
        train=parts["train"],
        test=parts["test"],
        dev=parts.get("dev"),
        limit=block.max_train,
        left_out=dropped,
    )


def paraphrases(keys: Keys, block: ParaphraseTask) -> Labelled:
    """The rows of one file, 15 of 100 to score, 15 to choose settings and 70 to train, by hash of the pair.

    PEARL's program divides them so by chance.

    Args:
        keys: the task's place in params.
        block: its params.

    Raises:
        UserError: as `classification`.
    """
    found, dropped = _with_labels({"pair": _read(block.path, keys.key("path"), block)}, block.label)
    rows = _keyed(found["pair"])
    rows = rows[np.argsort(ranks(rows["key"], "paraphrase"), kind="stable")]
    count = math.ceil(HELD_OUT * len(rows))
    test, dev, train = rows[:count], rows[count : 2 * count], rows[2 * count :]
    return divide(keys, "test", train=train, test=test, dev=dev, limit=block.max_train, left_out=dropped)


def divide(
    keys: Keys,
    split: str,
    *,
    train: Examples,
    test: Examples,
    dev: Examples | None,
    limit: int | None,
    left_out: Mapping[str, int] | None = None,
) -> Labelled:
    """Training, dev and test rows that have no row in common; the subset of each pair says which it is.

    Rows are the same if they fold to the same text, pairs in either order. Test rows all stay, so that scores
    compare with published ones: training and dev rows that are test rows are left out, and training rows
    that are dev rows.

    Args:
        keys: the task's place in params.
        split: where the test rows' score counts: dev or test.
        train: training rows.
        test: test rows.
        dev: dev rows; None: a tenth of the training rows of each label, chosen by hash.
        limit: training rows, at most, chosen by hash, with that tenth.
        left_out: rows that the files have besides, by reason.

    Raises:
        UserError: fewer than two labels are left to train on, no dev row is left, or a dev or test row has a
            label that no training row has.
    """
    train, test = _keyed(train), _keyed(test)
    dropped = dict(left_out or {})

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
    _check(keys, train, dev, test, counts)
    parts = {"train": train, "dev": dev, "test": test}
    joined = join(_label(keys.task, split, subset, rows) for subset, rows in parts.items())
    return replace(joined, dropped={keys.task: counts} if counts else {})


def _read(
    pattern: str, key: str, block: ClassificationTask | PairClassificationTask | ParaphraseTask
) -> dict[Path, Examples]:
    """All files that a path or a glob names; the label of a row is null where it has none."""
    sides = [block.text] if isinstance(block, ClassificationTask) else [block.left, block.right]
    tables = {}
    for path in expand(pattern, key):
        table = read_columns(path, [*sides, block.label])
        texts = [filled(table[side], path).to_list() for side in sides]
        right = texts[1] if len(texts) == 2 else [None] * len(table)
        labels = table[block.label].set(~is_filled(table[block.label]), None)
        where = [f"{path}, row {number} of the data" for number in range(1, len(table) + 1)]
        tables[path] = examples(texts[0], right, truth(labels).to_list(), where)
    return tables


def _with_labels(
    files: Mapping[str, Mapping[Path, Examples]], column: str
) -> tuple[dict[str, Examples], dict[str, int]]:
    """The rows of each part that have a label, each number in one spelling, and how many rows have none.

    Raises:
        UserError: none of a file's rows has a label.
    """
    known = {label for tables in files.values() for rows in tables.values() for label in rows["label"]}
    nothing = [UNDECIDED] if {str(label).lower() for label in known - {UNDECIDED, None}} <= {*NLI} else []
    spelled = whole_numbers(known)
    parts: dict[str, Examples] = {}
    dropped = {}
    for part, tables in files.items():
        kept = {
            path: rows.filter(~pl.col("label").is_in(nothing) & pl.col("label").is_not_null())
            for path, rows in tables.items()
        }
        if bare := [path for path, rows in kept.items() if rows.is_empty()]:
            raise UserError(
                f"{bare[0]}: no row has a label in {column}; name another column, or a file with labels"
            )
        parts[part] = pl.concat(kept.values()).with_columns(pl.col("label").replace(spelled))
        if without := sum(map(len, tables.values())) - len(parts[part]):
            dropped[f"{PART.get(part, part)}_row_without_label"] = without
    return parts, dropped


def examples(
    left: Sequence[str], right: Sequence[str | None], labels: Sequence[str | None], where: Sequence[str]
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


def _check(keys: Keys, train: Examples, dev: Examples, test: Examples, dropped: dict[str, int]) -> None:
    known = sorted(train["label"].unique())
    said = ", ".join(known[:MAX_NAMED]) + (", ..." if len(known) > MAX_NAMED else "")
    left = f"{keys.key('train', 'path')} leaves {len(train):,} rows to train on; dropped: {dropped or 'none'}"
    if len(known) < 2:
        raise UserError(
            f"{left}; their labels are {said or 'none'}, a classifier needs two; {_more_rows(keys, dropped)}"
            f"{', or correct `label`' if 'label' in keys.fields else ''}"
        )
    if dev.is_empty():
        fix = (
            f"name a file of others as {keys.key('dev')}"
            if "dev" in keys.fields
            else _more_rows(keys, dropped)
        )
        raise UserError(
            f"{left}; no row is left to choose the classifier's settings by (a tenth of each label of "
            f"{DEV_SHARE} or more rows); {fix}"
        )
    unseen = pl.concat([dev, test]).filter(~pl.col("label").is_in(known))
    if len(unseen):
        where, found = unseen.select("where", "label").row(0)
        raise UserError(
            f"{where}: no row that is left to train on has the label {found!r} (they have {said}; dropped: "
            f"{dropped or 'none'}); correct it, or {_more_rows(keys, dropped)}"
        )


def _more_rows(keys: Keys, dropped: dict[str, int]) -> str:
    """How a task gets other rows to train on."""
    ways = [f"give {keys.key(one)} other rows" for one in ("train", "path") if one in keys.fields]
    if "max_train" in keys.fields and ("over_limit" in dropped or not ways):
        ways.append(f"raise {keys.key('max_train')}")
    return ", or ".join(ways)


def _label(task: str, split: str, subset: str, rows: Examples) -> Labelled:
    left, right, labels = (rows[column].to_list() for column in ("left", "right", "label"))
    return label(task, split, Rows(left, right, subset=[subset] * len(rows), label=labels))
