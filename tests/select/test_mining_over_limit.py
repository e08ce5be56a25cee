"""A limit leaves triplets out, and what they say of an anchor stays known: none of its positives is mined."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.params.corpus import Mine, RetrievalTriplets, TripletFile
from pipeline.prepare.triplets import finetuning
from pipeline.select.mining.mining import Miner
from pipeline.tasks import pairs

QUERIES, EACH, LIMIT = 6, 4, 9
OFF = {"margin": None, "percentile": None, "max_similarity": None}
RELEVANT = {f"what is {one}": [f"answer {one} {place}" for place in range(EACH)] for one in range(QUERIES)}
NOTHING = pl.Series([], dtype=pl.String)


def searched(folder: Path) -> dict:
    """Each query with several relevant documents, and the whole collection to mine from."""
    documents = [text for several in RELEVANT.values() for text in several]
    lines = [{"_id": text, "title": "", "text": text} for text in [*documents, "about nothing"]]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, lines)))
    lines = [{"_id": query, "text": query} for query in RELEVANT]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "qrels").mkdir()
    judged = [f"{query}\t{text}\t1" for query, several in RELEVANT.items() for text in several]
    (folder / "qrels/train.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return {"ours": RetrievalTriplets(kind="retrieval", path=str(folder), collection=True, limit=LIMIT)}


def given(folder: Path) -> dict:
    """Each anchor with several positives, all of which another file's anchors have too, and no collection."""
    rows = [{"anchor": query, "positive": text} for query, several in RELEVANT.items() for text in several]
    others = [{"anchor": f"other {row['positive']}", "positive": row["positive"]} for row in rows]
    (folder / "one.jsonl").write_text("\n".join(map(json.dumps, [*rows, *others])))
    return {"ours": TripletFile(kind="triplets", path=str(folder / "one.jsonl"), limit=3 * LIMIT)}


@pytest.mark.parametrize("written", [searched, given])
def test_no_positive_of_an_anchor_is_mined_whichever_the_limit_leaves_out(tmp_path, written):
    data = written(tmp_path)
    found, reports = finetuning(data, lambda: None, NOTHING)
    known = dict(found.texts.select("text_id", "text").iter_rows())
    ids = np.sort(found.texts["text_id"].to_numpy())
    vectors = np.random.default_rng(0).normal(size=(len(ids), 8)).astype(np.float32)
    everything = Mine.model_validate({"top_k": len(ids), "negatives": len(ids), **OFF})
    table, counts = Miner(found.pairs, ids, vectors, everything, tmp_path).mine()
    assert len(table) == counts.triplets == reports["ours"].rows_out == data["ours"].limit
    assert table.filter(~pairs.IS_TRIPLET).is_empty()
    candidates = {known[one] for one in found.pairs["right_id"]}
    for anchor, mined in table.select("left_id", "negative_ids").iter_rows():
        own = {*RELEVANT.get(known[anchor], [known[anchor].removeprefix("other ")])}
        assert {known[one] for one in mined} == candidates - own
        assert written is given or own <= candidates
    left_out = reports["ours"].dropped["over_limit"]
    assert 0 < len(found.pairs.filter(pl.col("score") == pairs.PASSED_OVER)) <= left_out


def test_what_the_limit_leaves_out_adds_no_text(tmp_path):
    data = searched(tmp_path)
    [block] = data.values()
    found, _ = finetuning({"ours": block.model_copy(update={"collection": False})}, lambda: None, NOTHING)
    assert len(found.pairs) == LIMIT
    assert found.texts.filter(pl.col("role") == "document").height == LIMIT
