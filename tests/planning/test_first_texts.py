"""The rows of files and the first of their texts."""

import gzip
from pathlib import Path

import polars as pl
import pytest
from refusals import refuses

from pipeline.planning import heads
from pipeline.planning.heads import head_of

TEXTS = [f"text number {i}" for i in range(5000)]


def written(name: str, folder: Path) -> Path:
    path = folder / name
    table = pl.DataFrame({"text": TEXTS})
    match path.suffixes[0]:
        case ".txt":
            content = "\n".join(TEXTS).encode()  # no end to the last line
        case ".jsonl":
            content = table.write_ndjson().encode()
        case ".csv":
            content = table.write_csv().encode()
        case ".tsv":
            content = table.write_csv(separator="\t").encode()
        case _:
            table.write_parquet(path)
            return path
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    "name", ["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.gz", "a.csv", "a.tsv", "a.csv.gz", "a.parquet"]
)
def test_every_row_is_counted_and_the_first_texts_are_read(tmp_path, name):
    found = head_of(written(name, tmp_path), "text")
    assert found.rows == len(TEXTS)
    assert list(found.texts) == TEXTS[: len(found.texts)]
    assert heads.FIRST - 1 <= len(found.texts) <= heads.FIRST


def test_a_cut_file_and_a_column_that_is_not_there_are_named(tmp_path):
    path = written("a.txt.gz", tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    with refuses(path, "mend or remove it"):
        head_of(path, "text")
    with refuses("a.parquet", "'body'", "text"):
        head_of(written("a.parquet", tmp_path), "body")
    with refuses("data.adj", "make setup"):
        head_of(tmp_path, None)


def test_wordnets_glosses_come_without_their_examples_and_examples_apart(tmp_path):
    folder = tmp_path / "corpora/wordnet"
    folder.mkdir(parents=True)
    for part in ("adj", "adv", "noun", "verb"):
        line = f'  1 licence\n0001 00 a 01 x 0 000 | of {part}; in short; "one example"; "another"  \n'
        (folder / f"data.{part}").write_text(line)
    texts = head_of(tmp_path, None).texts
    assert texts[:3] == ("of adj; in short", "one example", "another")
    assert len(texts) == 12


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_cell_of_several_lines_is_one_text(tmp_path, name):
    texts = [f"the first line of {i}\nanother\na third" for i in range(1500)]
    content = pl.DataFrame({"text": texts}).write_csv().encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    found = head_of(tmp_path / name, "text")
    assert found.rows == 1500
    assert list(found.texts) == texts


def test_a_fault_is_named_in_the_file_of_the_user(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\nnot JSON\n')
    with refuses(f"{path}, line 2:", "not JSON"):
        head_of(path, "text")
    path.write_text('{"body": "one"}\n')
    with refuses(f"{path}, line 1 ", "'text'"):
        head_of(path, "text")


def test_a_packed_file_whose_bytes_are_wrong(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    content = bytearray(gzip.compress("\n".join(TEXTS).encode()))
    content[40:60] = bytes(20)
    path.write_bytes(content)
    with refuses(path, "mend or remove it"):
        head_of(path, "text")
