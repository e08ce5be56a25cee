"""Triplets of retrieval data: queries, relevant documents, and a collection to mine negatives from."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.params.corpus import RetrievalTriplets
from pipeline.prepare.labelled.labelled import SEARCH, Labelled, Rows, join, label
from pipeline.prepare.labelled.retrieval import read
from pipeline.prepare.readers.msmarco import read_passages, read_queries
from pipeline.prepare.readers.triples import Triples, read_triples
from pipeline.prepare.readers.user_columns import VISIBLE

MISSING_QUERY, MISSING_DOCUMENT = "query_is_missing", "document_is_missing"
NEGATIVE_MISSING, NEGATIVE_OVER = "negative_is_missing", "negative_over_limit"
NEGATIVE_EMPTY, COLLECTION_EMPTY = "negative_is_empty", "collection_is_empty"
COLLECTION_DUPLICATE = "collection_is_duplicate"
NO_ROWS = (NEGATIVE_MISSING, NEGATIVE_OVER, NEGATIVE_EMPTY, COLLECTION_EMPTY, COLLECTION_DUPLICATE)
"""Reasons of negatives, which their triplets lose, and of documents to mine from; the others are of rows."""


@dataclass
class _Found:
    """What is read of a folder."""

    queries: list[str] = field(default_factory=list)
    positives: list[str] = field(default_factory=list)
    negatives: list[list[str]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def add(self, query: str, positive: str, negatives: list[str]) -> None:
        """A triplet, if its document says anything."""
        if not re.search(VISIBLE, positive):
            self.dropped["empty_document"] += 1
            return
        kept = [text for text in negatives if re.search(VISIBLE, text)]
        self.dropped[NEGATIVE_EMPTY] += len(negatives) - len(kept)
        self.queries.append(query)
        self.positives.append(positive)
        self.negatives.append(kept)


def searches(name: str, block: RetrievalTriplets) -> Labelled:
    """The triplets of a folder and, with `collection`, a row without a left for each of its documents.

    Rows that name a text that is not there are left out and counted, and so is what `triples` has beyond the
    first negatives of a pair.

    Args:
        name: of the block in params.
        block: its params.

    Raises:
        UserError: a file is at fault.
    """
    documents: Mapping[str, str] = {}
    if block.triples is None:
        whole = read(block)
        documents, found = whole.documents, _Found()
        found.dropped[MISSING_QUERY] = whole.dropped.get("judgement_of_missing_query", 0)
        found.dropped["duplicate"] = whole.dropped.get("judgement_is_duplicate", 0)
        for query, document, score in whole.judgements:
            if document not in documents:
                found.dropped[MISSING_DOCUMENT] += 1
            elif score > 0:
                found.add(whole.queries[query], documents[document], [])
            else:
                found.dropped["judged_not_relevant"] += 1
    else:
        folder = Path(block.path)
        triples = read_triples(folder / block.triples, block.negatives)
        by_id = block.triples.startswith("qidpid")
        if by_id or block.collection:
            documents = read_passages(folder).by_id
        queries = read_queries(folder, block.qrels).by_id if by_id else None
        found = _named(triples, queries, documents)
    parts = [
        label(name, "train", Rows(found.queries, found.positives, found.negatives, roles=SEARCH)),
    ]
    if block.collection:
        texts = [text for text in documents.values() if re.search(VISIBLE, text)]
        found.dropped[COLLECTION_EMPTY] = len(documents) - len(texts)
        parts.append(label(name, "train", Rows([None] * len(texts), texts, roles=SEARCH)))
    joined = join(parts)
    return Labelled(joined.pairs, joined.texts, {name: {why: n for why, n in found.dropped.items() if n}})


def _named(triples: Triples, queries: Mapping[str, str] | None, documents: Mapping[str, str]) -> _Found:
    """The texts of triples, which are by their ids where there are `queries`."""
    found = _Found()
    found.dropped["duplicate"] = triples.rows - len(triples.by_pair)
    found.dropped[NEGATIVE_OVER] = triples.negatives_over_limit
    for (query, positive), others in triples.by_pair.items():
        if queries is None:
            found.add(query, positive, others)
        elif query not in queries:
            found.dropped[MISSING_QUERY] += 1
        elif positive not in documents:
            found.dropped[MISSING_DOCUMENT] += 1
        else:
            there = [documents[other] for other in others if other in documents]
            found.dropped[NEGATIVE_MISSING] += len(others) - len(there)
            found.add(queries[query], documents[positive], there)
    return found
