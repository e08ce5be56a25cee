import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from published_sets import write_set
from safetensors.numpy import save_file
from small_students import vectors_of
from typer.testing import CliRunner, Result

from pipeline.cli import describe, model_folder
from pipeline.cli.__main__ import app
from pipeline.data import teacher_parts
from pipeline.data.common.files import metrics
from pipeline.export.shared.onnx_folder import UNLIMITED
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import HashingTeacher
from pipeline.teacher.kinds import hashing
from pipeline.vectors.sets import published, shards
from pipeline.vectors.space import pca

DIM = 16


@pytest.fixture(scope="module")
def teacher() -> hashing.Hashing:
    return hashing.load(HashingTeacher(kind="hashing", dim=DIM), Runtime())


@pytest.fixture
def vector_set(tmp_path: Path, teacher: hashing.Hashing) -> Path:
    sentences = [f"sentence number {number}" for number in range(300)]
    encoded = teacher.encode(sentences, ["sentence"])["sentence"].astype(np.float16)
    views = {"sentence": encoded, "cls": -encoded}
    return write_set(
        tmp_path / "corpus", np.arange(300, dtype=np.uint64), views, recipe=teacher.recipes["text"]
    ).path


def inspect(path: Path) -> Result:
    return CliRunner().invoke(app, ["inspect", str(path)])


def fact(result: Result, name: str) -> str:
    lines = [line.strip() for line in result.stdout.splitlines()]
    return next(line.removeprefix(name).strip() for line in lines if line.startswith(f"{name}  "))


def test_vectors(vector_set: Path) -> None:
    result = inspect(vector_set)
    assert result.exit_code == 0, result.stderr
    assert fact(result, "rows") == "300 (shards: 1)"
    assert fact(result, "dimensions") == "cls 16, sentence 16"
    assert fact(result, "recipe kind") == "hashing"
    assert fact(result, "sentence norms").startswith("min 0.99")
    # The sentences share two of their three words.
    assert float(fact(result, "sentence mean cosine").split()[0]) > 0.4
    assert 1 < float(fact(result, "sentence effective rank").split()[0]) <= DIM
    assert "text_id" in result.stdout


def store_as_int8(folder: Path) -> None:
    ids, found = published.open_set(folder, "sentence").read("sentence")
    write_set(folder, ids, {"sentence": found, "cls": -found}, storage="int8")


def test_vectors_of_int8_tell_what_they_lost(vector_set: Path) -> None:
    before = inspect(vector_set)
    assert fact(before, "storage") == "float16"
    assert "sentence loss" not in before.stdout
    store_as_int8(vector_set)
    for path in (vector_set, vector_set / "sentence", vector_set / "sentence" / "00000.parquet"):
        norms = [float(part.split()[-1]) for part in fact(inspect(path), "sentence norms").split(",")]
        assert norms == pytest.approx([1, 1, 1], abs=0.01)
    after = inspect(vector_set)
    assert fact(after, "storage") == "int8"
    lost = published.open_set(vector_set).manifests["sentence"]["loss"]["sentence"]
    assert fact(after, "sentence loss") == (
        f"cosine: mean {lost['mean_cosine']:.6f}, least {lost['least_cosine']:.6f}; "
        f"relative RMSE {100 * lost['relative_rmse']:.3f}%"
    )


def test_a_shard_of_int8_without_its_scale(vector_set: Path) -> None:
    store_as_int8(vector_set)
    path = vector_set / "sentence" / "00000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns("sentence_scale"), path)
    result = inspect(path)
    assert result.exit_code == 1
    assert "or sentence_error of the int8 view 'sentence'); run `dvc repro -f encode@corpus`" in result.stderr
    pq.write_table(table.replace_schema_metadata(None), path)
    assert inspect(path).exit_code == 0


def test_vectors_without_a_manifest(vector_set: Path) -> None:
    (vector_set / "sentence" / published.MANIFEST).unlink()
    for path in (vector_set, vector_set / "sentence"):
        result = inspect(path)
        assert result.exit_code == 1
        assert "sentence/manifest.json does not exist; run `dvc repro encode@corpus`" in result.stderr


def test_one_view(vector_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(vector_set / "sentence")  # nothing else is looked at
    result = inspect(vector_set / "cls")
    assert result.exit_code == 0, result.stderr
    assert fact(result, "rows") == "300 (shards: 1)"
    assert fact(result, "dimensions") == "cls 16"
    monkeypatch.chdir(vector_set / "cls")
    assert inspect(Path()).stdout == result.stdout.replace(f"{vector_set / 'cls'}:", ".:")


def test_a_folder_of_vector_sets_names_them(vector_set: Path) -> None:
    result = inspect(vector_set.parent)
    assert result.exit_code == 1
    assert f"inspect one of {vector_set}\n" in result.stderr


def test_vectors_that_are_not_finite_are_said(tmp_path: Path) -> None:
    rows = np.ones((4, DIM), np.float16)
    rows[1, 3] = np.nan
    path = tmp_path / "vectors.parquet"
    shards.write_shard(np.arange(4, dtype=np.uint64), {"cls": rows}, path)
    assert fact(inspect(path), "cls not finite") == "1 rows"


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "texts.parquet"
    pl.DataFrame({"text_id": [1, 2], "text": ["one text", "another"]}).write_parquet(path)
    result = inspect(path)
    assert fact(result, "rows") == "2 (row groups: 1)"
    assert fact(result, "column text_id") == "int64"
    assert "another" in result.stdout


def test_principal_components(tmp_path: Path) -> None:
    variance = np.linspace(2, 0, 64)
    pca.write(pca.Pca(np.zeros(64), np.eye(64), variance), tmp_path / "sentence.safetensors")
    result = inspect(tmp_path)
    assert fact(result, "sentence dimension") == "64"
    assert fact(result, "sentence variance kept") == f"32: {variance[:32].sum() / variance.sum():.1%}"


def test_teacher_parts(tmp_path: Path, teacher: hashing.Hashing) -> None:
    vectors = vectors_of(teacher.save_parts(tmp_path / "parts"))
    result = inspect(tmp_path / "parts")
    assert result.stdout.splitlines()[0].endswith("teacher's parts")
    assert fact(result, "dimension") == "32"
    teacher_parts.write_reader(vectors, tmp_path / "parts", tmp_path / "static")
    result = inspect(tmp_path / "static")
    assert result.stdout.splitlines()[0].endswith("vocabulary vectors")
    assert fact(result, "rows") == "77 (row groups: 1)"


def test_metrics(tmp_path: Path) -> None:
    metrics.write({"sts": {"spearman": 0.81}, "rows": 3}, tmp_path / "hpd.json")
    assert fact(inspect(tmp_path / "hpd.json"), "sts.spearman") == "0.81"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("broken.parquet", b"PAR1 no", "Parquet"),
        ("broken.json", b"{", "JSON"),
        ("list.json", b"[1]", "metrics"),
        ("notes.txt", b"text", "artifact"),
    ],
)
def test_what_is_no_artifact(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(content)
    result = inspect(tmp_path / name)
    assert result.exit_code == 1
    assert f"{tmp_path / name} " in result.stderr
    assert kind in result.stderr.replace(str(tmp_path), "")


def test_a_folder_of_artifacts_names_them(tmp_path: Path) -> None:
    examined = tmp_path / "examined" / "hpd"
    examined.mkdir(parents=True)
    pl.DataFrame({"text_id": [1]}).write_parquet(examined / "scores.parquet")
    save_file({"correlation": np.zeros((2, 2))}, examined / "correlation.safetensors")
    result = inspect(examined)
    assert result.exit_code == 1
    assert f"inspect one of {examined / 'scores.parquet'}\n" in result.stderr
    (tmp_path / "examined" / "notes").mkdir()
    assert f"inspect one of {examined}\n" in inspect(examined.parent).stderr
    assert "is no artifact; expected" in inspect(examined.parent / "notes").stderr


def test_a_missing_path(tmp_path: Path) -> None:
    result = inspect(tmp_path / "nothing")
    assert result.exit_code == 1
    assert "nothing does not exist" in result.stderr


@pytest.mark.parametrize(("words", "shown"), [({"max_seq_length": 256}, "256"), (None, "not limited")])
def test_the_length_of_what_is_exported(tmp_path, words, shown) -> None:
    """A graph cuts where a BiLSTM does, and not where its tokenizer_config.json says for runtimes."""
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": UNLIMITED}))
    if words:
        (tmp_path / "wordembedding_config.json").write_text(json.dumps(words))
    found = model_folder.max_length(tmp_path)
    assert (str(found) if found else "not limited") == shown


def test_rows_without_a_vector_are_counted_and_left_out(tmp_path: Path) -> None:
    rows = pa.array([[1.0, 0.0], None, [0.0, 2.0]], pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({"vector": rows}), tmp_path / "mine.parquet")
    facts = describe.table(tmp_path / "mine.parquet").facts
    assert facts["vector null"] == "1 rows"
    assert facts["vector norms"].startswith("min 1.0000, median 1.5000, max 2.0000")
