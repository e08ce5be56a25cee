"""What evaluate@NAME saw: examined/NAME, items' scores, examples, and how features correlate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pipeline.core import seal
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError
from pipeline.data.common.files import metrics
from pipeline.data.common.files.tables import Schema, read_table, write_table

MODELS = (metrics.TEACHER, metrics.FINETUNED)
COSINE, CLASS, RESOLVED, CLUSTER = "cosine", "class", "resolved", "cluster"
"""Measures of items."""
ITEMS_SCHEMA: Schema = {
    "measure": pl.String,
    "subset": pl.String,
    "run": pl.UInt32,
    "item": pl.UInt32,
    "left_id": pl.UInt64,
    "right_id": pl.UInt64,
    "value": pl.Float64,
    "gold": pl.Float64,
}
"""The items of one task as one model scores them; each can be drawn again by a bootstrap.

- item: a number from 0 on, the same for all models of all students. An item is a pair, a query or a test row.
- left_id, right_id: its texts; right_id is null for a query and for a single text.
- measure: what the value is. COSINE: gold is the human score. CLASS: the predicted class, gold is the true
  one, as numbers from 0 on; `class@20%` after training on that share of the rows. RESOLVED: 1 where the query
  is. CLUSTER: the cluster's number, gold is the class'. Else the metric of which it is the query's own value,
  as mrr@10. gold is null but for COSINE, CLASS and CLUSTER.
- subset: the part of the task that the item belongs to, "" where it has none.
- run: the classifier or the clustering, from 0 on; else 0.
"""
SCORES_SCHEMA: Schema = {"model": pl.String, "task": pl.String, **ITEMS_SCHEMA}
"""scores.parquet: of `teacher` and `finetuned`, the items of every test task."""
KEY = ["task", "measure", "subset", "run", "item", "left_id", "right_id", "gold"]
"""What the rows of all models have in common."""
SCORES, EXAMPLES, CORRELATION = "scores.parquet", "examples.json", "correlation.safetensors"


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Neighbour(_Read):
    """A text near to another."""

    text: str
    cosine: float
    relevant: bool
    """Whether the task says that it belongs to the query."""


class Nearest(_Read):
    """The texts nearest to one of the task's, nearest first."""

    query: str
    subset: str
    """The part of the task in which it is looked for; "" where it has none. One text may be in several."""
    relevant: tuple[str, ...]
    """Texts that the task says belong to it, the first of them."""
    belonging: Annotated[int, Field(ge=0)]
    """How many there are."""
    teacher: tuple[Neighbour, ...]
    student: tuple[Neighbour, ...]


class Disagreement(_Read):
    """Two texts that are near to each other by one model and not by the other."""

    left: str
    right: str
    gold: float | str | None
    """The human score, the relevance or the label; null for two texts that were put together by chance."""
    teacher_cosine: float
    student_cosine: float
    teacher_rank: int
    """1: the nearest of all `pairs`. Equal cosines share the least of their ranks."""
    student_rank: int


class TaskExamples(_Read):
    """Examples of one task."""

    nearest: tuple[Nearest, ...]
    pairs: Annotated[int, Field(ge=0)]
    """How many pairs were ranked."""
    disagreements: tuple[Disagreement, ...]
    """Those whose ranks differ most, worst first."""


Examples = dict[str, TaskExamples]
_EXAMPLES = TypeAdapter(Examples)


def write(
    scores: pl.DataFrame, examples: Examples, correlation: Mapping[str, NDArray[np.floating]], folder: Path
) -> None:
    """Write examined/NAME.

    Args:
        scores: as SCORES_SCHEMA says.
        examples: by task.
        correlation: of the first features of each of MODELS, (f, f).
        folder: examined/NAME.
    """
    with atomic_folder(folder, sealed=False) as temporary:
        write_table(scores, SCORES_SCHEMA, temporary / SCORES)
        metrics.write(_EXAMPLES.dump_python(examples), temporary / EXAMPLES)
        matrices = {
            name: np.ascontiguousarray(matrix, dtype=np.float32) for name, matrix in correlation.items()
        }
        save_file(matrices, temporary / CORRELATION, {seal.KEY: seal.BLANK})
        seal.fill(temporary / CORRELATION)


def read_scores(folder: Path, name: str) -> pl.DataFrame:
    """The items of all tasks by each of MODELS; both have the same.

    Args:
        folder: examined/NAME.
        name: the student's.

    Raises:
        UserError: the file is missing, unreadable or damaged.
    """
    stage = f"evaluate@{name}"
    scores = read_table(folder / SCORES, SCORES_SCHEMA, stage)
    parts = [scores.filter(model=model).select(KEY) for model in MODELS]
    if scores["value"].is_finite().not_().any() or scores["value"].null_count():
        raise UserError(f"{folder / SCORES} has an item without a value; run `dvc repro -f {stage}`")
    if parts[0].is_empty() or not parts[0].equals(parts[1]) or len(scores) != 2 * len(parts[0]):
        raise UserError(
            f"{folder / SCORES} does not have the same items for {' and '.join(MODELS)}; "
            f"run `dvc repro -f {stage}`"
        )
    return scores


def read_examples(folder: Path, name: str) -> Examples:
    """Examples by task.

    Raises:
        UserError: the file is missing, damaged or another's.
    """
    stage = f"evaluate@{name}"
    document: Any = metrics.read(folder / EXAMPLES, stage)
    try:
        return _EXAMPLES.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(
            f"{folder / EXAMPLES} holds no examples ({where}: {first['msg']}); run `dvc repro -f {stage}`"
        ) from None


def read_correlation(folder: Path, name: str) -> dict[str, NDArray[np.float32]]:
    """How the first features of each of MODELS correlate, (f, f).

    Raises:
        UserError: the file is missing, damaged or another's.
    """
    path, stage = folder / CORRELATION, f"evaluate@{name}"
    if not path.exists():
        raise UserError(f"{path} does not exist; run `dvc repro {stage}`")
    seal.check(path, f"run `dvc repro -f {stage}`")
    try:
        found = load_file(path)
    except SafetensorError as error:
        raise UserError(
            f"{path} is not a readable safetensors file ({error}); run `dvc repro -f {stage}`"
        ) from None
    square = all(matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] for matrix in found.values())
    if set(found) != set(MODELS) or not square:
        raise UserError(
            f"{path} does not hold a square matrix for each of {' and '.join(MODELS)}; "
            f"run `dvc repro -f {stage}`"
        )
    return found
