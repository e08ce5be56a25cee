"""Mentions and the entities that they name, from the user's files."""

import os
from dataclasses import replace
from pathlib import Path

import polars as pl

from pipeline.core.errors import UserError
from pipeline.params.evaluate import EntityResolutionTask
from pipeline.prepare.cleaning import normalise
from pipeline.prepare.labelled.labelled import Labelled, Rows, join, label
from pipeline.prepare.readers.user_columns import filled, flags
from pipeline.prepare.readers.user_files import expand, read_columns


def entities(name: str, task: EntityResolutionTask) -> Labelled:
    """The matches of every subset, then its other entities, each once.

    A row that says that two are no match adds its entity to the subset's candidates, and nothing else; where
    another row of the subset says that they match, they do. A query without a match in its subset is left
    out, and its rows are counted. Texts are compared as they are kept: see `cleaning.normalise`.

    Args:
        name: the task's name in params.
        task: its params.

    Raises:
        UserError: a file cannot be read, a cell is empty, a label is not 0 or 1, or a subset has no match.
    """
    paths = expand(task.path, f"evaluate.tasks.{name}.path")
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
    others = rows.join(matches, on=["subset", "entity"], how="anti", maintain_order="left").unique(
        ["subset", "entity"], maintain_order=True
    )
    answers = Rows(
        matches["query"].to_list(),
        matches["entity"].to_list(),
        score=[1.0] * len(matches),
        subset=matches["subset"].to_list(),
    )
    candidates = Rows([None] * len(others), others["entity"].to_list(), subset=others["subset"].to_list())
    joined = join([label(name, task.split, answers), label(name, task.split, candidates)])
    return replace(
        joined, dropped={name: {"query_without_match": len(unanswered)}} if len(unanswered) else {}
    )


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
