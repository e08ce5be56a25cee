"""`train: null`: `distill` writes a student's start, and reads the teacher's vectors for ridge alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from distill_runs import distill, made, write_project
from published_sets import write_set
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_corpus import DEV, write_texts

from pipeline.core import seal
from pipeline.vectors.sets import published

NULL = {"train": None, "loss": None}

LAYERS = {"layers": [0, 1]}
STARTS = {
    "table": {"kind": "static", "init": {"projection": "none"}},
    "table of words": {"kind": "static", "init": {"words": 9, "min_count": 1}},
    "table of a file": {"kind": "static", "init": {"path": "words.txt", "projection": "none"}},
    "table of a file, fitted": {"kind": "static", "init": {"path": "words.txt"}},
    "table of a list": {"kind": "static", "init": {"word_list": "list.txt", "projection": "none"}},
    "table of a list alone": {"kind": "static", "init": {"word_list": "list.txt", "subwords": False}},
    "random": {"kind": "transformer", "init": {**LAYERS, "projection": "random"}},
    "ridge": {"kind": "transformer", "init": LAYERS},
    "orthogonal": {"kind": "transformer", "init": {**LAYERS, "projection": "orthogonal"}},
    "compact": {"kind": "compact", "init": {"table_dim": 8, "layers": [0], "projection": "random"}},
    "bilstm": {"kind": "bilstm", "init": {"units": 4}},
    "bilstm of tokens": {
        "kind": "bilstm",
        "init": {"units": 4, "embeddings": "vocabulary", "lstm": "identity"},
    },
}
FITTED = {
    "table of words",
    "table of a file, fitted",
    "table of a list alone",
    "bilstm",
    "bilstm of tokens",
    "ridge",
    "orthogonal",
}


def start(folder: Path, student: dict) -> dict[str, bytes]:
    """What the stage makes of it without training."""
    write_project(folder, {**student, **NULL})
    distill()
    return made(folder)


def weights(files: dict[str, bytes], folder: str) -> dict[str, bytes]:
    """All files of a student but its card and its seal."""
    return {
        name.removeprefix(folder): content
        for name, content in files.items()
        if name.startswith(f"{folder}/") and not name.endswith(("README.md", seal.NAME))
    }


@pytest.mark.parametrize("student", STARTS.values(), ids=STARTS)
def test_it_is_what_a_training_on_the_corpus_starts_from(folder, student):
    found = start(folder, student)
    write_project(folder / "trained", student, texts=["corpus"], epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "trained")
        distill()
    trained = made(folder / "trained")
    assert weights(found, "distilled") == weights(found, "untrained") == weights(trained, "untrained")


@pytest.mark.parametrize("name", STARTS)
def test_the_teachers_vectors_shape_what_is_fitted_to_them_alone(folder, name):
    first = start(folder, STARTS[name])
    ids, vectors = published.open_set(folder / "data/corpus", "sentence").read("sentence")
    write_set(folder / "data/corpus", ids, {"sentence": vectors[::-1].copy()}, (3,), {"model": "other"})
    distill()
    assert (weights(first, "distilled") == weights(made(folder), "distilled")) == (name not in FITTED)


@pytest.mark.parametrize("projection", ["none", "ridge"])
@pytest.mark.parametrize("file", [{"path": "words.txt"}, {"word_list": "list.txt"}], ids=str)
def test_a_table_of_a_file_takes_no_vectors_of_the_teachers_vocabulary(folder, file, projection):
    write_project(folder, {"kind": "static", "init": {**file, "projection": projection}, **NULL})
    (folder / "teacher/vocabulary.parquet").unlink()
    distill()
    assert SentenceTransformer("distilled", device="cpu").encode("a cat").shape == (8,)


def test_its_folder_metrics_curve_and_card_say_that_it_is_not_distilled(folder):
    start(folder, STARTS["random"])
    metrics = json.loads(Path("metrics.json").read_text())
    assert metrics["steps"] == 0
    vectors = SentenceTransformer("distilled", device="cpu").encode(DEV)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert 0 < metrics["student_norm"]
    assert not {"best_dev_value", "train_texts", "teacher_norm"} & set(metrics)
    assert pl.read_csv("curve.tsv", separator="\t").is_empty()
    card = Path("distilled/README.md").read_text()
    assert "not distilled: it starts from `a hashing teacher`, with a random projection." in card
    assert "No distillation." in card
    assert "- distillation" not in card


@pytest.mark.parametrize(
    ("name", "way"), [("ridge", "ridge regression"), ("orthogonal", "an orthogonal map")]
)
def test_a_start_that_is_fitted_says_so_in_its_card(folder, name, way):
    start(folder, STARTS[name])
    card = Path("distilled/README.md").read_text()
    assert f"with a start fitted by {way} to the `sentence` vectors of `a hashing teacher`." in card


def test_a_random_projection_may_be_wider_than_the_teacher_and_ridge_may_not(folder):
    start(folder, {**STARTS["random"], "dim": 40})
    assert SentenceTransformer("distilled", device="cpu").encode("a cat").shape == (40,)
    shutil.rmtree("data")
    shutil.rmtree("teacher")
    start(folder, {**STARTS["ridge"], "dim": 40})
    refused = json.loads(Path("metrics.json").read_text())["refused"]
    assert "students.tiny: dim is 40, above the 32" in refused
    assert "an init.projection that is not fitted" in refused


def test_a_corpus_without_texts_names_the_keys(folder):
    write_project(folder, {**STARTS["random"], **NULL})
    write_texts(folder / "data", [], DEV)
    with refuses("corpus.parquet", "0 training texts", "corpus.sources"):
        distill()
