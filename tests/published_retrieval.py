"""Retrieval sets in their official layouts, and what BEIR's evaluation makes of them.

Texts are by their own ids; a judgement is (query, document, relevance).
"""

import json
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytrec_eval
import torch

from pipeline.data.common.texts import text_id
from pipeline.params.evaluate import RetrievalTask
from pipeline.prepare.tasks import evaluation
from pipeline.tasks import retrieval
from pipeline.tasks.embeddings import Embeddings

DIM = 3
DEPTH = 10


@dataclass(frozen=True)
class Published:
    documents: dict[str, str]
    queries: dict[str, str]
    judged: list[tuple[str, str, int]]
    titles: dict[str, str] = field(default_factory=dict)

    def whole(self, document):
        return " ".join(part for part in (self.titles.get(document), self.documents[document]) if part)


def beir(folder, found):
    (folder / "qrels").mkdir()
    rows = [
        {"_id": one, "title": found.titles.get(one, ""), "text": found.documents[one]}
        for one in found.documents
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"_id": one, "text": text, "metadata": {}} for one, text in found.queries.items()]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [("query-id", "corpus-id", "score"), *found.judged]
    (folder / "qrels" / "test.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return RetrievalTask(kind="retrieval", path=str(folder))


def msmarco(folder, found):
    for name, texts in (("collection", found.documents), ("queries.dev", found.queries)):
        (folder / f"{name}.tsv").write_text("".join(f"{one}\t{text}\n" for one, text in texts.items()))
    rows = "".join(f"{query}\t0\t{document}\t{score}\n" for query, document, score in found.judged)
    (folder / "qrels.dev.tsv").write_text(rows)
    return RetrievalTask(kind="retrieval", path=str(folder), layout="msmarco", qrels="dev")


def vector(text, role):
    """Of length 1. A query lies nearest to its own text."""
    clean = " ".join(text.split())
    found = np.random.default_rng(text_id(clean)).normal(size=DIM) + 0.01 * (role == "query")
    return found / np.linalg.norm(found)


def vectors(texts):
    """One of each text."""
    rows = texts.sort("text_id")
    found = [vector(text, role) for text, role in rows.select("text", "role").iter_rows()]
    return Embeddings(rows["text_id"].to_numpy(), np.stack(found))


def ours(task):
    """Our scores, and the counts of what was left out."""
    found = evaluation({"r": task}, None)
    return retrieval.score(found.pairs, vectors(found.texts)), found.dropped.get("r", {})


def beirs_own(folder, monkeypatch):
    """What BEIR's own code makes of a folder in its layout: its loader, exact search and evaluation.

    Its mean reciprocal rank goes by the order of the file where scores tie; MTEB's, which is its successor,
    goes by ids, as trec_eval does.
    """
    from beir.datasets.data_loader import GenericDataLoader
    from beir.retrieval import evaluation as beirs_evaluation
    from beir.retrieval.search.dense import DenseRetrievalExactSearch
    from mteb._evaluators.retrieval_metrics import mrr

    class Model:
        def encode_queries(self, queries, **_):
            return torch.tensor(np.stack([vector(text, "query") for text in queries]))

        def encode_corpus(self, corpus, **_):
            whole = (" ".join(part for part in (one["title"], one["text"]) if part) for one in corpus)
            return torch.tensor(np.stack([vector(text, "document") for text in whole]))

    # They round to five digits.
    monkeypatch.setattr(beirs_evaluation, "round", lambda value, _: value, raising=False)
    [split] = (path.stem for path in (folder / "qrels").iterdir())
    corpus, queries, qrels = GenericDataLoader(str(folder)).load(split)
    search = DenseRetrievalExactSearch(Model(), show_progress_bar=False)
    evaluator = beirs_evaluation.EvaluateRetrieval(search, k_values=[1, 10, 100], score_function="cos_sim")
    results = evaluator.retrieve(corpus, queries)
    ndcg, _, recall, _ = evaluator.evaluate(qrels, results, evaluator.k_values)
    return {
        "ndcg@10": ndcg["NDCG@10"],
        **{f"recall@{k}": recall[f"Recall@{k}"] for k in evaluator.k_values},
        "mrr@10": float(np.mean(mrr(qrels, results, [10])["MRR@10"])),
    }


def beirs(found, *, same_ids=True):
    """What BEIR reports: its loader, exact search over all documents, and `EvaluateRetrieval.evaluate`.

    Queries without a text are not asked; a document of the query's own id is no result (`same_ids`).
    """
    qrels = {}
    for query, document, relevance in found.judged:
        qrels.setdefault(query, {})[document] = relevance
    run = {
        query: {
            document: float(
                np.float32(vector(found.queries[query], "query") @ vector(found.whole(document), "document"))
            )
            for document in found.documents
            if not (same_ids and document == query)
        }
        for query in qrels
        if query in found.queries
    }
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.1,10,100", "recip_rank"})
    found_at = {query: values["recip_rank"] for query, values in evaluator.evaluate(run).items()}
    measured = pl.DataFrame(list(evaluator.evaluate(run).values())).mean().row(0, named=True)
    return {
        "ndcg@10": measured["ndcg_cut_10"],
        "recall@1": measured["recall_1"],
        "recall@10": measured["recall_10"],
        "recall@100": measured["recall_100"],
        "mrr@10": np.mean([value if value >= 1 / DEPTH else 0 for value in found_at.values()]),
        "queries": len(run),
        "documents": len(found.documents),
    }
