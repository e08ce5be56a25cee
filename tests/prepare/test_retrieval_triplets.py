"""Retrieval data as triplets: what is left out is counted."""

import json

import polars as pl
import pytest

from pipeline.data.common.texts import fold
from pipeline.params.corpus import RetrievalTriplets
from pipeline.prepare.triplets import finetuning


def test_beirs_judgements_are_triplets_and_what_is_left_out_is_counted(tmp_path):
    documents = [{"_id": f"d{n}", "title": "", "text": f"document {n}" if n else ""} for n in range(4)]
    documents += [
        {"_id": "d4", "title": "", "text": "\u200b"},
        {"_id": "d5", "title": "document", "text": "2 "},
    ]
    queries = [{"_id": f"q{n}", "text": f"what is {n}"} for n in range(3)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    judged = [("q0", "d1", 0.3), ("q1", "d2", 0), ("q1", "d9", 5000), ("q9", "d1", 1), ("q2", "d0", 1)]
    (tmp_path / "qrels").mkdir()
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judged)]
    (tmp_path / "qrels/train.tsv").write_text("\n".join(lines))
    block = RetrievalTriplets(kind="retrieval", path=str(tmp_path), collection=True)
    found, reports = finetuning({"ours": block}, lambda: None, fold(pl.Series(["document 3"])))
    known = dict(found.texts.select("text_id", "text").iter_rows())
    rows = found.pairs.select("left_id", "right_id").iter_rows()
    assert {(known.get(left), known[right]) for left, right in rows} == {
        ("what is 0", "document 1"),
        (None, "document 1"),
        (None, "document 2"),
    }
    assert set(found.texts.select("text", "role").iter_rows()) == {
        ("what is 0", "query"),
        ("document 1", "document"),
        ("document 2", "document"),
    }
    assert reports["ours"].told() == {
        "rows_in": 5,
        "rows_out": 1,
        "collection": 2,
        "dropped": {
            "query_is_missing": 1,
            "document_is_missing": 1,
            "judged_not_relevant": 1,
            "empty_document": 1,
            "collection_is_evaluation_text": 1,
            "collection_is_empty": 2,
            "collection_is_duplicate": 1,
        },
    }


@pytest.mark.parametrize("by_id", [True, False])
def test_a_negative_that_says_nothing_is_left_out_and_counted(tmp_path, by_id):
    passages = {"1": "one", "2": "two", "3": "three"}
    (tmp_path / "collection.tsv").write_text("".join(f"{key}\t{text}\n" for key, text in passages.items()))
    (tmp_path / "queries.train.tsv").write_text("7\twhat\n")
    rows = (
        [("7", "1", "2"), ("7", "1", "9")] if by_id else [("what", "one", "two"), ("what", "one", "\u200b")]
    )
    name = "qidpidtriples.train.tsv" if by_id else "triples.train.tsv"
    (tmp_path / name).write_text("".join("\t".join(row) + "\n" for row in rows))
    block = RetrievalTriplets(kind="retrieval", path=str(tmp_path), layout="msmarco", triples=name)
    found, reports = finetuning({"ours": block}, lambda: None, pl.Series([], dtype=pl.String))
    assert found.pairs["negative_ids"].list.len().to_list() == [1]
    reason = "negative_is_missing" if by_id else "negative_is_empty"
    assert reports["ours"].told() == {"rows_in": 2, "rows_out": 1, "dropped": {"duplicate": 1, reason: 1}}
