"""Pairs of sentences, or of words, with a score, from the user's files."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.params.evaluate import StsTask
from pipeline.params.phrases import WordSimilarityTask
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.labelled.labelled import Labelled, Rows, join, label
from pipeline.prepare.readers.hub_datasets import is_hub
from pipeline.prepare.readers.named import expand
from pipeline.prepare.readers.official_sts import input_files, read_official
from pipeline.prepare.readers.user_columns import filled, numbers
from pipeline.prepare.readers.user_files import read_columns
from pipeline.prepare.readers.word_pairs import official_file, read_word_pairs


@dataclass(frozen=True)
class _Pairs:
    """One file's rows."""

    rows: Rows
    unscored: int


def similarity(keys: Keys, task: StsTask | WordSimilarityTask) -> Labelled:
    """All files of a task; each is a subset unless a column names them.

    Args:
        keys: the task's place in params.
        task: its params.

    Raises:
        UserError: a file cannot be read, a cell is empty or out of range, or all scores are equal.
    """
    parts = list(_read(keys, task) if isinstance(task, StsTask) else _words(keys, task))
    if len({score for part in parts for score in part.rows.score or ()}) < 2:
        raise UserError(
            f"{task.path}: all pairs have one score, so there is nothing to rank; "
            f"{keys.other_column('score')}"
        )
    joined = join(label(keys.task, task.split, part.rows) for part in parts)
    unscored = sum(part.unscored for part in parts)
    return replace(joined, dropped={keys.task: {"no_score": unscored}} if unscored else {})


def _read(keys: Keys, task: StsTask) -> Iterator[_Pairs]:
    paths = input_files(Path(task.path)) or expand(task.path, keys.key("path"))
    root = Path(os.path.commonpath([path.parent for path in paths]))
    for path in paths:
        place = path.relative_to(root)
        if (official := read_official(path)) is None:
            yield _Pairs(_columns(task, path, place.as_posix()), 0)
        elif task.subset:
            raise UserError(
                f"{path} is in an official layout, which has no column {task.subset!r}; remove `subset`"
            )
        else:
            left, right, scores = (official.table[column].to_list() for column in ("left", "right", "score"))
            subset = [place.with_name(official.name).as_posix()] * len(scores)
            yield _Pairs(Rows(left, right, score=scores, subset=subset), official.unscored)


def _words(keys: Keys, task: WordSimilarityTask) -> Iterator[_Pairs]:
    key = keys.key("path")
    paths = [official_file(Path(task.path), task.set, key)] if task.set else expand(task.path, key)
    root = Path(os.path.commonpath([path.parent for path in paths]))
    for path in paths:
        place = path.relative_to(root).as_posix()
        found = None if is_hub(path) else read_word_pairs(path, (task.left, task.right, task.score))
        if found is None:
            yield _Pairs(_columns(task, path, place), 0)
        else:
            left, right, scores = (column.to_list() for column in found.iter_columns())
            yield _Pairs(Rows(left, right, score=scores, subset=[place] * len(scores)), 0)


def _columns(task: StsTask | WordSimilarityTask, path: Path, subset_name: str) -> Rows:
    by, between = (task.subset, task.range) if isinstance(task, StsTask) else (None, None)
    table = read_columns(path, [task.left, task.right, task.score, *([by] if by else [])])
    subset = filled(table[by], path).to_list() if by else [subset_name] * len(table)
    return Rows(
        filled(table[task.left], path).to_list(),
        filled(table[task.right], path).to_list(),
        score=numbers(table[task.score], path, between).to_list(),
        subset=subset,
    )
