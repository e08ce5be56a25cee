"""Scores are BEIR's on its sets as they are: with equal texts, a query's own document, and unknown ids."""

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from published_retrieval import Published, beir, beirs, msmarco, ours

from pipeline.prepare.tasks import evaluation, sizes
from pipeline.tasks import ranking

ARGUMENT, COUNTER = "Dogs make good friends, and cats do not.", "Cats do too."
ARGUANA = Published(
    # Each argument is a document of its own id, some of them twice; its counterargument is relevant.
    documents={
        "pets-pro01a": ARGUMENT,
        "pets-pro01b": COUNTER,
        "pets-con09a": ARGUMENT,
        "tax-pro01a": "Lower taxes help.",
        "tax-pro01b": "They do not.",
        "tax-pro02b": "They do not.",
    },
    queries={"pets-pro01a": ARGUMENT, "pets-con09a": ARGUMENT, "tax-pro01a": "Lower taxes help."},
    judged=[
        ("pets-pro01a", "pets-pro01b", 1),
        ("pets-con09a", "tax-pro01b", 1),
        ("tax-pro01a", "tax-pro02b", 1),
    ],
)
SCIFACT = Published(
    documents={"4983": "Diffusion was measured.", "5836": "Anaemia was seen.", "7912": "", "9000": ""},
    titles={"4983": "Water", "5836": "Mice"},
    queries={"1": "Water diffuses.", "3": "Mice have anaemia.", "5": "Not judged."},
    # 7 is in no file of queries, 6666 is not in the corpus.
    judged=[("1", "4983", 1), ("3", "5836", 1), ("3", "6666", 1), ("7", "4983", 1), ("1", "9000", 1)],
)
QUORA = Published(
    documents={"1": "How is it?", "2": "How  is it?", "3": "How is it going?", "4": "Why?", "5": "Why?"},
    queries={"q1": "How is it?", "q2": "How is it?", "q3": "Why?"},
    judged=[("q1", "2", 1), ("q2", "3", 2), ("q2", "1", 1), ("q3", "4", 1)],
)
MARCO = Published(
    # Queries and passages have ids of their own: 7 and 7 are strangers.
    documents={"7": "a river", "8": "a bank", "9": "a river", "10": "money"},
    queries={"7": "a river", "8": "what is money"},
    judged=[("7", "8", 1), ("7", "9", 1), ("8", "10", 1), ("8", "99", 1), ("9", "7", 1)],
)
LAYOUTS = {
    "arguana": (ARGUANA, beir),
    "scifact": (SCIFACT, beir),
    "quora": (QUORA, beir),
    "msmarco": (MARCO, msmarco),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_scores_of_official_layouts_are_beirs(tmp_path, name):
    found, write = LAYOUTS[name]
    scores, _ = ours(write(tmp_path, found))
    assert scores == pytest.approx(beirs(found, same_ids=write is beir), abs=1e-9)


OWN = {
    "its own text": ({"a": ARGUMENT, "b": COUNTER}, {"a": ARGUMENT}, [("a", "b", 1)]),
    "a copy of it by another id": (
        {"a": ARGUMENT, "b": COUNTER, "copy": ARGUMENT},
        {"a": ARGUMENT},
        [("a", "copy", 1)],
    ),
    "another query of that text": (
        {"a": ARGUMENT, "b": COUNTER},
        {"a": ARGUMENT, "z": ARGUMENT},
        [("a", "b", 1), ("z", "a", 1)],
    ),
    "a text of which another document is its own": (
        {"a": ARGUMENT, "b": ARGUMENT},
        {"a": ARGUMENT, "b": ARGUMENT},
        [("a", "b", 1), ("b", "a", 1)],
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_only_the_document_with_the_querys_own_id_is_passed_over(tmp_path, name):
    """All that is relevant is nearest then: by id, BEIR drops one document of one query."""
    found = Published(*OWN[name])
    scores, _ = ours(beir(tmp_path, found))
    assert scores == pytest.approx(beirs(found), abs=1e-9)
    assert (scores["ndcg@10"], scores["queries"]) == (1.0, len(found.queries))


IDS = ["a", "b", "B", "10", "9", "é"]


@st.composite
def collections(draw):
    """Few texts by many ids, and judgements of any of these but a query's own document."""
    texts = st.sampled_from(["one", "two", "two ", "three four"])
    documents, queries = (draw(st.dictionaries(st.sampled_from(IDS), texts, min_size=1)) for _ in range(2))
    names = st.tuples(st.sampled_from([*queries, "nobody"]), st.sampled_from([*documents, "nothing"]))
    judged = draw(
        st.dictionaries(names.filter(lambda pair: pair[0] != pair[1]), st.integers(1, 3), min_size=1)
    )
    known = [pair for pair in judged if pair[0] in queries and pair[1] in documents]
    return Published(documents, queries, [(*pair, judged[pair]) for pair in judged] if known else [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(collections())
def test_scores_of_any_collection_are_beirs(tmp_path_factory, found):
    if found.judged:
        scores, _ = ours(beir(tmp_path_factory.mktemp("beir"), found))
        assert scores == pytest.approx(beirs(found), abs=1e-9)


@pytest.mark.parametrize("relevant", ["copy 000", "copy 149", "copy 299"])
def test_of_hundreds_of_documents_of_one_text_those_count_that_trec_eval_ranks_first(tmp_path, relevant):
    documents = {f"copy {number:03}": "same" for number in range(300)}
    found = Published(documents, {"q": "same"}, [("q", relevant, 1)])
    scores, _ = ours(beir(tmp_path, found))
    assert scores == pytest.approx(beirs(found), abs=1e-9)
    assert scores["mrr@10"] == (relevant == "copy 299")


def test_a_text_of_many_documents_takes_no_more_room_in_a_run_than_is_looked_at(tmp_path):
    documents = {f"{number}": "same" for number in range(300)} | {"other": "else"}
    task = beir(tmp_path, Published(documents, {"q": "else"}, [("q", "7", 1)]))
    pairs = evaluation({"r": task}, None).pairs
    collection = ranking.collection(pairs)
    found = ranking.Found(np.array([[0.9, 0.1]], np.float32), np.array([[0, 1]]))
    [of_query] = ranking.ranked(collection, found, 11).values()
    assert collection.size == 301
    assert 11 <= len(of_query) <= 22


def test_judgements_of_what_is_not_there_are_told_and_counted(tmp_path, capsys):
    _, dropped = ours(beir(tmp_path, SCIFACT))
    assert dropped == {"judgement_of_missing_query": 1, "judgement_of_missing_document": 1}
    said = capsys.readouterr().err
    for named in ("test.tsv", "queries.jsonl", "row 4: '7'", "corpus.jsonl", "row 3: '6666'"):
        assert named in said


def test_only_a_collection_that_needs_them_names_its_texts_by_their_own_ids(tmp_path):
    plain = Published({"d": "x", "q": "y"}, {"q": "y"}, [("q", "d", 1)])
    (tmp_path / "plain").mkdir()
    pairs = evaluation({"r": beir(tmp_path / "plain", plain)}, None).pairs
    assert pairs.select("subset", "label").unique().rows() == [("", None)]
    (tmp_path / "quora").mkdir()
    pairs = evaluation({"r": beir(tmp_path / "quora", QUORA)}, None).pairs
    assert set(pairs["label"]) == {"1", "2", "3", "4", "5"}
    assert set(pairs["subset"]) == {"", "q1", "q2", "q3"}
    assert pairs.filter(pl.col("subset") == "")["left_id"].null_count() == 1
    assert sizes(pairs)["r"]["test"] == {"rows": 5, "left_texts": 2, "right_texts": 3}


@pytest.mark.parametrize("write", [beir, msmarco])
def test_of_judgements_that_contradict_each_other_the_last_counts_as_in_beir(tmp_path, write):
    texts = {"1": "one", "2": "two", "3": "three"}
    judged = [("q", "1", 0), ("q", "1", 2), ("q", "1", 1), ("q", "2", 1), ("q", "2", 0), ("q", "3", 2)]
    found = Published(texts, {"q": "one two three"}, judged)
    scores, dropped = ours(write(tmp_path, found))
    assert scores == pytest.approx(beirs(found, same_ids=write is beir), abs=1e-9)
    assert dropped == {"judgement_is_duplicate": 3}
