"""Choice: of several candidates, is the right one nearest to the query?"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.ranking import TIE
from pipeline.vectors.space.geometry import similarities

HEADLINE = "accuracy"


def right(pairs: pl.DataFrame, embeddings: Embeddings) -> NDArray[np.bool_]:
    """Whether each query's answer is nearer to it than all other candidates are, (rows,) (Turney 2012).

    A tie is no choice, so a collapsed model scores 0. PEARL's own program puts the answer first, and takes
    the first of several that tie.

    Args:
        pairs: left_id (query), right_id (answer), negative_ids (the other candidates, one at least).
        embeddings: vectors of all of them.
    """
    others = pairs.select("left_id", "negative_ids").with_row_index("row").explode("negative_ids")
    answers, wrong = (
        similarities(
            embeddings.of(left.to_numpy()), embeddings.of(candidate.to_numpy()), embeddings.similarity
        )
        for left, candidate in (
            (pairs["left_id"], pairs["right_id"]),
            (others["left_id"], others["negative_ids"]),
        )
    )
    nearest = np.full(len(pairs), -np.inf)
    np.maximum.at(nearest, others["row"].to_numpy(), wrong)
    scale = 1.0 if embeddings.similarity == "cosine" else float(np.abs([*answers, *wrong]).max(initial=0))
    return answers > nearest + TIE * scale


def scores(right: NDArray[np.bool_]) -> dict[str, float]:
    """Accuracy: the share of queries whose answer is chosen; see `right`."""
    return {"accuracy": float(right.mean()), "questions": len(right)}


def score(pairs: pl.DataFrame, embeddings: Embeddings) -> dict[str, float]:
    """As `scores`, of what is `right`."""
    return scores(right(pairs, embeddings))
