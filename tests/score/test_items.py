import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, normalized_mutual_info_score

from pipeline.params.evaluate import ClassificationTask, PairClassificationTask
from pipeline.score.evaluation import items
from pipeline.score.statistics import bootstrap
from pipeline.tasks import pairs, scoring
from pipeline.tasks.embeddings import Embeddings

RNG = np.random.default_rng(0)
COUNT = 400
VECTORS = RNG.normal(size=(COUNT, 12)).astype(np.float32)
VECTORS[200:] = VECTORS[:200] + 0.7 * VECTORS[200:]
VECTORS[390:] = VECTORS[389]
EMBEDDINGS = Embeddings(np.arange(1, COUNT + 1, dtype=np.uint64), VECTORS)
FILES = {"train": "a.csv", "test": "b.csv", "seeds": 2}
"""Text n + 200 is near to text n; the last texts tie."""


def similarity():
    left = np.arange(1, 151)
    score = np.round(RNG.uniform(0, 5, 150))
    return pairs.make(
        "t",
        "test",
        {"left_id": left, "right_id": left + 200, "score": score, "subset": ["a"] * 60 + ["b"] * 90},
    )


def retrieval():
    judged = [(q, q + 200, 1.0) for q in range(1, 101)] + [(q, q + 201, 0.0) for q in range(1, 50)]
    judged += [(q, 400, 2.0) for q in range(60, 70)] + [(250, 251, 1.0)]
    others = [(None, document, None) for document in (*range(320, 401), 1)]
    columns = zip(*judged, *others, strict=True)
    return pairs.make("t", "test", dict(zip(("left_id", "right_id", "score"), columns, strict=True)))


def entities():
    rows = [(q, q + 200, "de" if q % 3 else "fr") for q in range(1, 91)] + [(7, 390, "de"), (400, 395, "fr")]
    rows += [(None, n, "fr") for n in range(380, 395)]
    columns = zip(*rows, strict=True)
    return pairs.make("t", "test", dict(zip(("left_id", "right_id", "subset"), columns, strict=True)))


def choices():
    """The text near to the query is the answer, or in one of four another candidate."""
    left = np.arange(1, 91)
    near, far = left + 200, left + 301
    others = [
        [other, 399, 350][: 1 + q % 3] for q, other in zip(left, np.where(left % 4, far, near), strict=True)
    ]
    rows = {"left_id": left, "right_id": np.where(left % 4, near, far), "negative_ids": others}
    return pairs.make("t", "test", rows)


def to_cluster():
    left = np.array([*range(1, 150), 7, 7])
    label = [("low", "mid", "high")[int(v > -0.5) + int(v > 0.5)] for v in VECTORS[left - 1, 0]]
    return pairs.make("t", "test", {"left_id": left, "right_id": [None] * len(left), "label": label})


def classes(labels, *, paired):
    left = np.arange(1, 201)
    number = (VECTORS[:200, 0] > 0).astype(int) + (VECTORS[:200, 1] > 0) * (labels == 3)
    label = [str(min(one, labels - 1)) for one in number]
    subset = ["train"] * 100 + ["dev"] * 20 + ["test"] * 80
    right = left + 200 if paired else [None] * 200
    rows = {"left_id": left, "right_id": right, "label": label, "subset": subset}
    return pairs.make("t", "test", rows)


def single(**settings):
    return ClassificationTask.model_validate({"kind": "classification", **FILES, **settings})


def two(**settings):
    return PairClassificationTask.model_validate({"kind": "pair_classification", **FILES, **settings})


def by_the_libraries(found):
    """Every score of the items."""
    scores = {}
    for (measure,), rows in found.group_by("measure", maintain_order=True):
        if measure == "cosine":
            scores["spearman"] = spearmanr(rows["value"], rows["gold"]).statistic
            scores["pearson"] = pearsonr(rows["value"], rows["gold"]).statistic
            parts = rows.partition_by("subset")
            scores["spearman_mean"] = np.mean([spearmanr(p["value"], p["gold"]).statistic for p in parts])
        elif measure.startswith("class"):
            share = measure.removeprefix("class")
            average = "binary" if rows["gold"].n_unique() == 2 else "macro"
            runs = [(run["gold"], run["value"]) for run in rows.partition_by("run")]
            scores[f"accuracy{share}"] = np.mean([accuracy_score(*run) for run in runs])
            scores[f"f1{share}"] = np.mean([f1_score(*run, average=average) for run in runs])
        elif measure == "cluster":
            runs = [(run["gold"], run["value"]) for run in rows.partition_by("run")]
            scores["nmi"] = np.mean([normalized_mutual_info_score(*run) for run in runs])
        elif measure == "resolved":
            of_each = {part["subset"][0]: part["value"].mean() for part in rows.partition_by("subset")}
            scores["recall@1"], scores["recall@1_all"] = np.mean([*of_each.values()]), rows["value"].mean()
            scores |= {f"recall@1/{subset}": value for subset, value in of_each.items()}
        else:
            scores[measure] = rows["value"].mean()
    return scores


CLASSIFIED = {"spread", "train", "test", "labels"}
COUNTS = {
    "sts": {"pairs"},
    "retrieval": {"queries", "documents"},
    "entity_resolution": {"queries", "entities"},
    "choice": {"questions"},
    "clustering": {"texts", "classes"},
    "accuracy": CLASSIFIED,
    "f1": CLASSIFIED,
}
"""What stands beside a case's scores."""
HEADLINES = {
    "sts": "spearman",
    "retrieval": "ndcg@10",
    "entity_resolution": "recall@1",
    "choice": "accuracy",
    "clustering": "nmi",
}
CASES = {
    "sts": (similarity(), "sts"),
    "retrieval": (retrieval(), "retrieval"),
    "entity_resolution": (entities(), "entity_resolution"),
    "choice": (choices(), "choice"),
    "clustering": (to_cluster(), "clustering"),
    "accuracy": (classes(3, paired=False), single()),
    "accuracy of a regression on pairs": (classes(2, paired=True), two(metric="accuracy", head="linear")),
    "f1 of two": (classes(2, paired=True), two(fractions=[0.5])),
    "f1 of three": (classes(3, paired=False), single(metric="f1", head="linear")),
}


@pytest.mark.parametrize("case", CASES)
def test_the_items_make_up_every_score(case):
    rows, how = CASES[case]
    scores, found = items.score_tasks({"t": rows}, {"t": how}, EMBEDDINGS)
    assert scores == scoring.score_tasks({"t": rows}, {"t": how}, EMBEDDINGS)
    metric = HEADLINES[how] if isinstance(how, str) else how.metric
    assert 0.05 < scores["t"][metric] < 1 or case == "sts"
    expected = by_the_libraries(found)
    assert set(scores["t"]) == {*expected, *COUNTS[case.partition(" ")[0]]}
    assert scores["t"] == pytest.approx(scores["t"] | expected, abs=1e-6)
    assert found["value"].null_count() == 0
    for run in found.partition_by("measure", "run"):
        assert run["item"].to_list() == list(range(len(run)))


@pytest.mark.parametrize("case", CASES)
def test_the_bootstrap_of_the_items_starts_from_every_score(case):
    rows, how = CASES[case]
    scores, found = items.score_task(rows, how, EMBEDDINGS)
    statistics = bootstrap.statistics(found, int(scores.get("labels", 0)))
    assert {*statistics} == {*scores} - {*COUNTS[case.partition(" ")[0]]}
    once = np.ones((1, found["item"].n_unique()))
    for metric, of in statistics.items():
        assert of(once) == pytest.approx([scores[metric]], abs=1e-6)


@pytest.mark.parametrize(
    "case", ["sts", "retrieval", "entity_resolution", "choice", "clustering", "f1 of two"]
)
def test_the_rows_alone_decide_which_items_there_are_and_their_order(case):
    rows, how = CASES[case]
    other = Embeddings(EMBEDDINGS.ids, VECTORS[::-1].copy())
    same = ["measure", "subset", "run", "item", "left_id", "right_id", "gold"]
    first, second = (items.score_task(rows, how, embeddings)[1] for embeddings in (EMBEDDINGS, other))
    assert first.select(same).equals(second.select(same))
    assert not first.equals(second)


def test_items_name_their_texts():
    rows, how = CASES["retrieval"]
    _, found = items.score_task(rows, how, EMBEDDINGS)
    for of_metric in found.partition_by("measure"):
        assert of_metric["left_id"].to_list() == [*range(1, 101), 250]
    rows, how = CASES["sts"]
    _, found = items.score_task(rows, how, EMBEDDINGS)
    assert found.select("left_id", "right_id").equals(rows.select("left_id", "right_id"))
    rows, how = CASES["entity_resolution"]
    _, found = items.score_task(rows, how, EMBEDDINGS)
    assert set(found.filter(subset="fr")["left_id"]) == {*range(3, 91, 3), 400}
    rows, how = CASES["f1 of two"]
    _, found = items.score_task(rows, how, EMBEDDINGS)
    assert (
        found.filter(run=1, measure="class@50%")["left_id"].to_list()
        == rows.filter(pl.col("subset") == "test")["left_id"].to_list()
    )
