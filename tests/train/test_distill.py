import json
import math
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from distill_runs import distill, kept, made, write_project
from model2vec import StaticModel
from published_sets import write_set
from refusals import refuses
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from small_corpus import DEV, SYNONYMS, TRAIN, components, teacher_vectors
from small_students import TEACHER_DIM

from pipeline.core import seal
from pipeline.data.student import student_folder
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.vectors.sets import published
from pipeline.vectors.space import pca

WORDS = {"init": {"words": 9, "min_count": 1}}
TRANSFORMER = {"kind": "transformer", "init": {"layers": [0, 1]}}
CODE = {"kind": "crd", "variant": "code", "bank_rows": 1}
INFONCE = {"kind": "infonce", "projection": "learned"}
THREE = {
    "kind": "sum",
    "terms": [
        {"weight": 1.0, "loss": {"kind": "mse"}},
        {"weight": 0.5, "loss": INFONCE},
        {"weight": 0.5, "loss": {"kind": "hsic"}},
    ],
}


def run(folder: Path, student: dict | None = None, **train) -> tuple[dict, pl.DataFrame]:
    """The metrics and the curve."""
    write_project(folder, student, **train)
    distill()
    return seal.read_json(Path("metrics.json"), "distill"), pl.read_csv("curve.tsv", separator="\t")


def test_a_student_is_trained_and_told_of(folder):
    metrics, curve = run(folder, **{"lr": 0.05})
    assert (metrics["train_texts"], metrics["dev_texts"]) == (len(TRAIN + SYNONYMS), len(DEV))
    assert metrics["epoch_texts"] == {"corpus": len(TRAIN), "wordnet": len(SYNONYMS)}
    assert metrics["steps"] == 3 * math.ceil(len(TRAIN + SYNONYMS) / 6)
    assert curve["step"].to_list() == [0, 5, 10, 15]
    assert metrics["untrained_dev_value"] == pytest.approx(curve["dev_value"][0], rel=1e-4)
    assert metrics["best_dev_value"] == pytest.approx(curve["dev_value"].min(), rel=1e-4)
    assert metrics["best_step"] == curve["step"][curve["dev_value"].arg_min()]
    assert (metrics["select"], metrics["mean_predictor_loss"] > 0) == ("loss", True)
    models = (SentenceTransformer(name, device="cpu") for name in ("untrained", "distilled"))
    before, after = (model.encode(DEV) for model in models)
    assert before.shape == after.shape == (len(DEV), 8)
    assert not np.allclose(before, after)
    assert kept(folder) == []


@pytest.mark.parametrize(
    ("block", "train", "named"),
    [
        ({"init": {"tokens": 1}}, {}, ("init.tokens", " 1;", "letters", "raise it")),
        ({"loss": CODE}, {"select": "agreement"}, ("loss.variant", "code", "set loss.bank_rows")),
        ({}, {"lr": 1e30}, ("loss", " step ", "lower train.lr")),
    ],
)
def test_a_student_that_cannot_be_trained_is_named(folder, block, train, named):
    with refuses("students.tiny: ", *named):
        run(folder, block, **train)


@pytest.mark.parametrize(
    ("student", "reason"),
    [
        (
            {"kind": "transformer", "init": {"layers": [9]}},
            "students.tiny: init.layers names layer 9, the encoder has 2 (0 to 1)",
        ),
        (
            {"kind": "compact", "dim": "auto", "init": {"table_dim": 64}},
            "students.tiny: init.table_dim is 64, the encoder is 32 wide",
        ),
    ],
)
def test_a_student_that_the_teacher_cannot_give_is_its_reason(folder, student, reason):
    metrics, curve = run(folder, student)
    for name in ("distilled", "untrained"):
        assert {path.name for path in Path(name).iterdir()} == {"refused.json", seal.NAME}
        told = json.loads(Path(name, "refused.json").read_text())
        assert told["reason"] == reason
        assert told["fix"]
        with refuses(reason, told["fix"]):
            student_folder.read(Path(name), "distill@tiny")
    assert metrics == {"refused": f"{reason}; {told['fix']}"}
    assert curve.is_empty()


def test_what_params_leave_open_is_what_fits_the_teacher(folder):
    run(folder, {"kind": "transformer", "dim": "auto", "init": {"layers": "auto"}}, lr=1e-3)
    made = SentenceTransformer("distilled", device="cpu")
    assert made.get_embedding_dimension() == 32
    assert made[0].model.config.num_hidden_layers == 2


def test_a_mixture_is_trained_on_in_its_proportions(folder):
    metrics, curve = run(folder, texts={"corpus": 0.5, "wordnet": 3}, lr=0.05)
    assert metrics["train_texts"] == len(TRAIN + SYNONYMS)
    assert metrics["epoch_texts"] == {"corpus": len(TRAIN) // 2, "wordnet": 3 * len(SYNONYMS)}
    assert metrics["steps"] == 3 * math.ceil(25 / 6)
    assert curve["examples"][-1] == 3 * 25


def test_texts_that_the_gate_dropped_are_not_trained_on(folder):
    write_project(folder)
    gated = pl.read_parquet("data/wordnet.parquet").with_columns(similarity=pl.lit(0.5, pl.Float32))
    gated.tail(2).write_parquet("data/wordnet.parquet")
    distill()
    assert json.loads(Path("metrics.json").read_text())["epoch_texts"] == {"corpus": len(TRAIN), "wordnet": 2}


def test_a_student_is_described_as_it_is_saved(folder):
    metrics, _ = run(folder, lr=0.05, regularise={"pca": True, "sif": 1e-2})
    vectors = StaticModel.from_pretrained("distilled", normalize=False).encode(DEV)
    assert metrics["student_norm"] == pytest.approx(np.linalg.norm(vectors, axis=1).mean(), rel=1e-3)
    cosines = 1 - pdist(vectors.astype(float), "cosine")
    assert metrics["student_mean_cosine"] == pytest.approx(cosines.mean(), abs=1e-3)


def test_a_student_selected_by_agreement(folder):
    student = {**TRANSFORMER, "loss": {"kind": "crd", "features": 6, "negatives": 5}}
    metrics, curve = run(folder, student, select="agreement")
    vectors = SentenceTransformer("distilled", device="cpu").encode(DEV).astype(float)
    theirs = teacher_vectors(DEV).astype(float)
    mean, components = pca_of(folder)
    reduced = (theirs - mean) @ components[:8].T
    expected = 1 - spearmanr(pdist(vectors, "cosine"), pdist(reduced, "cosine")).statistic
    assert metrics["best_dev_value"] == pytest.approx(expected, abs=1e-6)
    assert curve["dev_value"].min() == pytest.approx(expected, abs=1e-5)
    assert metrics["select"] == "agreement"
    assert "mean_predictor_loss" not in metrics


def test_a_static_student_learns_words_of_the_training_texts(folder):
    counts = Counter(word for text in TRAIN + SYNONYMS for word in text.split())
    expected = sorted(counts, key=lambda word: (-counts[word], word))[:9]
    run(folder, WORDS, lr=0.05)
    before, after = (StaticModel.from_pretrained(name) for name in ("untrained", "distilled"))
    assert sorted(after.tokens[-9:]) == sorted(expected)
    assert [after.tokenize([word]) for word in expected] == [[[after.tokens.index(w)]] for w in expected]
    assert (np.abs(after.embedding[-9:] - before.embedding[-9:]).max(axis=1) > 1e-3).all()


def pca_of(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    from safetensors.numpy import load_file

    found = load_file(folder / "data" / "sentence.safetensors")
    return found["mean"], found["components"]


def test_what_the_losses_tell_is_in_the_curve_and_the_metrics(folder):
    metrics, curve = run(folder, {**TRANSFORMER, "loss": THREE}, micro_batch=2)
    for name in ("kernel_inputs", "kernel_vectors"):
        assert curve[name][0] is None
        assert all(0 < value < 1 for value in curve[name][1:])
        assert metrics[name] == pytest.approx(curve[name][-1], rel=1e-4)
    assert "saturated_kernels" not in metrics


def test_a_saturated_kernel_is_in_the_metrics_and_said(folder, capsys):
    hsic = {"kind": "hsic", "variant": "paper", "gamma": 1e6}
    terms = [{"weight": 1.0, "loss": {"kind": "mse"}}, {"weight": 0.5, "loss": hsic}]
    metrics, _ = run(folder, {**TRANSFORMER, "loss": {"kind": "sum", "terms": terms}})
    assert metrics["saturated_kernels"] == "kernel_inputs, kernel_vectors"
    assert "warning: kernel_vectors of tiny is 0.0000" in capsys.readouterr().err


def test_full_targets(folder):
    student = {"loss": INFONCE, "init": {"projection": "none"}}
    metrics, curve = run(folder, student, target="full", lr=0.05)
    assert curve["dev_value"].min() < curve["dev_value"][0]
    assert metrics["target_norm"] == pytest.approx(1, abs=1e-3)
    assert SentenceTransformer("distilled", device="cpu").encode(DEV).shape == (len(DEV), 8)


def test_matryoshka(folder):
    metrics, curve = run(folder, matryoshka=[2, 4], whiten=True, lr=0.05, regularise={"pca": False})
    assert curve["dev_value"].min() < curve["dev_value"][0]
    assert metrics["mean_predictor_loss"] > 0


def test_an_interrupted_training_is_another_one_with_another_loss_code(folder, monkeypatch):
    seen = []
    monkeypatch.setattr("pipeline.core.fingerprint.of_code", lambda: seen.append(set(sys.modules)) or "code")
    hsic = {"pipeline.train.losses.hsic", "pipeline.train.losses.shared.hsic"}
    for name in hsic & sys.modules.keys():
        monkeypatch.delitem(sys.modules, name)
    run(folder, {**TRANSFORMER, "loss": THREE})
    assert hsic <= seen[0]


@pytest.mark.parametrize("student", [WORDS, {**TRANSFORMER, "loss": THREE}])
def test_two_runs_make_the_same_bytes(folder, student, monkeypatch):
    for name in ("one", "two"):
        (folder / name).mkdir()
        monkeypatch.chdir(folder / name)
        run(folder / name, student)
    assert made(folder / "one") == made(folder / "two") != {}


def test_another_view_is_no_other_training(folder, monkeypatch):
    """One that was interrupted goes on."""

    def noted(checkpoint):
        trainings.append(checkpoint.inputs.name)
        raise KeyboardInterrupt

    trainings = []
    write_project(folder)
    monkeypatch.setattr(Checkpoint, "hold", noted)
    changes = (lambda: None, add_a_view, fit_anew)
    for change in changes:
        change()
        with pytest.raises(KeyboardInterrupt):
            distill()
    assert trainings[0] == trainings[1] != trainings[2]


def add_a_view():
    for path in (Path("data/corpus"), Path("data/wordnet")):
        ids, found = published.open_set(path).read("sentence")
        write_set(path, ids, {"cls": found}, recipe={"model": "one"})
    shutil.copy("data/sentence.safetensors", "data/cls.safetensors")


def fit_anew():
    variances = np.arange(TEACHER_DIM, 0.0, -1)
    pca.write(pca.Pca(*components(), variances), Path("data/sentence.safetensors"))


def test_a_failure_keeps_the_outs_that_were_there(folder):
    run(folder)
    before = made(folder)
    shutil.rmtree("data/wordnet")
    with refuses("data/wordnet/sentence/manifest.json", "`dvc repro encode@wordnet`"):
        distill()
    assert made(folder) == before


@pytest.mark.parametrize(("loss", "expected"), [("mse", "euclidean"), ("cosine", "cosine")])
def test_a_student_that_learns_lengths_is_compared_as_its_teacher(tmp_path, monkeypatch, loss, expected):
    student = {**TRANSFORMER, "loss": {"kind": loss}}
    write_project(tmp_path / "project", student)
    monkeypatch.chdir(tmp_path / "project")
    for manifest in Path("data").rglob("manifest.json"):
        content = seal.read_json(manifest, "encode")
        manifest.write_text(seal.to_json({**content, "similarity": "euclidean"}))
    distill()
    for folder in ("untrained", "distilled"):
        assert SentenceTransformer(folder, device="cpu").similarity_fn_name == expected


@pytest.mark.parametrize("kind", ["static", "transformer"])
def test_a_student_with_the_teachers_prompts_reads_them_in_training_and_has_them_saved(
    tmp_path, monkeypatch, kind
):
    """The published sets name a prompt for their role; a student without prompts does not read it."""
    tokens = {}
    for prompts in ("none", "teacher"):
        init = {"prompts": prompts} | ({"layers": [1], "max_length": 20} if kind == "transformer" else {})
        project = tmp_path / prompts
        write_project(project, {"kind": kind, "init": init})
        for manifest in (project / "data").rglob("manifest.json"):
            content = seal.read_json(manifest, "encode")
            content["recipe"] = {**content["recipe"], "prompt": "say: "}
            manifest.write_text(seal.to_json(content))
        monkeypatch.chdir(project)
        distill()
        tokens[prompts] = student_folder.prompts(Path("distilled"))
    assert tokens == {"none": {}, "teacher": {"text": "say: ", "query": "", "document": ""}}
    model = SentenceTransformer("distilled", device="cpu")
    np.testing.assert_allclose(model.encode(["a text"]), model.encode(["say: a text"], prompt=""), atol=1e-6)
    assert np.abs(model.encode(["a text"]) - model.encode(["a text"], prompt="")).max() > 1e-4
