from collections import Counter

import polars as pl
import pytest

from pipeline.data.common.texts import text_id
from pipeline.params.evaluate import WordNetSupersense
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.shared.cleaning import ids
from pipeline.prepare.wordnet.families import examples, gloss, lemma_text, members
from pipeline.prepare.wordnet.tasks import relatedness, reverse_dictionary, supersense
from pipeline.prepare.wordnet.triplets import triplets

SENSES = Keys.of("senses", WordNetSupersense(kind="wordnet_supersense"))


@pytest.fixture(scope="module")
def related(grouped):
    return relatedness(grouped, "related", 400, "dev")


@pytest.fixture(scope="module")
def dictionary(grouped):
    return reverse_dictionary(grouped, "dictionary", 200, "test")


@pytest.fixture(scope="module")
def mined(grouped):
    return triplets(grouped, "mined")


@pytest.fixture(scope="module")
def senses(grouped):
    return supersense(grouped, SENSES, 900, 300)


def words(labelled):
    return dict(labelled.texts.select("text_id", "text").iter_rows())


def test_relatedness_scores_are_nltks(grouped, related):
    by_gloss = {}
    for synset in members(grouped, "dev"):
        by_gloss.setdefault(text_id(gloss(synset)), []).append(synset)
    for row in related.pairs.head(50).iter_rows(named=True):
        candidates = [
            left.path_similarity(right)
            for left in by_gloss[row["left_id"]]
            for right in by_gloss[row["right_id"]]
        ]
        assert any(row["score"] == pytest.approx(score) for score in candidates if score)


def test_relatedness_is_spread_over_the_distances(related):
    assert len(related.pairs) == 400
    near = (related.pairs["score"] >= 1 / 3 - 1e-6).sum()
    far = (related.pairs["score"] <= 0.1 + 1e-6).sum()
    assert near > 25
    assert far > 80
    assert set(related.pairs["subset"]) == {"noun", "verb"}
    assert (related.pairs["left_id"] != related.pairs["right_id"]).all()


def test_the_same_tasks_are_built_again(grouped, related):
    assert relatedness(grouped, "related", 400, "dev").pairs.equals(related.pairs)


def test_documents_are_all_held_out_synsets_and_queries_do_not_tell_them(grouped, dictionary):
    documents = {lemma_text(synset) for synset in members(grouped, "test")}
    assert set(dictionary.pairs["right_id"]) == set(ids(pl.Series(sorted(documents)), "document"))
    roles = dict(dictionary.texts.select("text_id", "role").iter_rows())
    assert {roles[row] for row in dictionary.pairs["right_id"]} == {"document"}
    assert {roles[row] for row in dictionary.pairs["left_id"].drop_nulls()} == {"query"}
    text = words(dictionary)
    asked = dictionary.pairs.drop_nulls("left_id")
    assert asked["left_id"].n_unique() == 200
    for row in asked.iter_rows(named=True):
        for lemma in text[row["right_id"]].split(", "):
            assert f" {lemma.lower()} " not in f" {text[row['left_id']].lower()} "


def test_unasked_documents_have_no_query_and_no_score(dictionary):
    others = dictionary.pairs.filter(pl.col("left_id").is_null())
    assert others["score"].null_count() == len(others)
    relevant = dictionary.pairs.drop_nulls("left_id")["right_id"]
    assert not others["right_id"].is_in(relevant.implode()).any()


def test_a_supersense_is_nltks_lexicographer_file_of_the_gloss(grouped, senses):
    expected = {}
    for synset in (*members(grouped, "dev"), *members(grouped, "test")):
        expected.setdefault(text_id(gloss(synset)), set()).add(synset.lexname())
    rows = senses.pairs.select("left_id", "label").rows()
    assert all(expected[left] == {label} for left, label in rows)
    assert {label.partition(".")[0] for _, label in rows} == {"noun", "verb"}
    assert senses.pairs["right_id"].null_count() == len(rows)


def test_supersenses_are_trained_on_other_held_out_families_than_they_are_scored_on(grouped, senses):
    ids = {
        split: {text_id(gloss(synset)) for synset in members(grouped, split)}
        for split in ("train", "dev", "test")
    }
    by_subset = senses.pairs.group_by("subset").agg("left_id", "label")
    subsets = {subset: (set(left), set(labels)) for subset, left, labels in by_subset.iter_rows()}
    assert len(subsets["train"][0]) + len(subsets["dev"][0]) == 900
    assert subsets["train"][0] | subsets["dev"][0] <= ids["dev"] - ids["test"]
    assert subsets["test"][0] <= ids["test"]
    assert len(subsets["test"][0]) == 300
    assert subsets["test"][1] | subsets["dev"][1] <= subsets["train"][1]
    assert set(senses.pairs["split"]) == {"test"}


@pytest.mark.parametrize("limit", [100, 300])
def test_few_training_rows_leave_supersenses_out_and_count_them(grouped, limit):
    few = supersense(grouped, SENSES, limit, 300)
    rows = few.pairs.group_by("subset").agg("label")
    labels = {subset: labels for subset, labels in rows.iter_rows()}
    assert len(labels["train"]) + len(labels["dev"]) == limit
    assert set(labels["test"]) <= set(labels["train"])
    every = Counter()
    for split in ("dev", "test"):
        every.update({gloss(s) for s in members(grouped, split) if s.pos() in "nv"})
    assert sum(few.dropped["senses"].values()) + len(few.pairs) == sum(every.values())
    assert few.dropped["senses"].keys() == {
        "two_supersenses",
        "rare_supersense",
        "supersense_is_not_trained_on",
        "over_limit",
    }


def test_triplets_come_from_training_synsets_only(grouped, mined):
    training = members(grouped, "train")
    allowed = {text_id(form) for s in training for form in (gloss(s), lemma_text(s), *examples(s))}
    pairs = mined.pairs
    for column in (pairs["left_id"], pairs["right_id"], pairs["negative_ids"].explode().drop_nulls()):
        assert set(column) <= allowed
    assert pairs["negative_ids"].list.len().max() == 3
    assert (pairs["negative_ids"].list.len() == 3).mean() > 0.4


def test_no_negative_is_the_positive(mined):
    assert not mined.pairs.select(pl.col("negative_ids").list.contains(pl.col("right_id")))[
        "negative_ids"
    ].any()


def test_a_known_triplet_has_an_antonym_as_negative(mined, reader):
    left, right = (text_id(text) for text in (gloss(reader.synset("recto.n.01")), "recto"))
    row = mined.pairs.filter(left_id=left, right_id=right).row(0, named=True)
    assert text_id(lemma_text(reader.synset("verso.n.01"))) in row["negative_ids"]
