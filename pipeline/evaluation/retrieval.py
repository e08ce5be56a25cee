"""Retrieval: is the relevant document among the nearest?"""

import math

import numpy as np
import polars as pl

from pipeline.evaluation.embeddings import Embeddings
from pipeline.evaluation.geometry import normalised

MAIN = "mrr@10"
DEPTH = 100
"""Documents that are looked at for every query."""


def score(pairs: pl.DataFrame, embeddings: Embeddings) -> dict[str, float]:
    """MRR@10, recall@1, @10 and @100, and nDCG@10 of exact search by cosine.

    Args:
        pairs: left_id (query, or null), right_id (document), score (relevance). Documents: all right sides.
        embeddings: vectors of queries and documents.
    """
    import faiss
    import ir_measures
    from ir_measures import RR, R, nDCG

    judged = pairs.filter(pl.col("left_id").is_not_null())
    documents = np.unique(pairs["right_id"].to_numpy())
    queries = np.unique(judged["left_id"].to_numpy())
    index = faiss.IndexFlatIP(embeddings.vectors.shape[1])
    index.add(normalised(embeddings.of(documents)).astype(np.float32))
    depth = min(DEPTH + 1, len(documents))
    similarity, found = index.search(normalised(embeddings.of(queries)).astype(np.float32), depth)
    qrels: dict[str, dict[str, int]] = {}
    for query, document, relevance in judged.select("left_id", "right_id", "score").iter_rows():
        qrels.setdefault(str(query), {})[str(document)] = math.ceil(relevance)
    run = {
        str(query): {
            str(document): float(cosine)
            for document, cosine in zip(documents[rows], row, strict=True)
            # A query's own text is no find, unless it is judged: BEIR ignores identical ids too.
            if document != query or str(document) in qrels[str(query)]
        }
        for query, rows, row in zip(queries, found, similarity, strict=True)
    }
    names = {
        "mrr@10": RR @ 10,
        "recall@1": R @ 1,
        "recall@10": R @ 10,
        "recall@100": R @ 100,
        "ndcg@10": nDCG @ 10,
    }
    values = ir_measures.calc_aggregate(list(names.values()), qrels, run)
    scores = {name: float(values[measure]) for name, measure in names.items()}
    return {**scores, "queries": len(queries), "documents": len(documents)}
