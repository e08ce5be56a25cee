"""Evaluation tasks, as params.yaml names them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from pipeline.params.classes import (
    ClassificationTask,
    MnliTask,
    MrpcTask,
    PairClassificationTask,
    QqpTask,
    Sst2Task,
)
from pipeline.params.evaluate import (
    EntityResolutionTask,
    RetrievalTask,
    StsSets,
    StsTask,
    Task,
    WordNetRelatedness,
    WordNetReverseDictionary,
    WordNetSupersense,
)
from pipeline.params.phrases import (
    ChoiceTask,
    ClusteringTask,
    FuzzyJoinTask,
    ParaphraseTask,
    PearlSets,
    WordSimilaritySets,
    WordSimilarityTask,
)
from pipeline.prepare.cleaning import fold
from pipeline.prepare.labelled.classification import classification, paraphrases
from pipeline.prepare.labelled.entities import entities
from pipeline.prepare.labelled.glue import glue
from pipeline.prepare.labelled.labelled import Labelled, join, only_named
from pipeline.prepare.labelled.phrases import choice, clustering, fuzzy_join
from pipeline.prepare.labelled.retrieval import retrieval
from pipeline.prepare.labelled.similarity import similarity
from pipeline.prepare.wordnet.families import Families, Split
from pipeline.prepare.wordnet.tasks import relatedness, reverse_dictionary, supersense
from pipeline.tasks import pairs as pairs_file

HELD_OUT_SPLITS: tuple[Split, ...] = ("dev", "test")
"""WordNet's tasks without a classifier are built for both: dev selects weights, test is reported."""


def evaluation(tasks: Mapping[str, Task], wordnet: Callable[[], Families]) -> Labelled:
    """The pairs of all tasks and their texts.

    Args:
        tasks: `evaluate.tasks` of params, one by one (`subtasks.one_by_one`).
        wordnet: opens WordNet; called only if a task needs it.

    Raises:
        UserError: a task's files are at fault.
    """
    return join(part for name, task in tasks.items() for part in _parts(name, task, wordnet))


def held_out(found: Labelled, tasks: Mapping[str, Task]) -> pl.Series:
    """The folded texts of the tasks (`cleaning.fold`), which no student is trained on, each once.

    Of a task with `documents: shared` these are its queries and what is relevant to one of them.

    Args:
        found: the tasks' pairs and texts.
        tasks: their params.
    """
    shared = [name for name, task in tasks.items() if getattr(task, "documents", "apart") == "shared"]
    other = pl.col("task").is_in(shared) & pl.col("left_id").is_null()
    apart = only_named(Labelled(found.pairs.filter(~other), found.texts)) if shared else found
    return fold(apart.texts["text"]).unique()


def sizes(
    pairs: pl.DataFrame, dropped: Mapping[str, Mapping[str, int]] | None = None
) -> dict[str, dict[str, Any]]:
    """Rows, distinct left and distinct right texts, by task and split; of a task with labels also by subset.

    Args:
        pairs: of all tasks.
        dropped: rows that were left out, by task and reason; goes with the task's counts.
    """
    subset = pl.when(pairs_file.HAS_CLASS).then("subset")
    counted = pairs.group_by("task", "split", subset.alias("subset")).agg(
        pl.len().alias("rows"),
        pl.col("left_id").drop_nulls().n_unique().alias("left_texts"),
        pl.col("right_id").drop_nulls().n_unique().alias("right_texts"),
    )
    by_task: dict[str, dict[str, Any]] = {}
    for row in counted.iter_rows(named=True):
        task, split, subset_name = (row.pop(key) for key in ("task", "split", "subset"))
        of_task = by_task.setdefault(task, {})
        if subset_name is None:
            of_task[split] = row
        else:
            of_task.setdefault(split, {})[subset_name] = row
    for task, reasons in (dropped or {}).items():
        by_task[task]["dropped"] = dict(reasons)
    return by_task


def _parts(name: str, task: Task, wordnet: Callable[[], Families]) -> Iterable[Labelled]:
    match task:
        case StsSets() | WordSimilaritySets() | PearlSets() | MnliTask(genres=None):
            raise ValueError(f"{name} stands for other tasks; read them one by one")
        case WordNetRelatedness() | WordNetReverseDictionary() | WordNetSupersense():
            return _proxy(name, task, wordnet())
        case StsTask() | WordSimilarityTask():
            return [similarity(name, task)]
        case RetrievalTask():
            return [retrieval(name, task)]
        case EntityResolutionTask():
            return [entities(name, task)]
        case ChoiceTask() | ClusteringTask() | FuzzyJoinTask() | ParaphraseTask():
            return [_phrases(name, task)]
        case ClassificationTask() | PairClassificationTask():
            return [classification(name, task)]
        case Sst2Task() | MrpcTask() | QqpTask() | MnliTask():
            return [glue(name, task)]


def _phrases(name: str, task: ChoiceTask | ClusteringTask | FuzzyJoinTask | ParaphraseTask) -> Labelled:
    match task:
        case ChoiceTask():
            return choice(name, task)
        case ClusteringTask():
            return clustering(name, task)
        case FuzzyJoinTask():
            return fuzzy_join(name, task)
        case ParaphraseTask():
            return paraphrases(name, task)


def _proxy(
    name: str, task: WordNetRelatedness | WordNetReverseDictionary | WordNetSupersense, of: Families
) -> list[Labelled]:
    match task:
        case WordNetRelatedness():
            return [relatedness(of, name, task.pairs, split) for split in HELD_OUT_SPLITS]
        case WordNetReverseDictionary():
            return [reverse_dictionary(of, name, task.queries, split) for split in HELD_OUT_SPLITS]
        case WordNetSupersense():
            return [supersense(of, name, task.max_train, task.max_test)]
