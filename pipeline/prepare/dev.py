"""corpus/dev: the tasks that select weights, kept apart so that a new test task retrains no student."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pydantic import TypeAdapter

from pipeline.core import seal
from pipeline.core.atomic import atomic_folder, write_text
from pipeline.core.errors import UserError
from pipeline.data.common import texts
from pipeline.params.evaluate import Probe, Scoring, Task
from pipeline.tasks import pairs

PAIRS, TEXTS, SCORING = "tasks.parquet", "texts.parquet", "scoring.json"
SCORINGS: TypeAdapter[dict[str, Scoring]] = TypeAdapter(dict[str, Scoring])
METRICS: TypeAdapter[dict[str, str | None]] = TypeAdapter(dict[str, str | None])


@dataclass(frozen=True)
class DevTasks:
    """The tasks by name; there may be none."""

    pairs: dict[str, pl.DataFrame]
    """`pairs.PAIRS_SCHEMA`."""
    texts: pl.DataFrame
    """All that they name, `texts.LABELLED_SCHEMA`, sorted by text_id."""
    scoring: dict[str, Scoring]
    """How each is scored, as `Task.scoring`."""
    metrics: dict[str, str | None]
    """The headline of each, where params choose it."""


def write(table: pl.DataFrame, known: pl.DataFrame, tasks: Mapping[str, Task], folder: Path) -> None:
    """Write what selects weights.

    Args:
        table: the pairs of all tasks, `pairs.PAIRS_SCHEMA`.
        known: their texts, `texts.LABELLED_SCHEMA`.
        tasks: `evaluate.tasks` of params, one by one.
        folder: corpus/dev.
    """
    chosen = table.filter(pl.col("split") == "dev")
    named = pl.concat([chosen["left_id"], chosen["right_id"], chosen["negative_ids"].explode()]).drop_nulls()
    names = set(chosen["task"])
    scoring = {
        name: {"scoring": _dumped(tasks[name].scoring), "metric": getattr(tasks[name], "metric", None)}
        for name in names
    }
    with atomic_folder(folder, sealed=False) as temporary:
        pairs.write(chosen, temporary / PAIRS)
        texts.write(
            known.filter(pl.col("text_id").is_in(named.implode())), texts.LABELLED_SCHEMA, temporary / TEXTS
        )
        write_text(temporary / SCORING, seal.to_json(scoring))


def read(folder: Path) -> DevTasks:
    """Read corpus/dev.

    Raises:
        UserError: a file is missing or damaged.
    """
    table = pairs.read(folder / PAIRS)
    content = seal.read_json(folder / SCORING, "prepare")
    try:
        scoring = SCORINGS.validate_python({name: told["scoring"] for name, told in content.items()})
        metrics = METRICS.validate_python({name: told["metric"] for name, told in content.items()})
    except (ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{folder / SCORING} cannot be read ({reason}); run `dvc repro -f prepare`") from None
    groups = {str(name): group for (name,), group in table.group_by("task", maintain_order=True)}
    return DevTasks(groups, texts.read_labelled(folder / TEXTS), scoring, metrics)


def _dumped(scoring: Scoring) -> object:
    if not isinstance(scoring, Probe):
        return scoring
    return scoring.model_dump(mode="json", include=set(Probe.model_fields))
