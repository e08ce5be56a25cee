"""Tasks with labels, from the user's files through prepare, encode and evaluate."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from evaluate_runs import prepare_and_encode, prepare_tasks
from project import sentence
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params
from small_students import TEACHER_DIM, static_block, teacher

from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.params.load import load
from pipeline.score.evaluation import evaluate
from pipeline.score.statistics import examined
from pipeline.tasks import classification, pairs
from pipeline.tasks.embeddings import Embeddings
from pipeline.train.students.kinds import static

LABELS = ["no", "yes"]
"""Whether a text has the word `red`."""
TASKS = {
    "colour": {"kind": "classification", "train": "colour.tsv", "test": "colour_test.tsv", "seeds": 1},
    "alike": {
        "kind": "pair_classification",
        "train": "alike.tsv",
        "test": "alike_test.tsv",
        "head": "linear",
        "fractions": [0.2],
        "seeds": 3,
    },
    "chosen": {"kind": "classification", "train": "colour.tsv", "test": "chosen.tsv", "split": "dev"},
}


@pytest.fixture
def prepared(folder, parts):
    """Everything before evaluate, in the working folder."""
    Path("texts.csv").write_text("\n".join(["text", *(sentence(29 * number) for number in range(60))]))
    for name, start, count in (("colour", 20_000, 150), ("colour_test", 30_000, 60), ("chosen", 35_000, 20)):
        found = [sentence(start + 37 * number) for number in range(count)]
        write(name, "text\tlabel", [(text, LABELS["red" in text.split()]) for text in found])
    for name, start, count in (("alike", 40_000, 150), ("alike_test", 60_000, 50)):
        ends = [
            (sentence(start + 7 * n), sentence(start + 7 * n + n % 2 * 5000), 1 - n % 2) for n in range(count)
        ]
        write(name, "sentence1\tsentence2\tlabel", ends)
    document = small_params(
        teacher={"kind": "hashing", "dim": TEACHER_DIM},
        evaluate={"tasks": TASKS},
        students={"tiny": static_block().model_dump(mode="json")},
    )
    YAML().dump(document, Path("params.yaml"))
    prepare_and_encode()
    student_folder.write(static.build(static_block(), parts), "tiny", Path("student"))


def write(name, header, rows):
    lines = ["\t".join(map(str, row)) for row in rows]
    Path(f"{name}.tsv").write_text("\n".join([header, *lines]) + "\n")


def run():
    same = [Path("student")] * 3
    evaluate.main(
        "tiny",
        Path("tasks.parquet"),
        Path("eval.parquet"),
        Path("vectors"),
        "sentence",
        Path("pca"),
        *same,
        Path("out.json"),
        Path("examined"),
        corpus=Path("corpus.parquet"),
    )
    return json.loads(Path("out.json").read_text())


def test_teacher_and_student_are_scored_by_classifiers_on_their_own_vectors(prepared):
    metrics = run()
    assert metrics["main"] == {"colour": "accuracy", "alike": "f1"}
    assert set(metrics["scores"]["teacher"]) == {"colour", "alike"}
    table = texts.read_labelled(Path("eval.parquet"))
    vectors = teacher().encode(table["text"].to_list(), ["sentence"])["sentence"].astype(np.float16)
    full = Embeddings(table["text_id"].to_numpy(), vectors.astype(np.float32))
    for name, block in load(Path("params.yaml")).evaluate.tasks.items():
        if name != "chosen":
            rows = pairs.read(Path("tasks.parquet")).filter(task=name)
            expected = classification.score(rows, full, block)
            assert metrics["scores"]["teacher"][name] == pytest.approx(expected, rel=1e-5)
    assert metrics["scores"]["teacher"]["colour"]["accuracy"] > 0.85
    assert "f1@20%" in metrics["scores"]["finetuned"]["alike"]
    headline = [metrics["scores"]["finetuned"][task][metric] for task, metric in metrics["main"].items()]
    assert metrics["average"]["finetuned"] == pytest.approx(np.mean(headline), rel=1e-5)


def test_each_classifier_is_trained_once(prepared, monkeypatch):
    trained = []
    for name, (head, settings) in classification.HEADS.items():

        def counted(train, dev, setting, seed, name=name, head=head):
            trained.append(name)
            return head(train, dev, setting, seed)

        monkeypatch.setitem(classification.HEADS, name, (counted, settings))
    run()
    # By the teacher, the teacher at the student's dimension and the student: every learning rate, as `colour`
    # has one seed; every penalty on a fifth and on all rows, and the other seeds of the fifth.
    assert Counter(trained) == {"mlp": 3 * 4, "linear": 3 * (3 + 3 + TASKS["alike"]["seeds"] - 1)}


def test_items_and_examples_are_kept_beside_the_scores(prepared):
    metrics = run()
    items = examined.read_scores(Path("examined"), "tiny")
    colour = items.filter(task="colour", model="finetuned")
    assert len(colour) == 60
    right = colour["value"] == colour["gold"]
    assert right.mean() == pytest.approx(metrics["scores"]["finetuned"]["colour"]["accuracy"])
    known = texts.read_labelled(Path("eval.parquet"))
    shown = examined.read_examples(Path("examined"), "tiny")
    assert set(shown) == {"colour", "alike"}
    for one in (*shown["colour"].nearest, *shown["alike"].nearest):
        assert len(one.teacher) == len(one.student) == 3
        assert {one.query, *(near.text for near in one.teacher)} <= set(known["text"])
    assert {one.gold for one in shown["alike"].disagreements} <= {"0", "1"}
    correlation = examined.read_correlation(Path("examined"), "tiny")
    assert correlation["teacher"].shape == (TEACHER_DIM, TEACHER_DIM)
    assert correlation["finetuned"].shape == (8, 8)


def test_geometry_is_beside_the_teachers(prepared):
    geometry = run()["geometry"]
    # No task says which texts mean the same.
    shape = {"norm", "mean_cosine", "effective_rank", "uniformity"}
    assert set(geometry["teacher"]) == shape
    assert set(geometry["finetuned"]) == shape


def test_prepare_counts_the_rows_of_each_use_and_keeps_their_texts_out_of_the_corpus(prepared):
    counts = json.loads(Path("prepare.json").read_text())["tasks"]
    rows = {subset: count["rows"] for subset, count in counts["colour"]["test"].items()}
    assert sum(rows.values()) == 210
    assert rows["test"] == 60
    assert 10 <= rows["dev"] <= 15
    assert set(counts["chosen"]) == {"dev"}
    held_out = texts.read_labelled(Path("eval.parquet"))["text_id"]
    assert not texts.read_corpus(Path("corpus.parquet"))["text_id"].is_in(held_out.implode()).any()


def test_a_label_that_is_never_trained_on_ends_prepare_with_one_message(prepared):
    Path("tasks.parquet").unlink()
    write("colour_test", "text\tlabel", [("red cat", "yes"), ("blue cat", "maybe")])
    with refuses("colour_test.tsv, row 2 ", "'maybe'"):
        prepare_tasks("e.parquet", "p.json")
    assert not Path("tasks.parquet").exists()
