"""A retrieval task of random vectors."""

import numpy as np
import polars as pl

from pipeline.tasks.embeddings import Embeddings

SCHEMA = {"left_id": pl.UInt64, "right_id": pl.UInt64, "score": pl.Float32}


def retrieval_task(documents: int = 250, dim: int = 6, queries: int = 30, seed: int = 0):
    """Pairs, and vectors of the queries (the first ids) and the documents (the others)."""
    rng = np.random.default_rng(seed)
    count = queries + documents
    judged = [
        (query, int(document), int(rng.integers(1, 4)))
        for query in range(queries)
        for document in rng.choice(np.arange(queries, count), rng.integers(1, 8), replace=False)
    ]
    others = set(range(queries, count)) - {document for _, document, _ in judged}
    rows = [*judged, *((None, document, None) for document in sorted(others))]
    vectors = rng.normal(size=(count, dim)).astype(np.float32)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row"), Embeddings(
        np.arange(count, dtype=np.uint64), vectors
    )


def cosines(left, right):
    """Of all rows with all rows, in float64."""
    left, right = (
        side.astype(np.float64) / np.linalg.norm(side.astype(np.float64), axis=1)[:, None]
        for side in (left, right)
    )
    return left @ right.T
