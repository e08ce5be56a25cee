"""Evaluation tasks, as params.yaml names them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from pipeline.data.common.texts import fold
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
from pipeline.prepare.labelled.classification import classification, paraphrases
from pipeline.prepare.labelled.entities import entities
from pipeline.prepare.labelled.glue import glue
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.labelled.labelled import Labelled, join, only_named
from pipeline.prepare.labelled.phrases import choice, clustering, fuzzy_join
from pipeline.prepare.labelled.retrieval import retrieval
from pipeline.prepare.labelled.similarity import similarity
from pipeline.prepare.wordnet.families import Families, Split
from pipeline.prepare.wordnet.tasks import relatedness, reverse_dictionary, supersense
from pipeline.tasks import pairs as pairs_file
from pipeline.tasks.subtasks import one_by_one

HELD_OUT_SPLITS: tuple[Split, ...] = ("dev", "test")
"""WordNet's tasks without a classifier are built for both: dev selects weights, test is reported."""


def evaluation(tasks: Mapping[str, Task], wordnet: Callable[[], Families]) -> Labelled:
    """The pairs of all tasks and their texts.

    Args:
        tasks: `evaluate.tasks` of params. Messages name the keys of these, so they are better not one by one.
        wordnet: opens WordNet; called only if a task needs it.

    Raises:
        UserError: a task's files are at fault.
    """
    return join(
        part
        for name, block in tasks.items()
        for one, task in one_by_one({name: block}).items()
        for part in _parts(Keys.of(one, block, name), task, wordnet)
    )


def held_out(found: Labelled, tasks: Mapping[str, Task]) -> pl.Series:
    """The folded texts of the tasks (`texts.fold`), which no student is trained on, each once.

    Of a task with `documents: shared` these are its queries and what is relevant to one of them.

    Args:
        found: the tasks' pairs and texts.
        tasks: their params.
    """
    shared = [name for name, task in tasks.items() if getattr(task, "documents", "apart") == "shared"]
    other = pl.col("task").is_in(shared) & pl.col("left_id").is_null()
    apart = only_named(Labelled(found.pairs.filter(~other), found.texts)) if shared else found
    return fold(apart.texts["text"]).unique()


def training_pairs(found: Labelled, tasks: Mapping[str, Task], name: str) -> tuple[Labelled, pl.Series]:
    """The training pairs of a task without their labels, and the folded texts that none of them may have.

    These are the texts of the task's other rows, and of all other tasks, but for the training rows of those
    that have the same ones: MNLI's two sets.

    Args:
        found: the tasks' pairs and texts.
        tasks: their params.
        name: of a task of pairs with labels.
    """
    own = (pl.col("task") == name) & (pl.col("subset") == "train")
    blank = {"split": pl.lit("train"), "subset": pl.lit(""), "label": pl.lit(None, dtype=pl.String)}
    pairs = found.pairs.filter(own & pl.col("right_id").is_not_null()).with_columns(**blank)
    single = one_by_one(tasks)
    alike = [one for one, task in single.items() if _training_files(task) == _training_files(single[name])]
    theirs = pl.col("task").is_in(alike) & (pl.col("subset").fill_null("") == "train")
    others = only_named(Labelled(found.pairs.filter(~theirs), found.texts))
    return only_named(Labelled(pairs, found.texts)), held_out(others, tasks)


def _training_files(task: Task) -> tuple[str, str] | None:
    match task:
        case Sst2Task() | MrpcTask() | QqpTask() | MnliTask():
            return task.kind, task.path
        case ClassificationTask() | PairClassificationTask():
            return task.kind, task.train
    return None


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


def _parts(keys: Keys, task: Task, wordnet: Callable[[], Families]) -> Iterable[Labelled]:
    match task:
        case StsSets() | WordSimilaritySets() | PearlSets() | MnliTask(genres=None):
            raise ValueError(f"{keys.task} stands for other tasks; read them one by one")
        case WordNetRelatedness() | WordNetReverseDictionary() | WordNetSupersense():
            return _proxy(keys, task, wordnet())
        case StsTask() | WordSimilarityTask():
            return [similarity(keys, task)]
        case RetrievalTask():
            return [retrieval(keys.task, task)]
        case EntityResolutionTask():
            return [entities(keys, task)]
        case ChoiceTask() | ClusteringTask() | FuzzyJoinTask() | ParaphraseTask():
            return [_phrases(keys, task)]
        case ClassificationTask() | PairClassificationTask():
            return [classification(keys, task)]
        case Sst2Task() | MrpcTask() | QqpTask() | MnliTask():
            return [glue(keys, task)]


def _phrases(keys: Keys, task: ChoiceTask | ClusteringTask | FuzzyJoinTask | ParaphraseTask) -> Labelled:
    match task:
        case ChoiceTask():
            return choice(keys, task)
        case ClusteringTask():
            return clustering(keys, task)
        case FuzzyJoinTask():
            return fuzzy_join(keys, task)
        case ParaphraseTask():
            return paraphrases(keys, task)


def _proxy(
    keys: Keys, task: WordNetRelatedness | WordNetReverseDictionary | WordNetSupersense, of: Families
) -> list[Labelled]:
    match task:
        case WordNetRelatedness():
            return [relatedness(of, keys.task, task.pairs, split) for split in HELD_OUT_SPLITS]
        case WordNetReverseDictionary():
            return [reverse_dictionary(of, keys.task, task.queries, split) for split in HELD_OUT_SPLITS]
        case WordNetSupersense():
            return [supersense(of, keys, task.max_train, task.max_test)]
