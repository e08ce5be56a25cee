"""Choices, classes to cluster, tables to join: tasks of PEARL (Chen et al. 2024) that no other kind reads."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from pipeline.core.errors import UserError
from pipeline.params.phrases import ChoiceTask, ClusteringTask, FuzzyJoinTask
from pipeline.prepare.labelled.entities import resolution
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.labelled.labelled import Labelled, Rows, join, label
from pipeline.prepare.readers.delimited import commas, read_lines
from pipeline.prepare.readers.hub_datasets import is_hub
from pipeline.prepare.readers.named import expand
from pipeline.prepare.readers.user_columns import filled, is_filled, truth, whole_numbers
from pipeline.prepare.readers.user_files import read_columns
from pipeline.prepare.shared.cleaning import normalise

BAR = " | "
"""Between the cells of Turney's file."""
WORDS = 2
"""Cells after the answer that hold the phrase's own two words; PEARL does not take them for candidates."""
TEST = "test"
"""The subset of rows that are scored."""


def choice(keys: Keys, task: ChoiceTask) -> Labelled:
    """Queries with their answers and the other candidates.

    A question one of whose other candidates is the answer itself has no answer: it is left out and counted.

    Args:
        keys: the task's place in params.
        task: its params.

    Raises:
        UserError: a file cannot be read, a query or an answer is empty, or a question has no other candidate.
    """
    paths = expand(task.path, keys.key("path"))
    rows = [row for path in paths for row in _questions(task, path)]
    kept = [row for row in rows if row[1] not in row[2]]
    if not kept:
        raise UserError(
            f"{task.path}: each answer is also among the other candidates; {keys.other_column('others')}"
        )
    queries, answers, others = zip(*kept, strict=True)
    labelled = join([label(keys.task, task.split, Rows(queries, answers, negatives=others))])
    without = len(rows) - len(kept)
    return replace(labelled, dropped={keys.task: {"answer_among_others": without}} if without else {})


def clustering(keys: Keys, task: ClusteringTask) -> Labelled:
    """Texts with their classes; rows without a text or a class are left out and counted.

    Args:
        keys: the task's place in params.
        task: its params.

    Raises:
        UserError: a file cannot be read, or there are fewer than two classes.
    """
    paths = expand(task.path, keys.key("path"))
    table = pl.concat(read_columns(path, [task.text, task.label]) for path in paths)
    rows = table.filter(is_filled(table[task.text]) & is_filled(table[task.label]))
    classes = truth(rows[task.label]).str.strip_chars()
    classes = classes.replace(whole_numbers(classes))
    if classes.n_unique() < 2:
        raise UserError(
            f"{task.path}: {task.label} has {classes.n_unique()} classes, and two are needed; "
            f"{keys.other_column('label')}"
        )
    texts = rows[task.text].to_list()
    found = Rows(texts, [None] * len(texts), subset=[TEST] * len(texts), label=classes.to_list())
    without = len(table) - len(rows)
    dropped = {keys.task: {"row_without_text_or_class": without}} if without else {}
    return replace(join([label(keys.task, task.split, found)]), dropped=dropped)


def fuzzy_join(keys: Keys, task: FuzzyJoinTask) -> Labelled:
    """Each title of a right table with its match, among all titles of the left table.

    Args:
        keys: the task's place in params.
        task: its params.

    Raises:
        UserError: there is no table, a file cannot be read, a title is empty, or a match is not in the left
            table.
    """
    folders = sorted(path.parent for path in Path(task.path).glob("*/gt.csv"))
    if not folders:
        raise UserError(
            f"{keys.key('tables', 'path')}: {task.path} has no folder with left.csv, right.csv and gt.csv; "
            "name the one that holds AutoFJ's tables, such as autofj/benchmark"
        )
    matches, left = zip(*map(_table, folders), strict=True)
    return resolution(keys.task, task.split, pl.concat(matches), pl.concat(left), {})


def _table(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Matches (subset, query, entity) and the entities (subset, entity) of one table."""
    columns = {"gt": ["title_r", "title_l"], "left": ["title"]}
    read = {part: pl.concat(commas(folder / f"{part}.csv", names)) for part, names in columns.items()}
    query, entity, known = (
        normalise(filled(read[part][name], folder / f"{part}.csv")).alias(new)
        for part, name, new in (
            ("gt", "title_r", "query"),
            ("gt", "title_l", "entity"),
            ("left", "title", "entity"),
        )
    )
    subset = pl.lit(folder.name).alias("subset")
    matches = pl.DataFrame([query, entity]).unique(maintain_order=True).select(subset, "query", "entity")
    left = pl.DataFrame([known]).select(subset, "entity")
    if len(strange := matches.join(left, on="entity", how="anti", maintain_order="left")):
        raise UserError(
            f"{folder / 'gt.csv'}: title_l {strange['entity'][0]!r} is no title of left.csv; get both again"
        )
    return matches, left


def _questions(task: ChoiceTask, path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Query, answer and other candidates of each question of one file, normalised."""
    is_turneys = not is_hub(path) and path.suffix == ".txt" and BAR in read_lines(path)[0]
    for where, cells in _turney(path) if is_turneys else _columns(task, path):
        query, answer = (*cells, None, None)[:2]
        given = [cell for cell in cells[2:] if cell]
        if not (query and answer and given):
            raise UserError(
                f"{path}, {where}: a phrase, its answer and another candidate are needed; fill the cells or "
                "remove the question"
            )
        yield query, answer, list(dict.fromkeys(given))


def _columns(task: ChoiceTask, path: Path) -> Iterator[tuple[str, list[str | None]]]:
    """Where each row is, and its cells: query, answer, other candidates."""
    table = read_columns(path, [task.query, task.answer, *task.others])
    for column in (task.query, task.answer):
        filled(table[column], path)
    columns = (normalise(table[name]).to_list() for name in (task.query, task.answer, *task.others))
    for row, cells in enumerate(zip(*columns, strict=True), start=1):
        yield f"row {row} of the data", list(cells)


def _turney(path: Path) -> Iterator[tuple[str, list[str | None]]]:
    """The same of Turney's own file, without the phrase's two words."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            cells = line.split(BAR)
            candidates = pl.Series([*cells[:2], *cells[2 + WORDS :]], dtype=pl.String)
            yield f"line {number}", normalise(candidates).to_list()
