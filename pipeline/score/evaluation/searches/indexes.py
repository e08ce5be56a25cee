"""Retrieval by faiss indexes that do not look at every document: what they find, and how large they are."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from pipeline.core import memory
from pipeline.params.search import FlatIndex, HnswIndex, Index, IvfIndex
from pipeline.params.teacher import Similarity
from pipeline.score.evaluation.searches import mapped
from pipeline.tasks import ranking
from pipeline.tasks.embeddings import Embeddings, Ids, in_file
from pipeline.tasks.ranking import DEPTH, ROWS_AT_A_TIME, TOP, Collection, Found, Searchable

if TYPE_CHECKING:
    import faiss

LEAST_IN_A_LIST = 39
"""Vectors a centroid that faiss asks for."""

Row = dict[str, Any]
"""task, model, index, the settings that it got, and what was measured of it."""


def score_tasks(
    tasks: Mapping[str, pl.DataFrame], models: Mapping[str, Embeddings], specs: Sequence[Index], folder: Path
) -> list[Row]:
    """What every index finds of every retrieval task with every model's vectors.

    The documents' vectors lie in a file in `folder`, so that memory is that of an index.

    Returns:
        Rows of task, model, index, nlist and nprobe or m, ef_construction and ef_search, documents, dim,
        bytes (the index as faiss saves it), mrr@10, recall@10, ndcg@10 and exact@10: the share of the ten
        nearest documents that are among the ten found, so that of documents that tie any will do.
    """
    from threadpoolctl import threadpool_limits

    rows = []
    for name, pairs in tasks.items() if specs else ():
        task = ranking.collection(pairs)
        for model, embeddings in models.items():
            # The links of a graph depend on which of several threads comes first.
            with threadpool_limits(1):
                found = _rows(task, embeddings, specs, folder / "documents.bin")
                rows += [{"task": name, "model": model, **row} for row in found]
    return rows


def _rows(task: Collection, embeddings: Embeddings, specs: Sequence[Index], file: Path) -> Iterator[Row]:
    documents, queries = (
        stored(embeddings, task.documents, file),
        ranking.searchable(embeddings, task.queries),
    )
    exact = ranking.exact(memory.in_parts(documents, ROWS_AT_A_TIME), queries, how=embeddings.similarity)
    for spec in specs:
        index = build(spec, documents, embeddings.similarity)
        found = search(index, queries)
        size = saved_bytes(index)
        del index  # before the next one is built
        yield {
            **described(spec, documents),
            "bytes": size,
            **ranking.score(task, found),
            f"exact@{TOP}": _share_of_nearest(found, exact),
        }


def stored(embeddings: Embeddings, wanted: Ids, file: Path) -> Searchable:
    """The `searchable` vectors (n, d) of these texts, n >= 1, mapped from a file, which is made anew."""
    return in_file(file, wanted, ranking.in_blocks(embeddings, wanted)).vectors


def described(spec: Index, documents: Searchable) -> Row:
    """An index's kind and settings, and the number and dimension of the documents in it."""
    settings = spec.model_dump(exclude={"kind"})
    if isinstance(spec, IvfIndex):
        nlist = max(1, min(spec.nlist, len(documents) // LEAST_IN_A_LIST))
        settings = {"nlist": nlist, "nprobe": min(spec.nprobe, nlist)}
    return {"index": spec.kind, **settings, "documents": len(documents), "dim": documents.shape[1]}


def build(spec: Index, documents: Searchable, how: Similarity = "cosine") -> "faiss.Index | mapped.Flat":
    """An index of documents (n, d), compared as their model does.

    Many documents stay in files, but those of an HNSW index, of which faiss holds a copy.

    Raises:
        UserError: the disk is full.
    """
    import faiss

    dim, metric = documents.shape[1], ranking.metric(how)
    memory.say_if_more(
        f"an index {spec.kind} of {len(documents):,} documents takes",
        mapped.held(spec, *documents.shape, in_memory=not mapped.stays(documents)),
        "`evaluate.indexes: []` does without",
    )
    index: Any
    match spec:
        case FlatIndex() if mapped.stays(documents):
            return mapped.Flat(documents, metric)
        case FlatIndex():
            index = faiss.IndexFlat(dim, metric)
        case IvfIndex():
            settings = described(spec, documents)
            quantizer = faiss.IndexFlat(dim, metric)
            index = faiss.IndexIVFFlat(quantizer, dim, settings["nlist"], metric)
            index.nprobe = settings["nprobe"]
            index.cp.min_points_per_centroid = (
                1  # a single list of fewer is right, and no cause for a warning
            )
            index.train(documents)
            memory.let_go(documents)
            if mapped.stays(documents):
                mapped.add(index, documents)
                return index
        case HnswIndex():
            index = faiss.IndexHNSWFlat(dim, spec.m, metric)
            index.hnsw.efConstruction = spec.ef_construction
            index.hnsw.efSearch = spec.ef_search
    index.add(documents)  # all at once: a short block is rounded otherwise
    memory.let_go(documents)
    return index


def search(index: "faiss.Index | mapped.Flat", queries: Searchable) -> Found:
    """The nearest documents of queries (n, d)."""
    return ranking.search(cast("faiss.Index", index), queries, DEPTH)


def saved_bytes(index: "faiss.Index | mapped.Flat") -> int:
    """Bytes of an index as faiss saves it, which is what it takes in memory but for a few."""
    import faiss

    if isinstance(index, mapped.Flat):
        return index.saved_bytes
    if isinstance(index, faiss.IndexIVFFlat) and index.invlists is not None:
        lists = faiss.downcast_InvertedLists(index.invlists)
        if isinstance(lists, faiss.OnDiskInvertedLists):
            return mapped.saved_bytes(index, lists)
    return mapped.counted(faiss.write_index, index)


def _share_of_nearest(found: Found, exact: Found) -> float:
    nearest = exact.scores[:, :TOP]
    kept = (found.rows[:, :TOP] >= 0) & (found.scores[:, :TOP] >= nearest[:, -1:] - exact.tie)
    return float(np.mean(kept))
