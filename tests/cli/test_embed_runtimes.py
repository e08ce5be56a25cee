"""Which runtime `embed` takes, and how it reads stdin."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from exported_students import saved
from refusals import refuses
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner, Result

from pipeline.cli import embed as command
from pipeline.cli import encoders
from pipeline.cli.__main__ import app
from pipeline.core import seal

TEXTS = ["a long sentence comes first", "short", "\u00fcber \u2028 one line"]


def embed(students: Path, *args: str, student: str = "tiny", stdin: bytes | None = None) -> Result:
    options = ["embed", "--student", student, "--students", str(students), "--device", "cpu"]
    return CliRunner().invoke(app, [*options, *args], input=stdin)


@pytest.fixture(scope="module")
def made(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's data folder with one student, fine-tuned and exported."""
    from pipeline.export import export

    root = tmp_path_factory.mktemp("data")
    finetuned, exported = root / "finetuned/tiny", root / "exported/tiny"
    saved("transformer", parts, finetuned)
    exported.mkdir(parents=True)
    model = SentenceTransformer(str(finetuned), device="cpu")
    export.write(model, finetuned, ["onnx", "onnx-int8"], exported, TEXTS)
    seal.write_folder(exported)
    return root


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def torch_was_loaded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether what runs a sentence-transformers folder was asked for."""
    asked: list[Path] = []
    real = encoders.load_student

    def load(folder: Path, device: str) -> SentenceTransformer:
        asked.append(folder)
        return real(folder, device)

    monkeypatch.setattr(encoders, "load_student", load)
    return lambda: bool(asked)


@pytest.mark.parametrize(
    ("student", "options", "by_torch"),
    [
        ("tiny", [], False),
        ("{data}/exported/tiny", [], False),
        ("{data}/exported/tiny/onnx", [], False),
        ("{data}/finetuned/tiny", [], False),
        ("tiny", ["--runtime", "onnx"], False),
        ("tiny", ["--runtime", "onnx-int8"], False),
        ("tiny", ["--runtime", "torch"], True),
        ("{data}/exported/tiny", ["--runtime", "torch"], True),
    ],
)
def test_the_export_runs_where_it_is_there(
    data: Path, monkeypatch: pytest.MonkeyPatch, student: str, options: list[str], by_torch: bool
) -> None:
    loaded = torch_was_loaded(monkeypatch)
    named = student.format(data=data)
    result = embed(data / "finetuned", *options, student=named, stdin="\n".join(TEXTS).encode())
    assert result.exit_code == 0, result.stderr
    assert loaded() == by_torch
    rows = [json.loads(line) for line in result.stdout.split("\n") if line]
    expected = SentenceTransformer(str(data / "finetuned/tiny"), device="cpu").encode(TEXTS)
    off = np.abs(np.array([row["vector"] for row in rows]) - expected).max()
    assert (1e-4 < off < 0.1) if "onnx-int8" in options else off < 2e-6


def test_only_int8_is_there(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "exported/tiny/onnx/model.onnx").unlink()
    seal.write_folder(data / "exported/tiny")
    loaded = torch_was_loaded(monkeypatch)
    assert embed(data / "finetuned", stdin=b"text\n").exit_code == 0
    assert loaded()
    result = embed(data / "finetuned", "--runtime", "onnx", stdin=b"text\n")
    assert "--runtime onnx: there is no such export" in result.stderr
    assert embed(data / "finetuned", "--runtime", "onnx-int8", stdin=b"text\n").exit_code == 0


def test_an_export_of_another_student_does_not_run(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = data / "exported/tiny/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    seal.write_folder(data / "exported/tiny")
    loaded = torch_was_loaded(monkeypatch)
    assert embed(data / "finetuned", stdin=b"text\n").exit_code == 0
    assert loaded()
    result = embed(data / "finetuned", "--runtime", "onnx", stdin=b"text\n")
    assert result.exit_code == 1
    assert "dvc repro export@tiny" in result.stderr


def test_prompts_are_put_before_texts_by_onnx_too(data: Path) -> None:
    for folder in ("finetuned", "exported"):
        path = data / folder / "tiny/config_sentence_transformers.json"
        told = json.loads(path.read_text())
        told["prompts"], told["default_prompt_name"] = (
            {"text": "say: ", "query": "ask: ", "document": ""},
            "text",
        )
        path.write_text(json.dumps(told))
        seal.write_folder(data / folder / "tiny")
    model = SentenceTransformer(str(data / "finetuned/tiny"), device="cpu")
    ways = encoders.open_encoders(data / "exported/tiny", "cpu", 8)
    for ours, theirs in (
        (ways.texts, model.encode),
        (ways.queries, model.encode_query),
        (ways.documents, model.encode_document),
    ):
        np.testing.assert_allclose(ours(TEXTS), theirs(TEXTS), atol=2e-6)


class Slowly:
    """A pipe whose writer sends a few bytes at a time."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)

    def read1(self, _most: int) -> bytes:
        return self.parts.pop(0) if self.parts else b""


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([b"one\ntw", b"o\nthree"], [["one"], ["two"], ["three"]]),
        ([b"one\r", b"\ntwo\r\n"], [["one", "two"]]),
        ([b"one\r", b"two\n"], [["one\rtwo"]]),
        ([b"a\n\n", b"\n", b"b\n"], [["a"], ["b"]]),
        ([b"\xef\xbb\xbfone\n", b"zw\xc3", b"\xb6lf\n"], [["one"], ["zw\u00f6lf"]]),
    ],
)
def test_lines_are_taken_as_they_come(
    monkeypatch: pytest.MonkeyPatch, parts: list[bytes], expected: list[list[str]]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Slowly(*parts)))
    assert list(command.stream_texts()) == expected


def test_a_late_line_that_is_not_utf8_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Slowly(b"one\n\n", b"\xff\n")))
    with refuses("stdin: line 3 ", "byte 0xff", "save it as UTF-8"):
        list(command.stream_texts())
