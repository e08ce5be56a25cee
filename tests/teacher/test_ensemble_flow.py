"""Members with a flow: the stages through their mains, against numpy on the saved weights."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from encode_runs import OUT
from encode_runs import published as files
from ensemble_runs import BERT, FITTED, HASHING, OTHER, alone, run, write_params
from refusals import refuses
from safetensors.numpy import load_file

from pipeline.core import seal
from pipeline.params.load import load
from pipeline.select.members import members
from pipeline.teacher.encoding import encode
from pipeline.teacher.kinds.ensemble import look
from pipeline.teacher.shared.members import load_teacher

FLOW = {"levels": 2, "steps": 2, "hidden": 6, "epochs": 2, "batch_size": 16, "lr": 1e-2, "max_rows": 100}
MEMBER = {**OTHER, "flow": FLOW}
NAME = "0/cls.flow.safetensors"


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def latents(path: Path, rows: np.ndarray, coupling: str = "additive") -> np.ndarray:
    """Of vectors (n, d), in float64."""
    saved = {name: tensor.astype(np.float64) for name, tensor in load_file(path).items()}
    done = rows[:, :0]
    for level in range(FLOW["levels"]):
        width = rows.shape[1] if level == 0 else -(-rows.shape[1] // 2)
        rows, left = rows[:, :width], rows[:, width:]
        done = np.concatenate([left, done], axis=1)
        for step in range(FLOW["steps"]):
            own = {
                key.split(".", 3)[3]: one
                for key, one in saved.items()
                if key.startswith(f"levels.{level}.{step}.")
            }
            rows = ((rows + own["bias"]) * np.exp(own["log_scale"]))[:, own["permutation"].astype(int)]
            half = -(-width // 2)
            found = rows[:, :half]
            for layer in (0, 2, 4):
                found = found @ own[f"network.{layer}.weight"].T + own[f"network.{layer}.bias"]
                found = np.maximum(found, 0) if layer < 4 else found
            moved = rows[:, half:]
            if coupling == "affine":
                shift, factor = np.split(found, 2, axis=1)
                moved = (moved + shift) / (1 + np.exp(-factor - 2))
            else:
                moved = moved + found
            rows = np.concatenate([rows[:, :half], moved], axis=1)
    return np.concatenate([rows, done], axis=1)


@pytest.mark.parametrize("coupling", ["additive", "affine"])
@pytest.mark.parametrize(
    ("member", "view"), [(OTHER, "cls"), (BERT, "sentence")], ids=["unit", "of any length"]
)
def test_an_ensemble_of_one_has_the_latents_of_its_vectors_as_they_are(corpus_folder, member, view, coupling):
    _, ours = run({**member, "flow": {**FLOW, "coupling": coupling}}).read("sentence")
    own = alone(member, view)
    assert (np.ptp(np.linalg.norm(own, axis=1)) > 0.1) == (member is BERT)
    wanted = unit(latents(FITTED / f"0/{view}.flow.safetensors", own, coupling))
    np.testing.assert_allclose(ours, wanted, atol=2e-3)
    assert not np.allclose(wanted, unit(own), atol=0.1)


def test_a_pca_reduces_before_the_flow_and_weights_hold(corpus_folder):
    _, ours = run({**HASHING, "pca": 6, "flow": FLOW}, OTHER).read("sentence")
    saved = {
        name: one.astype(np.float64) for name, one in load_file(FITTED / "0/sentence.safetensors").items()
    }
    reduced = (unit(alone(HASHING, "sentence")) - saved["mean"]) @ saved["components"].T
    flowed = unit(latents(FITTED / "0/sentence.flow.safetensors", reduced))
    other = unit(alone(OTHER, "cls"))
    np.testing.assert_allclose(ours, np.concatenate([0.75**0.5 * flowed, 0.5 * other], axis=1), atol=3e-3)


def test_latents_of_the_fitted_texts_are_nearly_standard_normal(corpus_folder):
    run(MEMBER)
    train = pl.read_parquet("corpus.parquet").filter(pl.col("split") == "train")["text_id"].to_numpy()[:100]
    ids = pl.read_parquet("corpus.parquet")["text_id"].to_numpy()
    found = latents(FITTED / NAME, alone(OTHER, "cls"))[np.isin(ids, train)]
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.3)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=0.3)
    manifest = seal.read_json(FITTED / "manifest.json", "members")
    assert manifest["flow_samples"]["0"]["texts"] == 100
    assert sorted(manifest["flows"]) == [NAME, "0/token_mean.flow.safetensors"]


def test_a_second_run_has_equal_bytes_and_other_settings_other_recipes(corpus_folder):
    run(MEMBER)
    first, fitted = files(), {path: path.read_bytes() for path in FITTED.rglob("*.*")}
    run(MEMBER, shard_rows=32)
    assert files() == first
    assert {path: path.read_bytes() for path in FITTED.rglob("*.*")} == fitted
    recipe = run({**MEMBER, "flow": {**FLOW, "seed": 1}}).manifests["sentence"]["fingerprint"]
    assert recipe != run(MEMBER).manifests["sentence"]["fingerprint"]
    assert "flow" not in run(OTHER).manifests["sentence"]["recipe"]["members"][0]


def test_the_ensemble_itself_gives_what_its_sets_hold(corpus_folder):
    _, published = run(MEMBER).read("sentence")
    params = load(Path("params.yaml"))
    teacher = load_teacher(params.teacher, params.runtime, FITTED)
    known = pl.read_parquet("corpus.parquet")["text"].to_list()
    np.testing.assert_allclose(teacher.encode(known, ["sentence"])["sentence"], published, atol=3e-3)
    assert teacher.dims["sentence"] == 20


def test_a_flow_that_is_gone_damaged_or_of_other_settings_is_named(corpus_folder):
    run(MEMBER)
    write_params([{**MEMBER, "flow": {**FLOW, "hidden": 7}}])
    with refuses("data/members/0/", "flow.safetensors", "`dvc repro -f members`"):
        encode.main(Path("corpus.parquet"), OUT)
    write_params([MEMBER])
    path = FITTED / NAME
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with refuses(path, "damaged", "`dvc repro -f members`"):
        encode.main(Path("corpus.parquet"), OUT)
    path.unlink()
    with refuses(path, "does not exist"):
        encode.main(Path("corpus.parquet"), OUT)


@pytest.mark.parametrize(
    ("flow", "named"),
    [
        ({"levels": 9}, ("teacher.members.0.flow.levels is 9", "20 dimensions", "choose 5 or less")),
        ({"coupling": "none"}, ("teacher.members.0.flow.coupling", "additive", "affine")),
        ({"max_rows": 1}, ("teacher.members.0.flow.max_rows",)),
        ({"depth": 3}, ("teacher.members.0.flow.depth",)),
    ],
)
def test_faults_are_told_by_their_key(corpus_folder, flow, named):
    with refuses(*named):
        run({**MEMBER, "flow": flow})
    with refuses(*named):
        look(load(Path("params.yaml")).teacher)


def test_without_a_training_text_there_is_nothing_to_fit_on(corpus_folder):
    write_params([MEMBER])
    table = pl.read_parquet("corpus.parquet").with_columns(split=pl.lit("dev"))
    table.write_parquet("corpus.parquet")
    with refuses("no training texts", "add corpus.sources"):
        members.main(Path("corpus.parquet"), FITTED)
