"""Sets published as int8: whoever encodes them, there and back, and by those that read them."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from encode_runs import OUT, encode, stored, write_params, write_texts
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.look import look
from pipeline.select import fit_pca
from pipeline.teacher import teacher_parts as teacher_parts_stage
from pipeline.teacher.encoding import encode as encode_stage
from pipeline.train.distillation import distill
from pipeline.vectors.sets import published
from pipeline.vectors.space import pca

ROWS = 300


def write(storage, **options):
    """params.yaml with this storage."""
    write_params(**options)
    params = YAML(typ="safe").load(Path("params.yaml"))
    params["encode"]["storage"] = storage
    YAML().dump(params, Path("params.yaml"))


@pytest.fixture
def files(folder):
    """What one undisturbed worker publishes; the store is empty again."""
    write("int8")
    write_texts([f"text {i}" for i in range(ROWS)])
    files = encode()
    assert len(files) == 18
    shutil.rmtree(OUT)
    shutil.rmtree(".cache")
    return files


def test_two_workers_publish_the_same_bytes(files):
    write("int8", workers=2)
    assert encode() == files


def test_a_job_array_publishes_the_same_bytes(files):
    for part in (1, 0, 2):
        encode(shard_index=part, num_shards=3)
    assert encode() == files


def summary(capsys):
    return capsys.readouterr().err.splitlines()[-1]


def test_there_and_back_encodes_nothing_and_publishes_every_shard_anew(folder, capsys):
    write_params()
    write_texts([f"text {i}" for i in range(ROWS)])
    halves = encode()
    assert summary(capsys) == f"encode corpus: {ROWS} encoded, 0 taken from the store"
    kept = {path: path.read_bytes() for path in stored()}
    for storage in ("int8", "float16", "int8", None):
        if storage:
            write(storage)
        else:
            write_params()  # the default
        files = encode()
        assert summary(capsys) == f"encode corpus: 0 encoded, {ROWS} taken from the store"
        if storage == "int8":
            for view, manifest in published.open_set(OUT).manifests.items():
                assert manifest["storage"] == "int8"
                assert pl.read_parquet(OUT / view / "*.parquet").schema[view] == pl.Array(pl.Int8, 16)
                assert manifest["recipe"] == json.loads(halves[f"{view}/manifest.json"])["recipe"]
        else:
            assert files == halves
    assert {path: path.read_bytes() for path in stored()} == kept


def test_the_loss_is_that_against_the_vectors_of_float16(folder):
    write_params()
    write_texts([f"text {i}" for i in range(ROWS)])
    encode()
    true = published.open_set(OUT).read("sentence")[1].astype(np.float64)
    write("int8")
    encode()
    found = published.open_set(OUT)
    read = found.read("sentence")[1].astype(np.float64)
    cosines = (true * read).sum(axis=1) / np.linalg.norm(true, axis=1) / np.linalg.norm(read, axis=1)
    assert found.manifests["sentence"]["loss"]["sentence"] == pytest.approx(
        {
            "mean_cosine": cosines.mean(),
            "least_cosine": cosines.min(),
            "relative_rmse": np.linalg.norm(true - read) / np.linalg.norm(true),
        },
        rel=1e-4,
    )
    assert 0.9995 < cosines.min() < cosines.mean() < 1


def test_the_store_keeps_int8_and_gives_the_same_bytes_as_one_of_float16(folder, capsys):
    lines = [f"text {i}" for i in range(ROWS)]
    write("float16")
    write_texts(lines)
    encode()
    write("int8")
    from_halves = encode()
    halves = stored()
    shutil.rmtree(".cache")
    shutil.rmtree(OUT)
    write_texts(lines[::3])  # other shards
    encode()
    write_texts(lines)
    assert encode() == from_halves
    assert summary(capsys) == f"encode corpus: {ROWS * 2 // 3} encoded, {ROWS // 3} taken from the store"
    assert {path.parts[3] for path in stored()} == {"cls.int8", "sentence.int8"}
    assert len(stored()) > len(halves) // 2


def test_float16_is_encoded_again_where_the_store_has_int8_and_that_is_said(folder, capsys):
    write("int8")
    write_texts([f"text {i}" for i in range(20)])
    encode()
    write("float16")
    write_texts([f"text {i}" for i in range(ROWS)])
    found = encode()
    *_, rounded, last = capsys.readouterr().err.splitlines()
    said = "up to 20 of the texts that were encoded are in the store in int8, which is not taken for"
    assert rounded == f"encode corpus: {said} encode.storage: float16"
    assert last == f"encode corpus: {ROWS} encoded, 0 taken from the store"
    encode()
    assert "in int8" not in capsys.readouterr().err
    shutil.rmtree(".cache")
    assert encode() == found


def test_no_more_is_said_of_int8_than_was_encoded(folder, capsys):
    write("int8")
    write_texts(["text 0", "text 1", "text 2"])
    encode()
    write("float16")
    encode()
    write_texts(["text 0", "text 1", "text 2", "text 3"])
    capsys.readouterr()
    encode()
    assert "up to 1 of the texts that were encoded" in capsys.readouterr().err


@pytest.mark.parametrize("storage", ["int8", "float16"])
def test_that_the_members_of_an_ensemble_take_no_int8_is_said(storage, folder, capsys):
    write("int8")
    write_texts(["text 0", "text 1", "text 2"])
    encode()
    members = [{"teacher": {"kind": "hashing", "dim": dim}} for dim in (8, 16)]
    write(storage, teacher={"kind": "ensemble", "members": members})
    capsys.readouterr()
    encode()
    said = (
        "up to 3 of the texts that were encoded are in the store in int8, which is not taken for the members"
    )
    assert said in capsys.readouterr().err
    encode()
    assert "in int8" not in capsys.readouterr().err


def test_the_members_of_an_ensemble_are_kept_exact(folder):
    write("int8")
    params = YAML(typ="safe").load(Path("params.yaml"))
    members = [{"teacher": {"kind": "hashing", "dim": dim}} for dim in (16, 8)]
    params["teacher"] = {"kind": "ensemble", "members": members}
    YAML().dump(params, Path("params.yaml"))
    write_texts([f"text {i}" for i in range(20)])
    encode()
    assert published.open_set(OUT).manifests["sentence"]["storage"] == "int8"
    assert {path.parts[3] for path in stored()} == {"cls", "sentence"}


def test_an_empty_set_loses_nothing_and_loads_no_teacher(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pipeline.teacher.kinds.hashing", None)
    write("int8")
    write_texts([])
    encode()
    assert published.open_set(OUT).read("cls")[1].shape == (0, 0)
    nothing = {"mean_cosine": 1.0, "least_cosine": 1.0, "relative_rmse": 0.0}
    manifests = published.open_set(OUT).manifests
    assert {view: one["loss"] for view, one in manifests.items()} == {
        view: {view: nothing} for view in ("sentence", "cls")
    }


def distilled(folder, storage):
    """From texts to a student; the principal components and the training's numbers."""
    YAML().dump(
        small_params(
            teacher={"kind": "hashing", "dim": 16},
            encode={"views": ["sentence"], "shard_rows": 64, "storage": storage},
            runtime={"device": "cpu"},
        ),
        folder / "params.yaml",
    )
    parts, seed, sets = folder / "teacher", folder / "corpus.parquet", folder / storage
    params = folder / "params.yaml"
    encode_stage.main(seed, sets / "corpus", params)
    fit_pca.main(seed, sets / "corpus", sets / "pca", sets / "pca.json", params)
    if not parts.exists():
        look.main(
            folder / "facts.json", folder / "tokenizer", folder / "readers.json", folder / "cards", params
        )
        teacher_parts_stage.main(
            parts, folder / "vocabulary", folder / "readers.json", folder / "facts.json", params
        )
    distill.main(
        "tiny",
        corpus=seed,
        gated=folder,
        vectors=sets,
        teacher=parts,
        facts=folder / "facts.json",
        vocabulary=folder / "vocabulary/static",
        pca=sets / "pca",
        out=sets / "student",
        untrained=sets / "untrained",
        curve=sets / "curve.tsv",
        metrics_file=sets / "distill.json",
        params_file=params,
    )
    return pca.read(sets / "pca", "sentence"), metrics.read(sets / "distill.json", "")


def test_principal_components_and_students_read_int8(folder):
    lines = [f"{colour} {animal} number {i}" for i in range(30) for colour in "rgb" for animal in "xyz"]
    table = pl.DataFrame(
        {
            "text_id": pl.Series([texts.text_id(line) for line in lines], dtype=pl.UInt64),
            "text": lines,
            "source": "x",
            "split": ["dev" if number % 10 == 0 else "train" for number in range(len(lines))],
        }
    )
    texts.write(table, texts.CORPUS_SCHEMA, folder / "corpus.parquet")
    (exact, trained), (near, near_trained) = (distilled(folder, storage) for storage in ("float16", "int8"))
    assert published.open_set(folder / "int8/corpus").manifests["sentence"]["storage"] == "int8"
    np.testing.assert_allclose(near.explained_variance, exact.explained_variance, rtol=0.02, atol=1e-5)
    assert np.abs((near.components[:3] * exact.components[:3]).sum(axis=1)).min() > 0.999
    for number in ("untrained_dev_value", "best_dev_value"):
        assert near_trained[number] == pytest.approx(trained[number], rel=0.02)
        assert near_trained[number] != trained[number]
