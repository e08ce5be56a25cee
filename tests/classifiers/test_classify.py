"""The stage `classify`: what it trains, chooses, scores and writes."""

import json

import numpy as np
import polars as pl
import pytest
from classify_runs import BAD, GOOD, THINGS, change, classify, pair_rows, single_rows, write_inputs
from sklearn.metrics import accuracy_score, f1_score
from small_students import teacher

from pipeline.classifiers.saved import head as head_file
from pipeline.classifiers.saved import said as said_file
from pipeline.classifiers.training.task import Cached, read_task
from pipeline.core.errors import UserError
from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.params.load import load
from pipeline.tasks import classification, pairs

LEARNS = {"lr": [0.01], "epochs": 8.0, "batch_size": 8, "precision": "float32"}


def metrics_of(folder):
    return json.loads((folder / "metrics.json").read_text())


def predicted(folder, rows):
    """True and predicted labels of the test rows, as a user of the folder computes them."""
    model, head = student_folder.read(folder / "out", "classify"), head_file.read(folder / "out")
    test = [row for row in rows if row[3] == "test"]
    content = [text for row in test for text in row[:2] if text]
    vectors = model.encode(content, convert_to_tensor=True)
    labels = said_file.read(folder / "out").labels
    return [row[2] for row in test], [labels[at] for at in head(vectors.cpu()).argmax(1).tolist()]


@pytest.mark.parametrize("kind", ["static", "transformer", "bilstm"])
def test_a_folder_is_the_classifier_that_was_scored(tmp_path, kind):
    rows = single_rows()
    write_inputs(tmp_path, kind, rows, train={**LEARNS, "epochs": 3.0})
    classify(tmp_path)
    truth, found = predicted(tmp_path, rows)
    scores = metrics_of(tmp_path)["scores"]
    assert scores["accuracy"] == pytest.approx(accuracy_score(truth, found), abs=1e-6)
    assert scores["f1"] == pytest.approx(f1_score(truth, found, pos_label="1"), abs=1e-6)
    assert scores["train"] == 48


def test_words_are_learned_and_carried_over_to_new_things(tmp_path):
    rows = single_rows()
    write_inputs(tmp_path, "static", rows, train=LEARNS)
    classify(tmp_path)
    assert metrics_of(tmp_path)["scores"]["accuracy"] >= 0.9


def test_pairs_of_texts(tmp_path):
    rows = pair_rows()
    write_inputs(tmp_path, "static", rows, train=LEARNS)
    classify(tmp_path)
    truth, found = predicted(tmp_path, rows)
    told = metrics_of(tmp_path)
    assert told["metric"] == "f1"
    assert told["scores"]["f1"] == pytest.approx(f1_score(truth, found, pos_label="1"), abs=1e-6)
    assert said_file.read(tmp_path / "out").pairs
    assert 0 < told["untuned"]["accuracy"] < 1


def test_dev_rows_choose_the_learning_rate(tmp_path):
    write_inputs(tmp_path, "static", single_rows(), train={**LEARNS, "lr": [1e-6, 0.01]})
    classify(tmp_path)
    told = metrics_of(tmp_path)
    assert told["dev"]["0.01"] > told["dev"]["1e-06"]
    assert told["lr"] == 0.01
    curve = pl.read_csv(tmp_path / "curve.tsv", separator="\t")
    assert curve["dev_score"].max() == pytest.approx(told["dev"]["0.01"], abs=1e-5)


def test_shares_of_the_rows_and_seeds(tmp_path):
    write_inputs(tmp_path, "static", single_rows(), train=LEARNS, fractions=[0.25, 1.0], seeds=2)
    classify(tmp_path)
    scores = metrics_of(tmp_path)["scores"]
    assert {"accuracy@25%", "f1@25%", "accuracy"} <= scores.keys()
    assert scores["accuracy@25%"] <= scores["accuracy"]


def test_a_task_teacher_takes_the_place_of_labels(tmp_path):
    write_inputs(tmp_path, "static", single_rows(), train=LEARNS, kd={"alpha": 0.0})
    classify(tmp_path)
    told = metrics_of(tmp_path)
    assert told["kd"]
    assert told["alpha"] == 0
    assert told["task_teacher"]["accuracy"] >= 0.8
    assert told["scores"]["accuracy"] >= 0.75


@pytest.mark.parametrize("seed", [0, 3])
def test_the_task_teacher_of_a_share_has_learned_from_it_alone(tmp_path, seed):
    write_inputs(tmp_path, "static", single_rows(), kd={"alpha": 0.0})
    rows = pairs.read(tmp_path / "tasks.parquet")
    cached = Cached(tmp_path / "eval", "sentence")
    table = texts.read_labelled(tmp_path / "eval.parquet")
    block = load(tmp_path / "params.yaml").classifier("one")
    task = read_task(rows, table, None, block, "accuracy", cached)
    own = cached.of(table["text_id"].to_numpy())
    part = task.share(0.25, seed)
    assert len(part) == 12
    ids = table["text_id"][part.texts[:, 0]].implode()
    training = (pl.col("subset") != "train") | pl.col("left_id").is_in(ids)
    ask, _ = classification.task_teacher(rows.filter(training), own)
    chosen = rows.filter(training, subset="train")
    assert chosen["left_id"].to_list() == table["text_id"][part.texts[:, 0]].to_list()
    np.testing.assert_array_equal(part.logits, ask(chosen, own))
    of_all, _ = classification.task_teacher(rows, own)
    assert np.abs(part.logits - of_all(chosen, own)).max() > 0.01


def test_texts_of_the_transfer_set_are_labelled_by_the_task_teacher(tmp_path):
    """Training rows have one word of each label; the transfer set has the others, and no labels."""
    rows = [row for row in single_rows() if row[3] != "train" or row[0].split()[1] in (GOOD[0], BAD[0])]
    made = [(f"a {word} {thing} again", None) for thing in THINGS[:6] for word in (*GOOD, *BAD)]
    write_inputs(tmp_path, "static", rows, made, train=LEARNS, kd={"alpha": 0.5}, transfer=True)
    classify(tmp_path)
    assert metrics_of(tmp_path)["transfer_rows"] == len(made)
    assert metrics_of(tmp_path)["scores"]["train"] == 12


def test_a_transfer_set_without_rows_of_the_task(tmp_path):
    write_inputs(tmp_path, "static", single_rows(), kd={"alpha": 0.5}, transfer=True)
    with pytest.raises(UserError) as error:
        classify(tmp_path)
    assert "transfer_rows.parquet" in str(error.value)
    assert "augment.transfer.tasks" in str(error.value)


def test_equal_inputs_give_equal_bytes(tmp_path):
    for name in ("one", "two"):
        write_inputs(tmp_path / name, "static", single_rows(), train=LEARNS)
        classify(tmp_path / name)
    files = [path.relative_to(tmp_path / "one/out") for path in (tmp_path / "one/out").rglob("*.safetensors")]
    assert len(files) >= 2
    for file in files:
        assert (tmp_path / "one/out" / file).read_bytes() == (tmp_path / "two/out" / file).read_bytes()


def test_a_student_that_the_teacher_cannot_give_has_no_classifier(tmp_path):
    write_inputs(tmp_path, "static", single_rows())
    student_folder.write_refusal(UserError("it has no layers; choose another"), tmp_path / "start/tiny")
    classify(tmp_path)
    assert "it has no layers" in metrics_of(tmp_path)["refused"]
    assert student_folder.refusal(tmp_path / "out")


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"student": "none"}, ["classifiers.one.student", "'none'", "tiny"]),
        ({"task": "none"}, ["classifiers.one.task", "'none'", "said"]),
        ({"transfer": True}, ["classifiers.one.transfer", "kd"]),
        ({"start": "exported"}, ["classifiers.one.start", "finetuned"]),
        (
            {"kd": {"alpha": 0.0}, "transfer": True, "fractions": [0.5]},
            ["classifiers.one.fractions", "transfer", "[1.0]"],
        ),
        ({"train": {"lr": []}}, ["classifiers.one.train.lr", "auto"]),
    ],
)
def test_bad_params_name_key_and_fix(tmp_path, block, told):
    write_inputs(tmp_path, "static", single_rows())
    change(tmp_path, **block)
    with pytest.raises(UserError) as error:
        classify(tmp_path)
    assert [word for word in told if word not in str(error.value)] == []


def test_the_untuned_scores_are_of_the_student_before_training_and_of_the_teacher(tmp_path):
    rows = pair_rows()
    write_inputs(tmp_path, "static", rows, train=LEARNS)
    model = student_folder.read(tmp_path / "start/tiny", "distill")
    classify(tmp_path)
    check_untuned(metrics_of(tmp_path)["untuned"], rows, model.encode)
    taught = metrics_of(tmp_path)["untuned_teacher"]
    check_untuned(taught, rows, lambda found: teacher().encode(found, ["sentence"])["sentence"])
    assert taught != metrics_of(tmp_path)["untuned"]


def check_untuned(told, rows, encode):
    """Against a threshold that is searched by another way, on the cosines of these vectors."""
    sides = {}
    for subset in ("train", "test"):
        chosen = [row for row in rows if row[3] == subset]
        left, right = (encode([row[at] for row in chosen]) for at in (0, 1))
        norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
        sides[subset] = (left * right).sum(1) / norms, np.array([row[2] == "1" for row in chosen])
    similarity, truth = sides["train"]
    edges = np.unique(similarity)
    tries = [edges[0] - 1, *((edges[1:] + edges[:-1]) / 2), edges[-1] + 1]
    best = max(accuracy_score(truth, similarity >= threshold) for threshold in tries)
    assert accuracy_score(truth, similarity >= told["threshold"]) == pytest.approx(best)
    similarity, truth = sides["test"]
    assert told["accuracy"] == pytest.approx(accuracy_score(truth, similarity >= told["threshold"]), abs=1e-5)
    assert told["f1"] == pytest.approx(f1_score(truth, similarity >= told["threshold"]), abs=1e-5)
