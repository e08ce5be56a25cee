"""What `embed`, `search` and `classify` take for a file of texts, and where they say that one is at fault."""

import gzip
import io
import os
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from refusals import refuses

from pipeline.cli import classify, embed
from pipeline.data.utf8 import lines_of

CONTENT = "one\ntwo \u00fc\n".encode()


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content))))


def test_a_name_in_gz_is_unpacked(tmp_path: Path):
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress(CONTENT))
    assert embed.read_texts([path]) == ["one", "two \u00fc"]
    path.write_bytes(gzip.compress(CONTENT * 1000)[:-20])
    with refuses(path, "not a whole gzip file", "compress it again"):
        embed.read_texts([path])
    path.write_bytes(CONTENT)
    with refuses(path, "not a whole gzip file"):
        embed.read_texts([path])


def test_gzip_of_another_name_is_called_gzip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "texts.txt"
    path.write_bytes(gzip.compress(CONTENT))
    with refuses(path, "is gzip", "zcat", ".gz"):
        embed.read_texts([path])
    with refuses(path, "is gzip", "zcat", ".gz"):
        list(lines_of(path))
    stdin(monkeypatch, gzip.compress(CONTENT))
    with refuses("stdin is gzip", "zcat"):
        list(embed.stream_texts())


@pytest.mark.parametrize("first", ["\f", "\v", "\x1b", "\x1b[0m"])
def test_control_characters_of_utf8_are_no_utf16(tmp_path: Path, first: str):
    path = tmp_path / "texts.txt"
    path.write_text(f"{first}\ntwo\n")
    assert embed.read_texts([path])[-1] == "two"
    assert list(lines_of(path)) == [first, "two"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_another_encoding_is_told(tmp_path: Path, encoding: str):
    path = tmp_path / "texts.txt"
    path.write_text("\u0440\u0430\u0437 \u0434\u0432\u0430\n\u0442\u0440\u0438\n", encoding=encoding)
    with refuses(path, "line 1", "UTF-16", "save the file as UTF-8"):
        embed.read_texts([path])


def test_a_line_that_is_no_pair_is_named_by_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    good, bad = tmp_path / "good.tsv", tmp_path / "bad.tsv"
    good.write_text("a\tb\n" * 9)
    bad.write_text("a\tb\n\n\nnone\n")
    with refuses(f"{bad}: line 4 has 0 tabs", "put one tab between two texts"):
        embed.read_texts([good, bad], classify.BLANKS, classify.pair_of)
    stdin(monkeypatch, b"a\tb\n\na\tb\tc\n")
    with refuses("stdin: line 3 has 2 tabs"):
        list(embed.stream_texts(around=classify.BLANKS, check=classify.pair_of))


def test_files_are_not_held_in_memory_and_faults_come_before_the_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(embed, "FILE_BLOCK", 1 << 10)
    path, bad = tmp_path / "texts.txt", tmp_path / "bad.txt"
    path.write_text("a text of some letters\n" * 100_000)
    tracemalloc.start()
    total, blocks = embed.open_texts([path])
    assert total == sum(map(len, blocks)) == 100_000
    assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 10
    tracemalloc.stop()
    bad.write_bytes(b"good\n\xff\n")
    with refuses(f"{bad}: line 2"):
        embed.open_texts([path, bad])
    with refuses(f"{tmp_path / 'missing.txt'} "):
        embed.open_texts([path, tmp_path / "missing.txt"])


def test_a_pipe_of_the_shell_is_read_once():
    reader, writer = os.pipe()
    os.write(writer, CONTENT)
    os.close(writer)
    total, blocks = embed.open_texts([Path(f"/proc/self/fd/{reader}")])
    assert (total, list(blocks)) == (None, [["one", "two \u00fc"]])
    os.close(reader)


@pytest.mark.parametrize("content", [b"", b"a", b"a\n", b"\n\n", b"ab\ncd\n\nef", b"a\nbcdefghij\nk\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_whole_however_they_come(content: bytes, size: int):
    class Slow(io.BytesIO):
        def read1(self, most: int = -1) -> bytes:
            return super().read1(min(size, most))

    lines = [line for lines in embed._blocks(Slow(content), 64) for line in lines]
    expected = content.split(b"\n")
    assert lines == (expected if expected[-1] else expected[:-1])
