from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from published_sets import write_set
from refusals import refuses
from threadpoolctl import threadpool_limits

from pipeline.params.corpus import Mine
from pipeline.select.mining import mining
from pipeline.select.mining.mining import Miner, unit_vectors
from pipeline.tasks import pairs
from pipeline.vectors.sets.published import VectorSet

TEXTS = 120
DIM = 6
ALL = {"top_k": 15, "negatives": 4, "margin": 0.05, "percentile": 0.9, "max_similarity": 0.8}
OFF = {"margin": None, "percentile": None, "max_similarity": None}


def random_vectors(texts: int = TEXTS) -> np.ndarray:
    """Float16, of any length; text i and text i + texts / 2 are equal for i below 5."""
    found = np.random.default_rng(0).standard_normal((texts, DIM)).astype(np.float16)
    found[texts // 2 : texts // 2 + 5] = found[:5]
    return found


def random_triplets(texts: int = TEXTS, count: int = 80) -> pl.DataFrame:
    """Of two tasks; anchors come more than once and are others' positives."""
    random = np.random.default_rng(1)
    tables = []
    for task, ids in (("one", np.arange(texts * 3 // 4)), ("two", np.arange(texts // 2, texts))):
        drawn = [random.choice(ids, 5, replace=False) for _ in range(count)]
        columns = {
            "left_id": [row[0] % (texts // 4) + ids[0] for row in drawn],
            "right_id": [row[1] for row in drawn],
            "negative_ids": [list(row[2 : 2 + row[4] % 4]) for row in drawn],
        }
        tables.append(pairs.make(task, "train", columns))
    table = pl.concat(tables).filter(pl.col("left_id") != pl.col("right_id"))
    return table.unique(["task", "left_id", "right_id"], maintain_order=True)


def published(folder: Path, found: np.ndarray) -> VectorSet:
    """A vector set of texts 0, 1, ..."""
    ids = np.arange(len(found), dtype=np.uint64)
    return write_set(folder, ids, {"sentence": found}, [len(found) // 2])


@pytest.fixture
def texts(tmp_path):
    return unit_vectors(published(tmp_path / "finetune", random_vectors()), tmp_path / "unit.bin")


def mined(texts, triplets: pl.DataFrame, **params) -> tuple[pl.DataFrame, mining.Counts]:
    return Miner(triplets, *texts, Mine.model_validate(params), Path("vectors/finetune")).mine()


def by_hand(triplets: pl.DataFrame, params: dict) -> tuple[dict, Counter, dict[str, list[float]]]:
    """Mined ids by triplet, dropped texts by reason, and cosines, in float64 and one text at a time."""
    units = random_vectors().astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    rows = triplets.select("task", "left_id", "right_id", "negative_ids").rows()
    found, dropped, cosines = {}, Counter(), {"positive": [], "given": [], "mined": []}
    for task, anchor, positive, given in rows:
        others = [row for row in rows if row[0] == task]
        candidates = {row[2] for row in others} | {text for row in others for text in row[3]}
        own = {row[2] for row in rows if row[1] == anchor} | {row[1] for row in rows if row[2] == anchor}
        nearest = sorted(candidates, key=lambda text: (-round(units[anchor] @ units[text], 9), text))
        left = []
        for text in nearest[: params["top_k"]]:
            to_anchor, to_positive = units[text] @ units[anchor], units[text] @ units[positive]
            to_own = units[anchor] @ units[positive]
            reasons = [
                ("anchor", text == anchor),
                ("positive", text in own),
                ("given", text in given),
                ("too_similar", max(to_anchor, to_positive) > (params["max_similarity"] or 2)),
                ("margin", to_anchor > to_own - (-2 if params["margin"] is None else params["margin"])),
                ("percentile", params["percentile"] and to_anchor > params["percentile"] * to_own),
            ]
            against = [reason for reason, holds in reasons if holds]
            dropped.update(against[:1])
            left += [] if against else [text]
        found[task, anchor, positive] = left[: params["negatives"]]
        cosines["positive"].append(units[anchor] @ units[positive])
        cosines["given"] += [units[anchor] @ units[text] for text in given]
        cosines["mined"] += [units[anchor] @ units[text] for text in left[: params["negatives"]]]
    return found, dropped, cosines


def keyed(table: pl.DataFrame) -> dict:
    return {
        tuple(row[:3]): row[3] for row in table.select("task", "left_id", "right_id", "negative_ids").rows()
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        OFF,
        OFF | {"margin": 0.1},
        OFF | {"percentile": 0.7},
        OFF | {"max_similarity": 0.6},
        {"top_k": 500},
    ],
    ids=["all", "off", "margin", "percentile", "guard", "every_text"],
)
@pytest.mark.parametrize("part_bytes", [100, 1 << 20])
def test_as_by_brute_force(texts, monkeypatch, changes, part_bytes):
    monkeypatch.setattr(mining, "PART_BYTES", part_bytes)
    triplets, params = random_triplets(), ALL | changes
    table, counts = mined(texts, triplets, **params)
    expected, dropped, cosines = by_hand(triplets, params)
    given, found = keyed(triplets), keyed(table)
    assert found == {key: given[key] + expected[key] for key in given}
    told = counts.metrics()
    assert told["dropped"] == dict(dropped)
    assert (told["triplets"], told["mined"]) == (len(triplets), sum(map(len, expected.values())))
    means = {name: np.mean(values) for name, values in cosines.items() if values}
    assert told["mean_cosine"] == pytest.approx(means, rel=1e-4)


def test_the_reference_meets_every_reason():
    """Else the comparison would show nothing about it."""
    triplets = random_triplets()
    _, dropped, _ = by_hand(triplets, ALL)
    assert set(dropped) == {"anchor", "positive", "given", "too_similar", "margin", "percentile"}
    assert triplets["negative_ids"].list.len().min() == 0


def test_another_order_of_the_triplets_gives_the_same_table(texts):
    triplets = random_triplets()
    one, _ = mined(texts, triplets, **ALL | OFF)
    other, _ = mined(texts, triplets.sample(fraction=1.0, shuffle=True, seed=3), **ALL | OFF)
    assert one.equals(other)
    assert one.equals(one.sort(pairs.SORT))


def test_equally_near_texts_come_by_id(texts):
    """Texts 0 to 4 have the vectors of 60 to 64."""
    rows = {"left_id": [10] * 10, "right_id": [*range(60, 65), *range(5)]}
    rows = {"left_id": [*rows["left_id"], 11], "right_id": [*rows["right_id"], 12]}
    table, _ = mined(texts, pairs.make("one", "train", rows), top_k=20, negatives=10, **OFF)
    found = keyed(table)["one", 11, 12]
    places = {text: place for place, text in enumerate(found)}
    assert len(places) == 10
    assert all(places[text + 60] == places[text] + 1 for text in range(5))


def test_what_any_task_calls_a_positive_is_no_negative(texts):
    one = pairs.make("one", "train", {"left_id": [0, 1], "right_id": [2, 3]})
    two = pairs.make("two", "train", {"left_id": [0], "right_id": [3]})
    assert keyed(mined(texts, one, top_k=9, **OFF)[0])["one", 0, 2] == [3]
    assert keyed(mined(texts, pl.concat([one, two]), top_k=9, **OFF)[0])["one", 0, 2] == []
    turned = pairs.make("two", "train", {"left_id": [3], "right_id": [0]})
    assert keyed(mined(texts, pl.concat([one, turned]), top_k=9, **OFF)[0])["one", 0, 2] == []


def test_negatives_come_from_the_same_task(texts):
    tasks = [
        pairs.make(name, "train", {"left_id": [at, at + 1], "right_id": [at + 2, at + 3]})
        for name, at in (("one", 10), ("two", 20))
    ]
    found = keyed(mined(texts, pl.concat(tasks), top_k=100, **OFF)[0])
    assert found["one", 10, 12] == [13]
    assert found["two", 21, 23] == [22]


def test_no_triplets(texts):
    table, counts = mined(texts, random_triplets().clear(), **ALL)
    assert table.schema == pairs.PAIRS_SCHEMA
    assert counts.metrics() == {"triplets": 0, "mined": 0, "dropped": {}, "mean_cosine": {}}


@pytest.mark.parametrize(("probes", "alike"), [(1000, 0.97), (2, 0.4)])
def test_many_candidates_are_searched_by_cells_and_the_metrics_say_so(tmp_path, monkeypatch, probes, alike):
    texts = unit_vectors(published(tmp_path / "set", random_vectors(2000)), tmp_path / "unit.bin")
    triplets, params = random_triplets(2000, 400), ALL | OFF
    exact, counts = mined(texts, triplets, **params)
    assert "approximate" not in counts.metrics()
    monkeypatch.setattr(mining, "PROBES", probes)
    monkeypatch.setattr(mining, "pays", lambda *_: True)
    table, counts = mined(texts, triplets, **params, exact_rows=700)
    assert counts.metrics()["approximate"] == "one"
    (recall,) = counts.metrics()["recall"].values()
    assert recall == 1 if probes == 1000 else alike < recall < 1
    given, wanted, found = keyed(triplets), keyed(exact), keyed(table)
    both = [(set(wanted[key][len(given[key]) :]), set(found[key][len(given[key]) :])) for key in given]
    assert sum(len(one & other) for one, other in both) > alike * counts.mined
    texts_of_one = triplets.filter(pl.col("task") == "one").select("right_id", "negative_ids")
    candidates = {*texts_of_one["right_id"], *texts_of_one["negative_ids"].explode()}
    assert set().union(*(row for key, row in found.items() if key[0] == "one")) <= candidates


@pytest.mark.parametrize(
    ("candidates", "anchors", "cells"),
    [
        (216_000, 10_000, False),
        (216_000, 15_000, True),
        (8_800_000, 20_000, False),
        (8_800_000, 25_000, True),
    ],
)
def test_cells_are_made_where_that_is_less_work_than_to_compare_all(candidates, anchors, cells):
    assert mining.pays(candidates, anchors) == cells


def test_few_anchors_are_compared_with_all_texts(texts):
    exact, _ = mined(texts, random_triplets(), **ALL)
    table, counts = mined(texts, random_triplets(), **ALL, exact_rows=20)
    assert table.equals(exact)
    assert "approximate" not in counts.metrics()


def test_the_cells_are_the_same_every_time_and_on_any_number_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(mining, "pays", lambda *_: True)
    texts = unit_vectors(published(tmp_path / "set", random_vectors(2000)), tmp_path / "unit.bin")
    made = []
    for threads in (1, 2, 2):
        with threadpool_limits(threads):
            table, counts = mined(texts, random_triplets(2000, 400), **ALL, exact_rows=700)
        made.append((table.rows(), counts.metrics()))
    assert made[0] == made[1] == made[2]


def test_the_share_of_the_nearest_that_is_found_is_told(texts, monkeypatch):
    def half_blind(_, candidates):
        odd = np.where(candidates % 2, candidates, -1)
        return lambda anchors, _: np.tile(odd, (len(anchors), 1))

    monkeypatch.setattr(mining, "approximate_search", half_blind)
    monkeypatch.setattr(mining, "pays", lambda *_: True)
    triplets = random_triplets().filter(task="one")
    _, counts = mined(texts, triplets, **ALL | OFF, exact_rows=20)
    _, units = texts
    candidates = np.unique(pl.concat([triplets["right_id"], triplets["negative_ids"].explode().drop_nulls()]))
    anchors = np.unique(triplets["left_id"])
    assert len(anchors) < mining.ASKED
    cosines = units[anchors.astype(int)] @ units[candidates.astype(int)].T
    nearest = candidates[np.argsort(-cosines, axis=1, kind="stable")[:, : ALL["top_k"]]]
    assert counts.metrics()["recall"]["one"] == pytest.approx((nearest % 2).mean(), abs=0.02)


def test_a_search_that_finds_nothing_finds_no_share(texts, monkeypatch):
    monkeypatch.setattr(
        mining, "approximate_search", lambda *_: lambda anchors, count: np.full((len(anchors), count), -1)
    )
    monkeypatch.setattr(mining, "pays", lambda *_: True)
    _, counts = mined(texts, random_triplets(), **ALL, exact_rows=20)
    assert counts.metrics()["recall"] == {"one": 0, "two": 0}


def test_a_search_may_find_fewer_than_it_is_asked_for(texts, monkeypatch):
    triplets, params = random_triplets(), ALL | OFF | {"negatives": 15}
    expected, _ = mined(texts, triplets, **params)
    whole = mining.exact_search

    def with_holes(*candidates):
        search = whole(*candidates)
        return lambda anchors, count: np.pad(search(anchors, count - 3), ((0, 0), (3, 0)), constant_values=-1)

    monkeypatch.setattr(mining, "exact_search", with_holes)
    assert mined(texts, triplets, **params)[0].equals(expected)
    everything, _ = mined(texts, triplets, **params | {"top_k": 500, "negatives": 500})
    found = everything["negative_ids"].list
    assert found.len().to_list() == found.n_unique().to_list()


def test_vectors_have_length_1_but_for_those_without_a_direction(tmp_path):
    plain = random_vectors()
    plain[7] = 0
    ids, units = unit_vectors(published(tmp_path / "set", plain), tmp_path / "unit.bin")
    lengths = np.linalg.norm(plain.astype(np.float64), axis=1, keepdims=True)
    np.testing.assert_allclose(units, plain / np.where(lengths > 0, lengths, 1), atol=1e-6)
    assert ids.tolist() == list(range(TEXTS))
    assert units.dtype == np.float32


def test_a_text_without_a_vector_names_the_vectors_and_the_text(texts):
    triplets = pairs.make("one", "train", {"left_id": [0], "right_id": [987]})
    with refuses("vectors/finetune ", "1 texts", "text_id 987)", "`dvc repro -f encode@finetune`"):
        mined(texts, triplets, **ALL)
