import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refuses

from pipeline.data.common import texts

TEXTS, ROLES = ["c", "z", "b"], ["text", "query", "document"]
IDS = texts.in_role(texts.text_ids(TEXTS), ROLES)
ROWS = {"text_id": IDS, "text": TEXTS, "role": ROLES}
SETS = {
    "corpus": (
        texts.CORPUS_SCHEMA,
        {**ROWS, "source": ["files"] * 3, "split": ["train", "dev", "train"]},
        texts.read_corpus,
    ),
    "eval": (texts.LABELLED_SCHEMA, ROWS, texts.read_labelled),
    "wordnet": (
        texts.AUGMENTED_SCHEMA,
        {**ROWS, "parent_id": [1, 1, 2], "method": ["wordnet"] * 3},
        texts.read_augmented,
    ),
}


def frame(name):
    schema, rows, _ = SETS[name]
    return pl.DataFrame(rows, schema=schema)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0xE4A6A0577479B2B4), ("hello", 0xA7B6EDA801E5347D), ("naïve 🦜", 0x76D9AA4DDB53A610)],
)
def test_a_text_id_is_what_b2sum_prints(text, expected):
    assert texts.text_id(text) == expected  # `printf hello | b2sum -l 64`


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_sorted_on_writing_and_comes_back_whole(tmp_path, name):
    schema, _, read = SETS[name]
    path = tmp_path / f"{name}.parquet"
    texts.write(frame(name), schema, path)
    assert read(path)["text_id"].to_list() == sorted(IDS)
    assert read(path).equals(frame(name).sort("text_id"))
    assert texts.ids(path, None).tolist() == sorted(IDS)
    in_order = [TEXTS[row] for row in np.argsort(IDS)]
    assert texts.read_slice(path, 1, 3) == in_order[1:]
    assert list(texts.stream(path, None)) == [in_order]


def test_the_order_of_the_rows_does_not_change_the_bytes(tmp_path):
    for name, rows in (("a", frame("corpus")), ("b", frame("corpus").reverse())):
        texts.write(rows, texts.CORPUS_SCHEMA, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("name", "read", "named"),
    [
        ("eval", texts.read_corpus, ("(source: None", "`dvc repro -f prepare`")),
        ("corpus", texts.read_labelled, ("(source", "split", "`dvc repro -f prepare`")),
        ("corpus", texts.read_augmented, ("(parent_id: None", "`dvc repro -f augment@corpus`")),
    ],
)
def test_a_set_of_another_kind_names_file_and_stage(tmp_path, name, read, named):
    texts.write(frame(name), SETS[name][0], tmp_path / f"{name}.parquet")
    with refuses(tmp_path / f"{name}.parquet", *named):
        read(tmp_path / f"{name}.parquet")


def test_a_missing_augmented_set_names_its_method(tmp_path):
    with refuses(tmp_path / "wordnet.parquet", "`dvc repro augment@wordnet`"):
        texts.read_augmented(tmp_path / "wordnet.parquet")


def test_two_texts_of_one_id_are_not_written(tmp_path):
    with refuses(tmp_path / "x.parquet", f"text_id {IDS[2]}", "`dvc repro -f prepare`"):
        texts.write(
            pl.concat([frame("eval"), frame("eval")[2:]]), texts.LABELLED_SCHEMA, tmp_path / "x.parquet"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("ids", "fault"),
    [([1, 4, 4], "text_id 4"), ([4, 1, 9], "sorted by text_id")],
)
def test_a_spoilt_file_is_an_error_of_the_users(tmp_path, ids, fault):
    path = tmp_path / "eval.parquet"
    pl.DataFrame({**ROWS, "text_id": ids}, schema=texts.LABELLED_SCHEMA).write_parquet(path)
    with refuses(path, fault, "`dvc repro -f prepare`"):
        texts.read_labelled(path)


def swap(column):
    """Two rows of a set have each other's value of a column; the ids stay."""
    return lambda table: table.with_columns(pl.col(column).gather([1, 0, 2]))


READS = {
    "whole": lambda path: texts.read_labelled(path),
    "a slice": lambda path: texts.read_slice(path, 0, 2),
    "a stream": lambda path: list(texts.stream(path, None)),
    "some at a time": lambda path: list(texts.labelled(path, {})),
    "augmented": lambda path: texts.read_augmented(path),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("column", ["text", "role"])
def test_a_set_whose_rows_were_mixed_up_names_its_stage(tmp_path, read, column):
    name = "wordnet" if read == "augmented" else "eval"
    (tmp_path / "augmented").mkdir()
    path = tmp_path / ("augmented" if read == "augmented" else ".") / f"{name}.parquet"
    swap(column)(frame(name).sort("text_id")).write_parquet(path)
    stage = "augment@wordnet" if read == "augmented" else "prepare"
    with refuses(path, "2 texts have the text_id of another text", f"`dvc repro -f {stage}`"):
        READS[read](path)


@pytest.mark.parametrize("read", ["whole", "a stream", "some at a time"])
def test_a_text_that_is_not_utf8_is_told(tmp_path, read):
    rows = (
        frame("eval")
        .sort("text_id")
        .to_arrow()
        .cast(pa.schema([("text_id", pa.uint64()), ("text", pa.large_string()), ("role", pa.large_string())]))
    )
    bad = pa.array([b"c\xff", *(text.encode() for text in rows["text"].to_pylist()[1:])], pa.large_binary())
    path = tmp_path / "eval.parquet"
    pq.write_table(rows.set_column(1, "text", bad.view(pa.large_string())), path)
    with refuses(path, "`dvc repro -f prepare`"):
        READS[read](path)


def test_rows_some_at_a_time_are_those_of_the_whole_file_behind_their_prompts(tmp_path, monkeypatch):
    path = tmp_path / "eval.parquet"
    texts.write(frame("eval"), texts.LABELLED_SCHEMA, path)
    monkeypatch.setattr(texts, "ROWS_AT_A_TIME", 2)
    found = [*texts.labelled(path, {"query": "find: "})]
    assert [len(part) for part in found] == [2, 1]
    assert pl.concat(found).equals(texts.with_prompts(texts.read_labelled(path), {"query": "find: "}))
    texts.write(frame("corpus"), texts.CORPUS_SCHEMA, tmp_path / "corpus.parquet")
    with refuses("corpus.parquet has another schema (source is surplus"):
        texts.labelled(tmp_path / "corpus.parquet", {})


def test_mixed_up_rows_are_not_written(tmp_path):
    with refuses(tmp_path / "x.parquet", "text_id of another text"):
        texts.write(swap("text")(frame("eval")), texts.LABELLED_SCHEMA, tmp_path / "x.parquet")
    assert not list(tmp_path.iterdir())


def test_what_was_read_of_a_text_set_does_not_stay_in_memory(tmp_path, monkeypatch):
    path = tmp_path / "eval.parquet"
    words = [f"{texts.text_id(str(number)):x}" for number in range(960_000)]
    many = [" ".join(words[start : start + 16]) for start in range(0, len(words), 16)]
    rows = pl.DataFrame({"text_id": texts.text_ids(many), "text": many})
    texts.write(rows, texts.LABELLED_SCHEMA, path)
    monkeypatch.setattr(texts, "ROWS_AT_A_TIME", 8192)
    held = [pa.total_allocated_bytes() for _ in texts.parts(path, texts.LABELLED_SCHEMA)]
    assert len(held) > 6
    assert max(held) - pa.total_allocated_bytes() < path.stat().st_size
