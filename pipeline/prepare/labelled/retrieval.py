"""Queries, documents and judgements, from a folder of the user's."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from pipeline.core.errors import UserError
from pipeline.params.corpus import RetrievalTriplets
from pipeline.params.evaluate import RetrievalTask
from pipeline.prepare.labelled.labelled import SEARCH, Labelled, Rows, join, label
from pipeline.prepare.readers.beir import read_beir
from pipeline.prepare.readers.collection import Collection
from pipeline.prepare.readers.msmarco import read_msmarco
from pipeline.prepare.readers.user_columns import grades, numbers
from pipeline.tasks.pairs import PASSED_OVER


def retrieval(name: str, task: RetrievalTask) -> Labelled:
    """One folder.

    Of the judgements only the positive ones are kept: 0 says what no judgement says. As in BEIR, a query's
    own document, which has its id, is passed over, unless it is judged relevant; MS MARCO's two kinds of ids
    have nothing to do with each other.

    Queries, and documents, of one text stay as many as they are. Then the rows name them by their own ids,
    as they do where a judgement names a document that is not there: see `pairs.PAIRS_SCHEMA`.

    Args:
        name: the task's name in params.
        task: its params.

    Raises:
        UserError: a file is at fault, or no judgement is above 0.
    """
    found = read(task)
    judged = {(query, document): score for query, document, score in found.judgements if score > 0}
    if not judged:
        raise UserError(
            f"{task.path}: the qrels {task.qrels} have no score above 0, so no query has an answer; "
            "correct their scores, or name another split of qrels"
        )
    asked = {query for query, _ in judged}
    unanswered = len({query for query, _, _ in found.judgements} - asked)
    if task.layout == "beir":
        for query in sorted(asked & found.documents.keys()):
            judged.setdefault((query, query), PASSED_OVER)
    labelled = join(label(name, task.split, rows) for rows in _rows(found, judged))
    if _told_apart(labelled.pairs, len(asked), len(found.documents)):
        labelled = replace(labelled, pairs=labelled.pairs.with_columns(subset=pl.lit(""), label=_NO_NAME))
    dropped = {**found.dropped, **({"query_without_relevant_document": unanswered} if unanswered else {})}
    return replace(labelled, dropped={name: dropped} if dropped else {})


def read(block: RetrievalTask | RetrievalTriplets) -> Collection:
    """The texts and judgements of a folder. Of triplets the grades say only whether they are above 0.

    Raises:
        UserError: a file is at fault.
    """
    scores = grades if isinstance(block, RetrievalTask) else numbers
    return (read_msmarco if block.layout == "msmarco" else read_beir)(Path(block.path), block.qrels, scores)


_NO_NAME = pl.lit(None, dtype=pl.String)


def _rows(found: Collection, judged: dict[tuple[str, str], float]) -> tuple[Rows, Rows]:
    """The judged pairs, and the other documents, with their own ids."""
    queries, documents = zip(*judged, strict=True)
    named = set(documents)
    others = [document for document in found.documents if document not in named]
    return (
        Rows(
            [found.queries[query] for query in queries],
            [found.documents.get(document) for document in documents],
            score=list(judged.values()),
            subset=queries,
            label=documents,
            roles=SEARCH,
        ),
        Rows([None] * len(others), [found.documents[one] for one in others], label=others, roles=SEARCH),
    )


def _told_apart(pairs: pl.DataFrame, queries: int, documents: int) -> bool:
    """Whether text ids alone tell all queries and documents apart."""
    left, right = (pairs[side].drop_nulls().n_unique() for side in ("left_id", "right_id"))
    whole = not pairs["right_id"].null_count()
    return whole and (left, right) == (queries, documents)
