"""Mentions and the entities that they name, from the user's files."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from pipeline.core.errors import UserError
from pipeline.params.evaluate import EntityResolutionTask
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.labelled.labelled import Labelled, Rows, join, label
from pipeline.prepare.readers.named import expand
from pipeline.prepare.readers.user_columns import filled, flags, is_filled
from pipeline.prepare.readers.user_files import read_columns
from pipeline.prepare.shared.cleaning import normalise


def entities(keys: Keys, task: EntityResolutionTask) -> Labelled:
    """The matches of every subset, then its other entities, each once.

    A row that says that two are no match adds its entity to the subset's candidates, and nothing else; where
    another row of the subset says that they match, they do. A query without a match in its subset is left
    out, and its rows are counted. Texts are compared as they are kept: see `cleaning.normalise`.

    Args:
        keys: the task's place in params.
        task: its params.

    Raises:
        UserError: a file cannot be read, a cell is empty, a label is not 0 or 1, or a subset has no match.
    """
    paths = expand(task.path, keys.key("path"))
    root = os.path.commonpath([path.parent for path in paths])
    rows = pl.concat([_read(task, path, path.relative_to(root).as_posix()) for path in paths])
    matches = rows.filter("match").unique(["subset", "query", "entity"], maintain_order=True)
    without = rows.join(matches, on="subset", how="anti", maintain_order="left")
    if len(without):
        raise UserError(
            f"{task.path}: no row of the subset {without['subset'][0]!r} is a match; correct its labels or "
            "leave it out"
        )
    unanswered = rows.join(matches, on=["subset", "query"], how="anti")
    dropped = {"query_without_match": len(unanswered)} if len(unanswered) else {}
    if task.candidates:
        texts = _candidates(keys, task.candidates, task.candidate)
        there = texts.filter(is_filled(texts))
        if empty := len(texts) - len(there):
            dropped["candidate_is_empty"] = empty
        known = pl.DataFrame({"entity": normalise(there)}).unique(maintain_order=True)
        inside = matches.join(known, on="entity", how="semi", maintain_order="left")
        if inside.is_empty():
            raise UserError(
                f"{task.candidates}: no match of {task.path} is among its {task.candidate}; "
                f"{keys.other_column('candidate')}"
            )
        if strangers := len(matches) - len(inside):
            dropped["entity_not_in_candidates"] = strangers
        matches, rows = inside, inside.select("subset").unique().join(known, how="cross")
    return resolution(keys.task, task.split, matches, rows, dropped)


def resolution(
    name: str, split: str, matches: pl.DataFrame, candidates: pl.DataFrame, dropped: Mapping[str, int]
) -> Labelled:
    """A task of matches, and of candidates that no query is known to match.

    Args:
        name: the task's name in params.
        split: where it counts.
        matches: subset, query, entity; each once.
        candidates: subset, entity; with those of the matches, or without.
        dropped: rows that were left out, by reason.
    """
    others = candidates.join(matches, on=["subset", "entity"], how="anti", maintain_order="left").unique(
        ["subset", "entity"], maintain_order=True
    )
    answers = Rows(
        matches["query"].to_list(),
        matches["entity"].to_list(),
        score=[1.0] * len(matches),
        subset=matches["subset"].to_list(),
    )
    unmatched = Rows([None] * len(others), others["entity"].to_list(), subset=others["subset"].to_list())
    joined = join([label(name, split, answers), label(name, split, unmatched)])
    return replace(joined, dropped={name: dropped} if dropped else {})


def _candidates(keys: Keys, pattern: str, column: str) -> pl.Series:
    """The entities of all files."""
    paths = expand(pattern, keys.key("candidates", "path"))
    return pl.concat(read_columns(path, [column])[column] for path in paths)


def _read(task: EntityResolutionTask, path: Path, subset_name: str) -> pl.DataFrame:
    """One file: subset, query, entity, match."""
    named = [column for column in (task.label, task.subset) if column]
    table = read_columns(path, [task.query, task.entity, *named])
    query, entity = (normalise(filled(table[column], path)) for column in (task.query, task.entity))
    match = flags(table[task.label], path) if task.label else pl.repeat(True, len(table), eager=True)
    subset = (
        filled(table[task.subset], path) if task.subset else pl.repeat(subset_name, len(table), eager=True)
    )
    return pl.DataFrame({"subset": subset, "query": query, "entity": entity, "match": match})
