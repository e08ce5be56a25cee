"""Examples of a task: what lies near to some of its texts, and where student and teacher disagree most."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.params.evaluate import Probe, Scoring
from pipeline.score.evaluation.embedding_space import matched
from pipeline.score.statistics.examined import Disagreement, Examples, Nearest, Neighbour, TaskExamples
from pipeline.tasks.embeddings import Embeddings, Ids
from pipeline.tasks.pairs import PASSED_OVER
from pipeline.vectors.space.geometry import all_similarities, similarities

QUERIES = 5
NEIGHBOURS = 3
PAIRS = 2000
"""Pairs of a task that are ranked, at most."""
WORST = 10
BLOCK = 8192
"""Candidates whose cosines are computed at a time."""

Text = Callable[[int], str]
"""A text by its id."""


@dataclass(frozen=True)
class Question:
    """A text, what may lie near to it, and what belongs to it."""

    query: int
    subset: str
    candidates: Ids
    relevant: tuple[int, ...]
    passed_over: int = 0
    """The candidate that is no answer: the text itself, or a query's own document; 0: none."""


def of_tasks(
    tasks: Mapping[str, pl.DataFrame],
    scoring: Mapping[str, Scoring],
    models: tuple[Embeddings, Embeddings],
    text: Text,
) -> Examples:
    """Examples of every task, the same whenever its rows and the vectors are.

    Args:
        tasks: the rows of each.
        scoring: how each is scored.
        models: the teacher's and the student's vectors of all texts.
        text: gives a text by its id.
    """
    found = {}
    for name, pairs in tasks.items():
        rows = pairs.filter(subset="test") if isinstance(scoring[name], Probe) else pairs
        compared = _compared(rows, scoring[name], np.random.default_rng([*name.encode()]))
        found[name] = TaskExamples(
            nearest=tuple(_nearest(rows, scoring[name], models, text)),
            pairs=len(compared),
            disagreements=tuple(_disagreements(compared, models, text)),
        )
    return found


def nearest(
    queries: Ids, candidates: Ids, embeddings: Embeddings, count: int, passed_over: Ids
) -> list[list[tuple[int, float]]]:
    """The candidates nearest to each query: ids and similarities, nearest first.

    Memory is bounded by BLOCK candidates. Of equal similarities the first candidate is nearer. A query does
    not find the text that `passed_over` (queries,) names.
    """
    rows = embeddings.of(queries)
    similarity: NDArray[np.float64] = np.empty((len(queries), 0))
    ids: Ids = np.empty((len(queries), 0), np.uint64)
    for start in range(0, len(candidates), BLOCK):
        block = candidates[start : start + BLOCK]
        found = all_similarities(rows, embeddings.of(block), embeddings.similarity)
        found[block == passed_over[:, None]] = -np.inf
        similarity = np.concatenate([similarity, found], axis=1)
        ids = np.concatenate([ids, np.tile(block, (len(queries), 1))], axis=1)
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :count]
        similarity = np.take_along_axis(similarity, order, axis=1)
        ids = np.take_along_axis(ids, order, axis=1)
    return [
        [(int(one), float(value)) for one, value in zip(*row, strict=True) if value > -np.inf]
        for row in zip(ids, similarity, strict=True)
    ]


def _nearest(
    rows: pl.DataFrame, how: Scoring, models: tuple[Embeddings, Embeddings], text: Text
) -> Iterator[Nearest]:
    # Questions with the same candidates go together, so that these are gone through once.
    for _, group in groupby(_questions(rows, how), key=lambda question: id(question.candidates)):
        questions = list(group)
        queries = np.array([question.query for question in questions], np.uint64)
        passed_over = np.array([question.passed_over for question in questions], np.uint64)
        candidates = questions[0].candidates
        found = [nearest(queries, candidates, model, NEIGHBOURS, passed_over) for model in models]
        for question, *near in zip(questions, *found, strict=True):
            teacher, student = (
                tuple(
                    Neighbour(text=text(one), cosine=cosine, relevant=one in question.relevant)
                    for one, cosine in side
                )
                for side in near
            )
            relevant = tuple(text(one) for one in question.relevant[:NEIGHBOURS])
            yield Nearest(
                query=text(question.query),
                subset=question.subset,
                relevant=relevant,
                belonging=len(question.relevant),
                teacher=teacher,
                student=student,
            )


def _questions(rows: pl.DataFrame, how: Scoring) -> Iterator[Question]:
    """The first texts by id, which being hashes are a choice by chance; retrieval's are queries."""
    if how == "choice":
        yield from _chosen(rows)
        return
    if how not in ("retrieval", "entity_resolution"):
        texts = np.unique(pl.concat([rows["left_id"], rows["right_id"]]).drop_nulls().to_numpy())
        for query in np.unique(rows["left_id"].to_numpy())[:QUERIES].tolist():
            # The other side of a pair is no answer: it may mean the opposite.
            yield Question(query, "", texts, (), passed_over=query)
        return
    if how == "retrieval":
        yield from _searched(rows)
        return
    asked = matched(rows, how).select("subset", "left_id").unique().sort("left_id", "subset").head(QUERIES)
    for (subset,), queries in sorted(asked.group_by("subset"), key=lambda part: str(part[0])):
        of_subset = rows.filter(pl.col("subset") == subset)
        candidates = np.unique(of_subset["right_id"].to_numpy())
        for query in queries["left_id"].sort().to_list():
            relevant = matched(of_subset, how).filter(left_id=query)["right_id"].unique().sort()
            yield Question(query, str(subset), candidates, tuple(relevant.to_list()))


def _chosen(rows: pl.DataFrame) -> Iterator[Question]:
    """Queries of a choice, each with its own candidates."""
    for query, answer, others in rows.select("left_id", "right_id", "negative_ids").head(QUERIES).iter_rows():
        yield Question(query, "", np.array([answer, *others], np.uint64), (answer,))


def _searched(rows: pl.DataFrame) -> Iterator[Question]:
    """Queries of a retrieval task; of several with one text, the first by its own id."""
    judged = matched(rows, "retrieval").sort("left_id", "subset")
    candidates = np.unique(rows["right_id"].drop_nulls().to_numpy())
    asked = judged.unique("left_id", keep="first", maintain_order=True).head(QUERIES)
    for query, subset in asked.select("left_id", "subset").iter_rows():
        of_query = rows.filter(left_id=query, subset=subset)
        relevant = matched(of_query, "retrieval")["right_id"].unique().sort().to_list()
        own = of_query.filter(score=PASSED_OVER)["right_id"]
        # Other documents of the own one's text are finds.
        alone = [one for one in own if rows.filter(right_id=one)["label"].n_unique() == 1]
        yield Question(query, "", candidates, tuple(relevant), *alone)


def _compared(rows: pl.DataFrame, how: Scoring, random: np.random.Generator) -> pl.DataFrame:
    """Pairs that are ranked: left_id, right_id, gold.

    The task's own pairs where it has any, without gold where the teacher made them; to a query and what is
    relevant to it, and to single texts, come pairs that are put together by chance.
    """
    if how == "sts" or (isinstance(how, Probe) and not rows["right_id"].null_count()):
        gold = pl.col("label" if isinstance(how, Probe) else "score").alias("gold")
        return _some(rows.select("left_id", "right_id", gold), PAIRS, random)
    if how == "agreement":
        gold = pl.lit(None, dtype=pl.Float32).alias("gold")
        return _some(rows.select("left_id", "right_id", gold), PAIRS, random)
    if isinstance(how, Probe) or how == "clustering":
        return _by_chance(rows["left_id"], rows["left_id"], PAIRS, random)
    judged = matched(rows, how)
    gold = pl.col("score") if how == "retrieval" else pl.lit(1.0, dtype=pl.Float32)
    own = _some(judged.select("left_id", "right_id", gold.alias("gold")), PAIRS // 2, random)
    chance = _by_chance(own["left_id"], rows["right_id"], PAIRS // 2, random)
    known = chance.join(judged, on=["left_id", "right_id"], how="anti")
    return pl.concat([own, known.with_columns(pl.lit(None, dtype=own["gold"].dtype).alias("gold"))])


def _some(rows: pl.DataFrame, count: int, random: np.random.Generator) -> pl.DataFrame:
    distinct = rows.unique(["left_id", "right_id"], keep="first", maintain_order=True)
    if len(distinct) <= count:
        return distinct
    return distinct[np.sort(random.permutation(len(distinct))[:count])]


def _by_chance(left: pl.Series, right: pl.Series, count: int, random: np.random.Generator) -> pl.DataFrame:
    sides = [np.unique(side.drop_nulls().to_numpy()) for side in (left, right)]
    drawn = {
        name: side[random.integers(len(side), size=count)]
        for name, side in zip(("left_id", "right_id"), sides, strict=True)
    }
    rows = pl.DataFrame(drawn, schema={"left_id": pl.UInt64, "right_id": pl.UInt64})
    rows = rows.filter(pl.col("left_id") != pl.col("right_id")).unique(maintain_order=True)
    return rows.with_columns(pl.lit(None, dtype=pl.Float32).alias("gold"))


def _disagreements(
    pairs: pl.DataFrame, models: tuple[Embeddings, Embeddings], text: Text
) -> Iterator[Disagreement]:
    left, right = (pairs[side].to_numpy() for side in ("left_id", "right_id"))
    (teacher, teacher_ranks), (student, student_ranks) = (_ranked(model, left, right) for model in models)
    apart = np.abs(teacher_ranks - student_ranks)
    for row in np.lexsort((right, left, -apart))[:WORST]:
        if apart[row] == 0:
            return
        yield Disagreement(
            left=text(int(left[row])),
            right=text(int(right[row])),
            gold=pairs["gold"][int(row)],
            teacher_cosine=float(teacher[row]),
            student_cosine=float(student[row]),
            teacher_rank=int(teacher_ranks[row]),
            student_rank=int(student_ranks[row]),
        )


def _ranked(model: Embeddings, left: Ids, right: Ids) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Similarities of pairs, and their ranks from the nearest pair on."""
    from scipy.stats import rankdata

    similarity = similarities(model.of(left), model.of(right), model.similarity)
    return similarity, rankdata(-similarity, method="min").astype(np.int64)
