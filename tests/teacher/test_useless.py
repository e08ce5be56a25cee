"""Vectors that tell nothing of their texts are refused, whatever teacher gives them, and are not kept."""

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from embeddings_server import change
from encode_runs import encode, stored, write_params, write_texts
from refusals import refuses

from pipeline.data.common.texts import LABELLED_SCHEMA, in_role, text_ids, write
from pipeline.teacher.encoding.engines import tried
from pipeline.teacher.encoding.store import useless as module
from pipeline.teacher.encoding.store.useless import useless
from pipeline.teacher.kinds.hashing import Hashing

TEXTS = [f"this is text number {i}" for i in range(100)]
GOOD = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float16)

SPOILED = {
    "zero": 0.0,
    "negative zero": -0.0,
    "constant": 0.25,
    "too small for float16": 1e-9,
}


def spoiled(rows, value):
    vectors = GOOD.astype(np.float32)
    vectors[rows] = value
    return vectors.astype(np.float16)


@pytest.mark.parametrize("value", SPOILED.values(), ids=SPOILED)
def test_zeros_and_constants_are_found(value):
    assert not useless(TEXTS, GOOD).any()
    assert np.flatnonzero(useless(TEXTS, spoiled([3, 70], value))).tolist() == [3, 70]


@pytest.mark.parametrize("empty", ["", " \n", "?!", "\ue000", "🙂"])
def test_a_text_without_a_word_may_have_any_vector(empty):
    assert not useless([empty] * 100, spoiled(range(100), 0)).any()


def test_a_single_dimension_is_not_constant():
    assert not useless(TEXTS[:2], np.array([[1], [-1]], np.float16)).any()


def spoil(monkeypatch, bad, value):
    """Let the hashing teacher fail for some texts, in one view."""
    good = Hashing.encode

    def encode(self, texts, views, role="text"):
        found = {view: vectors.copy() for view, vectors in good(self, texts, views, role).items()}
        found["cls"][[text in bad for text in texts]] = value
        return found

    monkeypatch.setattr(Hashing, "encode", encode)


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_the_stage_names_them_and_keeps_the_others(folder, monkeypatch, capsys, value):
    write_params(shard_rows=4096)
    write_texts(TEXTS)
    with monkeypatch.context() as patch:
        spoil(patch, TEXTS[40:42], value)
        with refuses("2 of 100 texts", "'cls'", "2.00%", repr(TEXTS[40]), repr(TEXTS[41]), "again"):
            encode()
    assert not Path("vectors").exists()
    asked = []
    monkeypatch.setattr(tried, "TRIED", 0)
    good = Hashing.encode
    monkeypatch.setattr(
        Hashing, "encode", lambda self, t, *a, **k: (asked.extend(t), good(self, t, *a, **k))[1]
    )
    assert encode()
    assert sorted(asked) == TEXTS[40:42], "of the others nothing is asked again"


def test_those_that_are_stored_are_refused_too(folder, monkeypatch):
    """As an earlier revision stored them, or a limit that was higher."""
    write_params(shard_rows=4096)
    write_texts(TEXTS)
    spoil(monkeypatch, TEXTS[:2], 0)
    with monkeypatch.context() as patch:
        patch.setattr(module, "MOST_SHARE", 0.02)
        encode()
    fingerprint = stored()[0].relative_to(".cache/vectors").parts[0]
    with refuses("2 of 100 texts", "'cls'", f"`pipeline cache prune {fingerprint}`"):
        encode()


def test_a_few_are_kept_and_told(folder, monkeypatch, capsys):
    many = [*TEXTS, *(f"more of them {i}" for i in range(1000))]
    write_params(shard_rows=4096)
    write_texts(many)
    spoil(monkeypatch, many[40:41], 0)
    encode()
    assert "1 of 1,100 texts in view 'cls', 0.09% (limit 0.1%)" in (said := capsys.readouterr().err)
    assert repr(many[40]) in said
    encode()
    assert "1 of 1,100 texts" in capsys.readouterr().err, "also where they are taken from the store"


@pytest.mark.parametrize("bad", ["query 3", "document 3"])
def test_the_limit_is_of_a_shard_in_all_roles(folder, monkeypatch, capsys, bad):
    write_params(shard_rows=4096)
    rows = [(f"document {i}", "document") for i in range(1060)] + [(f"query {i}", "query") for i in range(40)]
    ids = [in_role(text_ids([text]), [role])[0] for text, role in rows]
    table = pl.DataFrame(
        [(int(one), *row) for one, row in zip(ids, rows, strict=True)], schema=LABELLED_SCHEMA, orient="row"
    )
    write(table, LABELLED_SCHEMA, Path("corpus.parquet"))
    spoil(monkeypatch, [bad], 0)
    encode()
    assert "1 of 1,100 texts in view 'cls'" in capsys.readouterr().err
    spoil(monkeypatch, ["query 1", "query 2"], 0)
    monkeypatch.setattr(tried, "TRIED", 0)
    shutil.rmtree(".cache")
    with refuses("of 1,100 texts", "'cls'"):
        encode()


def test_an_api_that_gives_zeros_is_asked_again(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_texts(TEXTS)
    teacher = {"kind": "openai_api", "url": server.url, "model": "tiny", "parts": "none", "dimensions": 8}
    write_params(shard_rows=4096, teacher=teacher)
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("  - cls\n", ""))

    def zero(answer):
        answer["data"][0]["embedding"] = [0.0] * 8
        answer["data"][1]["embedding"] = [0.0] * 8

    server.faults.append(change(zero))
    with refuses("2 of 100 texts", "'sentence'", "zero"):
        encode()
    server.bodies = []
    assert encode()
    assert len(server.texts) == 2
