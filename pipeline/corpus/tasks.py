"""Evaluation tasks, as params.yaml names them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.artifacts.beir import read_beir
from pipeline.artifacts.msmarco import read_msmarco
from pipeline.core.errors import UserError
from pipeline.core.params.classes import (
    ClassificationTask,
    MnliTask,
    MrpcTask,
    PairClassificationTask,
    QqpTask,
    Sst2Task,
)
from pipeline.core.params.evaluate import (
    EntityResolutionTask,
    RetrievalTask,
    StsSets,
    StsTask,
    Task,
    WordNetRelatedness,
    WordNetReverseDictionary,
    WordNetSupersense,
)
from pipeline.corpus.classification import classification
from pipeline.corpus.entities import entities
from pipeline.corpus.glue import glue
from pipeline.corpus.labelled import Labelled, Rows, join, label
from pipeline.corpus.similarity import similarity
from pipeline.corpus.wordnet import Families, Split
from pipeline.corpus.wordnet_tasks import relatedness, reverse_dictionary, supersense

HELD_OUT_SPLITS: tuple[Split, ...] = ("dev", "test")
"""WordNet's tasks without a classifier are built for both: dev selects weights, test is reported."""


def evaluation(tasks: Mapping[str, Task], wordnet: Callable[[], Families]) -> Labelled:
    """The pairs of all tasks and their texts.

    Args:
        tasks: `evaluate.tasks` of params, by name.
        wordnet: opens WordNet; called only if a task needs it.

    Raises:
        UserError: a task's files are at fault.
    """
    return join(part for name, task in tasks.items() for part in _parts(name, task, wordnet))


def sizes(
    pairs: pl.DataFrame, dropped: Mapping[str, Mapping[str, int]] | None = None
) -> dict[str, dict[str, Any]]:
    """Rows, distinct left and distinct right texts, by task and split; of a task with labels also by subset.

    Args:
        pairs: of all tasks.
        dropped: rows that were left out, by task and reason; goes with the task's counts.
    """
    subset = pl.when(pl.col("label").is_not_null()).then("subset")
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
        case WordNetRelatedness() | WordNetReverseDictionary() | WordNetSupersense():
            return _proxy(name, task, wordnet())
        case StsSets() | MnliTask(genres=None):
            return [part for each, one in task.tasks(name).items() for part in _parts(each, one, wordnet)]
        case StsTask():
            return [similarity(name, task)]
        case RetrievalTask():
            return [_retrieval(name, task)]
        case EntityResolutionTask():
            return [entities(name, task)]
        case ClassificationTask() | PairClassificationTask():
            return [classification(name, task)]
        case Sst2Task() | MrpcTask() | QqpTask() | MnliTask():
            return [glue(name, task)]


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


def _retrieval(name: str, task: RetrievalTask) -> Labelled:
    """One folder.

    A judgement of 0 says what no judgement says, so only the positive ones are kept. One is added: of a
    document that has a query's text and another id, which is a find like others; of one with its id too it
    is none, and BEIR passes over it.
    """
    read = read_msmarco if task.layout == "msmarco" else read_beir
    found = read(Path(task.path), task.qrels)
    relevant: dict[tuple[str, str], float] = {}
    for query, document, score in found.judgements:
        if score > 0:
            pair = (found.queries[query], found.documents[document])
            relevant[pair] = max(score, relevant.get(pair, 0.0))
    if not relevant:
        raise UserError(f"{task.path}: the qrels {task.qrels} have no score above 0; no query has an answer")
    matched = {document for _, document in relevant}
    asked = {query for query, _, score in found.judgements if score > 0}
    unanswered = len({query for query, _, _ in found.judgements} - asked)
    documents_of = _named(found.documents, {found.queries[query] for query in asked})
    for query in sorted(asked):
        text = found.queries[query]
        if text in documents_of and query not in documents_of[text]:
            relevant.setdefault((text, text), 0.0)
    others = [document for document in dict.fromkeys(found.documents.values()) if document not in matched]
    queries, documents = zip(*relevant, strict=True)
    judged = Rows(queries, documents, score=list(relevant.values()))
    unjudged = Rows([None] * len(others), others)
    joined = join([label(name, task.split, judged), label(name, task.split, unjudged)])
    dropped = {name: {"query_without_relevant_document": unanswered}} if unanswered else {}
    return replace(joined, dropped=dropped)


def _named(documents: Mapping[str, str], wanted: set[str]) -> dict[str, set[str]]:
    """The ids of the documents that have one of these texts."""
    found: dict[str, set[str]] = {}
    for document, text in documents.items():
        if text in wanted:
            found.setdefault(text, set()).add(document)
    return found
