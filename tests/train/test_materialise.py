from pathlib import Path

import mapped_pages
import numpy as np
import pytest
from flipped import flip
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from small_corpus import (
    DEV,
    SYNONYMS,
    TRAIN,
    as_bytes,
    components,
    counted,
    opened,
    read_back,
    teacher_vectors,
    write_corpus,
    write_vectors,
)
from small_disk import disk_of
from small_students import TEACHER_DIM

from pipeline.core import seal
from pipeline.core.errors import UserError
from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.train.loop import data
from pipeline.train.loop.data import Examples, materialise
from pipeline.vectors.sets import shards

IN_ORDER = [*sorted(TRAIN, key=text_id), *sorted(SYNONYMS, key=text_id)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_corpus(tmp_path)


def made(folder: Path, into: str = "inputs", dim: int = TEACHER_DIM) -> Examples:
    corpus = opened(folder, dim=dim)
    return materialise(corpus.train, corpus, as_bytes, folder / into)


@given(
    cuts=st.lists(st.integers(0, len(TRAIN + DEV)), max_size=6).map(sorted),
    group=st.sampled_from([1, 3, 2048]),
    at_a_time=st.sampled_from([1, 4, 65_536]),
)
@settings(max_examples=25)
def test_tokens_and_targets_do_not_depend_on_how_the_files_are_cut(tmp_path_factory, cuts, group, at_a_time):
    folder = write_corpus(tmp_path_factory.mktemp("corpus"))
    mean, rotation = components()
    of = teacher_vectors(IN_ORDER).astype(np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "ROW_GROUP_ROWS", group)
        patch.setattr(texts, "ROWS_AT_A_TIME", at_a_time)
        write_vectors(folder / "corpus", TRAIN + DEV, "one", cuts)
        as_they_are, reduced = made(folder), made(folder, "reduced", dim=8)
    for examples in (as_they_are, reduced):
        assert read_back(examples.tokens) == IN_ORDER
        assert (examples.tokens.ids.dtype, examples.tokens.offsets.dtype) == (np.int32, np.int64)
    assert np.array_equal(as_they_are.targets, of)
    np.testing.assert_allclose(reduced.targets, ((of - mean) @ rotation.T)[:, :8], atol=1e-5)


def test_rows_are_selected_as_from_memory(folder):
    examples = made(folder)
    random = np.random.default_rng(0)
    of = teacher_vectors(IN_ORDER).astype(np.float32)
    for size in (0, 1, 7, 60):
        rows = random.integers(len(examples), size=size)
        tokens, targets = examples.select(rows)
        assert read_back(tokens) == [IN_ORDER[row] for row in rows]
        assert np.array_equal(targets, of[rows])
        assert targets.flags.writeable  # torch warns of what is not


def test_a_second_call_reads_what_the_first_has_written(folder):
    first, corpus = made(folder), opened(folder, dim=TEACHER_DIM)
    tokenise, calls = counted(as_bytes)
    for shard in (folder / "corpus/sentence").glob("*.parquet"):
        shard.unlink()
    again = materialise(corpus.train, corpus, tokenise, folder / "inputs")
    assert calls == []
    assert np.array_equal(again.tokens.ids, first.tokens.ids)
    assert np.array_equal(again.tokens.offsets, first.tokens.offsets)
    assert np.array_equal(again.targets, first.targets)


def test_texts_are_tokenised_some_at_a_time(folder, monkeypatch):
    monkeypatch.setattr(texts, "ROWS_AT_A_TIME", 6)
    corpus = opened(folder)
    tokenise, calls = counted(as_bytes)
    materialise(corpus.train, corpus, tokenise, folder / "inputs")
    assert sum(calls) == len(IN_ORDER)
    assert max(calls) <= 6


@pytest.mark.parametrize("at", ["the first texts", "the augmented texts", "the vectors"])
def test_an_interrupted_call_leaves_nothing_and_the_next_begins_anew(folder, at):
    corpus, into = opened(folder, dim=TEACHER_DIM), folder / "deep" / "inputs"

    def interrupted(part: list[str]):
        if at == "the first texts" or (at == "the augmented texts" and set(part) & set(SYNONYMS)):
            raise KeyboardInterrupt
        return as_bytes(part)

    if at == "the vectors":
        (shard := folder / "wordnet" / "sentence" / "00001.parquet").rename(folder / "away")
    with pytest.raises(UserError if at == "the vectors" else KeyboardInterrupt):
        materialise(corpus.train, corpus, interrupted, into)
    assert list(into.parent.iterdir()) == []
    if at == "the vectors":
        (folder / "away").rename(shard)
    assert read_back(materialise(corpus.train, corpus, as_bytes, into).tokens) == IN_ORDER


@pytest.mark.parametrize("most", [0, 100, 2000])
def test_a_full_disk_is_told_and_leaves_nothing(folder, most):
    corpus, into = opened(folder, dim=TEACHER_DIM), folder / "deep" / "inputs"
    with disk_of(most), refuses(into, "File too large"):
        materialise(corpus.train, corpus, as_bytes, into)
    assert list(into.parent.iterdir()) == []


@mapped_pages.told
def test_reading_leaves_no_page_of_the_files_in_memory(folder, monkeypatch):
    monkeypatch.setattr(data, "SUMMED_ROWS", 3)
    examples = made(folder, dim=8)
    files = [folder / "inputs" / name for name in ("targets.bin", "ids.bin")]
    random = np.random.default_rng(0)
    drawn = [random.integers(len(examples), size=4) for _ in range(3)]
    found = [examples.select(rows) for rows in drawn]
    mean = examples.mean_target()
    assert [mapped_pages.resident(file) for file in files] == [0, 0]
    expected = np.array(examples.targets)
    assert mapped_pages.resident(files[0]) > 0
    np.testing.assert_allclose(mean, expected.mean(axis=0, dtype=np.float64), rtol=1e-6)
    for rows, (tokens, targets) in zip(drawn, found, strict=True):
        assert np.array_equal(targets, expected[rows])
        assert read_back(tokens) == [IN_ORDER[row] for row in rows]


def test_texts_without_tokens(folder):
    corpus = opened(folder)
    nothing = np.empty(0, np.int32)
    examples = materialise(
        corpus.train,
        corpus,
        lambda part: data.Tokens(nothing, np.zeros(len(part) + 1, np.int64)),
        folder / "inputs",
    )
    tokens, targets = examples.select(np.array([3, 0]))
    assert tokens.lengths.tolist() == [0, 0]
    assert targets.shape == (2, 8)


@pytest.mark.parametrize("name", ["ids.bin", "targets.bin", "offsets.bin", "shape.json", seal.NAME])
def test_a_flipped_bit_of_what_a_killed_run_left_makes_the_inputs_again(folder, name, capsys):
    first = made(folder)
    wanted = first.select(np.arange(len(first)))
    flip(folder / "inputs" / name, 100 if name == seal.NAME else 9)
    again = made(folder)
    assert f"{folder / 'inputs' / name} is damaged" in capsys.readouterr().err
    tokens, targets = again.select(np.arange(len(again)))
    assert read_back(tokens) == read_back(wanted[0])
    assert np.array_equal(targets, wanted[1])


@pytest.mark.parametrize("removed", [["seal.json"], ["seal.json", "shape.json"], ["ids.bin"]])
def test_inputs_that_lack_files_are_made_again(folder, capsys, removed):
    """As a removal leaves them that is killed half-way."""
    before = read_back(made(folder).tokens)
    for name in removed:
        (folder / "inputs" / name).unlink()
    assert read_back(made(folder).tokens) == before
    assert f"{removed[0]}" in capsys.readouterr().err
    assert seal.fault_of_own(folder / "inputs") is None
