import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from built_corpus import read_texts
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from typer.testing import CliRunner, Result

from pipeline.cli import classify, encoded, vectors_out
from pipeline.cli import embed as command
from pipeline.cli.__main__ import app
from pipeline.core.errors import UserError
from pipeline.teacher.kinds.hashing import letter_tokenizer

DIM = 8
TEXTS = ["a long sentence comes first", "short", "\u00fcber \u2028 one\rline \x85 and\x0bno more"]


@pytest.fixture(scope="module")
def students(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("students")
    tokenizer = letter_tokenizer().backend_tokenizer
    table = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), DIM)).astype(np.float32)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=table)]).save(
        str(folder / "tiny")
    )
    return folder


@pytest.fixture(scope="module")
def expected(students: Path) -> np.ndarray:
    return SentenceTransformer(str(students / "tiny"), device="cpu").encode(TEXTS)


def embed(students: Path, *args: str, student: str = "tiny", stdin: bytes | None = None) -> Result:
    options = ["embed", "--student", student, "--students", str(students), "--device", "cpu"]
    return CliRunner().invoke(app, [*options, *args], input=stdin)


def test_stdin_to_jsonl(students: Path, expected: np.ndarray) -> None:
    result = embed(students, stdin="\r\n".join(TEXTS).encode())
    assert result.exit_code == 0, result.stderr
    # Not splitlines(): a text may hold U+2028.
    rows = [json.loads(line) for line in result.stdout.split("\n") if line]
    assert [row["text"] for row in rows] == TEXTS
    np.testing.assert_allclose([row["vector"] for row in rows], expected, rtol=1e-6)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_text_ends_where_prepare_ends_it(
    students: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Whether it comes from a file or, byte by byte, from stdin."""
    monkeypatch.setattr(command, "BLOCK", 1)
    content = end.join([*TEXTS, "", "last"]).encode()
    (tmp_path / "texts.txt").write_bytes(content)
    prepared = [text.strip() for text in read_texts(tmp_path / "texts.txt", "") if text.strip()]
    for result in (embed(students, str(tmp_path / "texts.txt")), embed(students, stdin=content)):
        assert [json.loads(line)["text"] for line in result.stdout.split("\n") if line] == prepared
    assert prepared == [*TEXTS, "last"]


def test_files_to_parquet_in_chunks(
    students: Path, expected: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoded, "CHUNK", 2)
    (tmp_path / "one.txt").write_text("\ufeff" + TEXTS[0] + "\n\n" + TEXTS[1] + "\n", encoding="utf-8")
    (tmp_path / "two.txt").write_text(TEXTS[2], encoding="utf-8", newline="\n")
    out = tmp_path / "vectors.parquet"
    result = embed(students, str(tmp_path / "one.txt"), str(tmp_path / "two.txt"), "--out", str(out))
    assert result.exit_code == 0, result.stderr
    assert "1 empty lines left out" in result.stderr
    assert result.stdout == ""
    assert pl.read_parquet_schema(out) == {"text": pl.String, "vector": pl.Array(pl.Float32, DIM)}
    table = pl.read_parquet(out)
    assert table["text"].to_list() == TEXTS
    np.testing.assert_allclose(table["vector"].to_numpy(), expected, rtol=1e-6)
    assert pq.ParquetFile(out).num_row_groups == 1


def test_a_row_group_holds_the_texts_of_many_reads(students: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(command, "BLOCK", 1)
    monkeypatch.setattr(vectors_out, "ROW_GROUP_BYTES", 10 * DIM * 4)
    content = b"".join(b"text %d\n" % number for number in range(25))
    assert embed(students, "--out", str(tmp_path / "out.parquet"), stdin=content).exit_code == 0
    found = pq.ParquetFile(tmp_path / "out.parquet")
    groups = [found.metadata.row_group(number).num_rows for number in range(found.num_row_groups)]
    assert groups == [10, 10, 5]
    assert found.read()["text"].to_pylist() == content.decode().split("\n")[:-1]


def test_a_student_by_path_to_a_jsonl_file(students: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors.jsonl"
    result = embed(Path("nowhere"), "--out", str(out), student=str(students / "tiny"), stdin=b"one\ntwo\n")
    assert result.exit_code == 0, result.stderr
    assert pl.read_ndjson(out)["text"].to_list() == ["one", "two"]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"fine\nbroken \xff\n", ("texts.txt: line 2 ", "UTF-8", "byte 0xff")),
        (b"\n  \n", ("texts.txt", "no text")),
        (None, ("texts.txt", "No such file")),
    ],
)
def test_bad_input_leaves_no_output(
    students: Path, tmp_path: Path, content: bytes | None, named: tuple[str, ...]
) -> None:
    path = tmp_path / "in" / "texts.txt"
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)
    out = tmp_path / "out" / "vectors.parquet"
    result = embed(students, str(path), "--out", str(out))
    assert result.exit_code == 1
    assert [name for name in named if name not in result.stderr] == []
    assert result.stdout == ""
    assert not out.parent.exists()


def test_an_unknown_student_is_told_the_known_ones(students: Path) -> None:
    result = embed(students, student="tyny", stdin=b"text\n")
    assert result.exit_code == 1
    assert "there is no student 'tyny'" in result.stderr
    assert f"{students} has tiny" in result.stderr


def test_an_unknown_format(students: Path, tmp_path: Path) -> None:
    result = embed(students, "--out", str(tmp_path / "vectors.npy"), stdin=b"text\n")
    assert result.exit_code == 1
    assert "has to end in .parquet or .jsonl" in result.stderr


def test_a_folder_is_no_output(students: Path, tmp_path: Path) -> None:
    (tmp_path / "there.parquet").mkdir()
    result = embed(students, "--out", str(tmp_path / "there.parquet"), stdin=b"text\n")
    assert result.exit_code == 1
    assert "there.parquet is a folder; name a file in it" in result.stderr


def test_a_student_that_gives_nan_leaves_no_output(tmp_path: Path) -> None:
    tokenizer = letter_tokenizer().backend_tokenizer
    table = np.full((tokenizer.get_vocab_size(), DIM), np.nan, np.float32)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=table)]).save(
        str(tmp_path / "nan")
    )
    out = tmp_path / "out" / "vectors.jsonl"
    result = embed(tmp_path, "--out", str(out), student="nan", stdin=b"text\n")
    assert result.exit_code == 1
    assert "not finite" in result.stderr
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("suffix", "of", "write", "is_open"),
    [
        ("parquet", vectors_out.pq.ParquetWriter, "write_table", lambda file: file.is_open),
        ("jsonl", vectors_out, "_write_lines", lambda file: not file.closed),
    ],
)
def test_a_failure_waits_for_what_is_written_beside(
    students: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    of: object,
    write: str,
    is_open: Callable,
) -> None:
    real, seen = getattr(of, write), []

    def slow(file: object, *written: object) -> None:
        time.sleep(0.2)
        seen.append(is_open(file))
        real(file, *written)
        seen.append(is_open(file))

    def failing(
        encode: object, blocks: Iterator[list[str]], folder: Path
    ) -> Iterator[tuple[list[str], np.ndarray]]:
        yield next(blocks)[:1], np.zeros((1, DIM), np.float32)
        raise UserError("the second chunk cannot be embedded")

    monkeypatch.setattr(of, write, slow)
    monkeypatch.setattr(vectors_out, "ROW_GROUP_BYTES", 4)
    monkeypatch.setattr(command, "encoded", failing)
    out = tmp_path / "out" / f"vectors.{suffix}"
    result = embed(students, "--out", str(out), stdin=b"one\ntwo\n")
    assert "the second chunk cannot be embedded" in result.stderr
    assert seen == [True, True]
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("weights", "named"),
    [(None, ".safetensors"), (b"cut", "'cpu'")],
)
def test_a_damaged_student(students: Path, tmp_path: Path, weights: bytes | None, named: str) -> None:
    shutil.copytree(students / "tiny", tmp_path / "damaged")
    for file in (tmp_path / "damaged").rglob("*.safetensors"):
        file.unlink() if weights is None else file.write_bytes(weights)
    result = embed(tmp_path, student="damaged", stdin=b"text\n")
    assert result.exit_code == 1
    assert "damaged " in result.stderr
    assert named in result.stderr


def test_a_closed_pipe_ends_it_without_a_traceback(students: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("text")
    args = ["embed", "--student", str(students / "tiny"), "--device", "cpu", str(tmp_path / "texts.txt")]
    with subprocess.Popen(
        [sys.executable, "-m", "pipeline.cli", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


def test_a_text_of_a_pair_may_be_empty(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("\n \t \r\n  one\ttwo \r\none\t\n\ttwo\n")
    lines = command.read_texts([path], classify.BLANKS)
    assert [classify.pair_of(line) for line in lines] == [("one", "two"), ("one", ""), ("", "two")]
