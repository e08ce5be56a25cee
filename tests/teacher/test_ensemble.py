"""An ensemble's sets against numpy on its members' own vectors."""

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from encode_runs import OUT, stored, write_texts
from encode_runs import published as files
from ensemble_runs import (
    BERT,
    FITTED,
    HASHING,
    OTHER,
    TEXTS,
    alone,
    run,
    write_params,
    write_teacher,
)

from pipeline.core.fingerprint import of_json
from pipeline.params.load import load
from pipeline.select.members import members
from pipeline.teacher.encoding import encode
from pipeline.teacher.shared.members import load_members, load_teacher
from pipeline.vectors.sets import published


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("ensemble", [(HASHING, OTHER, BERT), (BERT, HASHING), (OTHER,)])
def test_cosines_are_the_weighted_mean_of_the_members(corpus_folder, ensemble):
    found = run(*ensemble)
    vectors = {view: found.read(view)[1].astype(np.float64) for view in ("sentence", "token_mean")}
    weights = np.array([member["weight"] for member in ensemble])
    for view, ours in vectors.items():
        own = [unit(alone(m, m.get("view", view) if view == "sentence" else view)) for m in ensemble]
        wanted = sum(w * u @ u.T for w, u in zip(weights, own, strict=True)) / weights.sum()
        np.testing.assert_allclose(unit(ours) @ unit(ours).T, wanted, atol=2e-3)
        side_by_side = [np.sqrt(w / weights.sum()) * u for w, u in zip(weights, own, strict=True)]
        np.testing.assert_allclose(ours, np.concatenate(side_by_side, axis=1), atol=1e-3)


def test_a_member_is_reduced_by_the_pca_of_its_training_texts(corpus_folder, monkeypatch):
    monkeypatch.setattr(members, "SAMPLE_TEXTS", 90)
    ids, ours = run({**HASHING, "pca": 5}, OTHER).read("sentence")
    own, other = unit(alone(HASHING, "sentence")), unit(alone(OTHER, "cls"))
    train = pl.read_parquet("corpus.parquet").filter(pl.col("split") == "train")["text_id"].to_numpy()[:90]
    sample = own[np.isin(ids, train)]
    _, _, components = np.linalg.svd(sample - sample.mean(axis=0), full_matrices=False)
    reduced = unit((own - sample.mean(axis=0)) @ components[:5].T)
    ours = ours.astype(np.float64)
    wanted = 0.75 * reduced @ reduced.T + 0.25 * other @ other.T
    np.testing.assert_allclose(ours @ ours.T, wanted, atol=4e-3)
    assert ours.shape[1] == 5 + 20


def test_every_set_is_reduced_by_the_same_matrix(corpus_folder):
    ensemble = ({**HASHING, "pca": 4}, OTHER)
    ids, corpus = run(*ensemble).read("sentence")
    write_texts(TEXTS[20:40])
    encode.main(Path("corpus.parquet"), Path("vectors/eval"))
    other_ids, other = published.open_set(Path("vectors/eval")).read("sentence")
    np.testing.assert_array_equal(other, corpus[np.isin(ids, other_ids)])
    published.same_recipe(published.open_set(OUT), published.open_set(Path("vectors/eval")))


def test_members_have_the_stores_that_they_have_alone(corpus_folder, capsys):
    for member in (HASHING, OTHER):
        write_teacher(member["teacher"])
        encode.main(Path("corpus.parquet"), OUT)
    capsys.readouterr()
    run(HASHING, {**OTHER, "view": "token_mean"})
    assert told(capsys) == {"members.0": (0, 150), "members.1": (0, 150)}


def told(capsys):
    """By member: encoded, taken from the store."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("encode corpus, ")]
    found = {}
    for line in lines:
        name, _, counts = line.removeprefix("encode corpus, teacher.").partition(": ")
        found[name] = tuple(int(word.replace(",", "")) for word in counts.split() if word[0].isdigit())
    return found


def test_one_member_changed_encodes_that_one_and_one_removed_encodes_nothing(corpus_folder, capsys):
    run(HASHING, OTHER, BERT)
    assert told(capsys) == {f"members.{i}": (150, 0) for i in range(3)}
    changed = {**OTHER, "teacher": {**OTHER["teacher"], "seed": 6}}
    run(HASHING, changed, BERT)
    assert told(capsys) == {"members.0": (0, 150), "members.1": (150, 0), "members.2": (0, 150)}
    files = stored()
    run({**BERT, "weight": 0.5}, HASHING)
    assert told(capsys) == {"members.0": (0, 150), "members.1": (0, 150)}
    run({**HASHING, "pca": 3}, OTHER)
    assert told(capsys) == {"members.0": (0, 150), "members.1": (0, 150)}
    assert stored() == files


def test_the_bytes_do_not_depend_on_how_a_run_went(corpus_folder, ready_workers):
    ensemble = ({**BERT, "pca": 6}, HASHING)
    run(*ensemble)
    whole = files()
    shutil.rmtree(".cache")
    write_params(ensemble)
    for index in (1, 0):
        encode.main(Path("corpus.parquet"), OUT, shard_index=index, num_shards=2)
    run(*ensemble, workers=2)
    assert files() == whole


def test_a_view_more_leaves_the_files_of_the_others_as_they_are(corpus_folder):
    ensemble = ({**HASHING, "pca": 4}, BERT)
    run(*ensemble, views=["sentence"])
    before = files()
    run(*ensemble, views=["sentence", "token_mean", "cls"])
    assert before.items() < files().items()


def test_the_ensemble_itself_gives_what_its_sets_hold(corpus_folder):
    _, ours = run({**HASHING, "pca": 4}, OTHER, BERT).read("token_mean")
    params = load(Path("params.yaml"))
    teacher = load_teacher(params.teacher, params.runtime, FITTED)
    texts = pl.read_parquet("corpus.parquet")["text"].to_list()
    np.testing.assert_allclose(teacher.encode(texts, ["token_mean"])["token_mean"], ours, atol=1e-3)
    assert teacher.dims["token_mean"] == ours.shape[1] == published.open_set(OUT).dims["token_mean"]
    manifest = published.open_set(OUT).manifests["token_mean"]
    assert of_json(teacher.recipes["text"]) == manifest["fingerprint"]
    assert teacher.folders == load_members(params.teacher, params.runtime)[2].folders
    assert sum(p.numel() for p in teacher.module.parameters()) > 0
