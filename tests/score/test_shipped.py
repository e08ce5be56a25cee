"""Students as the evaluation encodes with them."""

import errno
import json
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_params import small_params
from small_students import TEXTS, bilstm_block, compact_block, static_block, transformer_block

from pipeline.core import kept_rows, resumable
from pipeline.core.errors import UserError
from pipeline.core.registry import implementation
from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.encoders import packed_model
from pipeline.params.load import Params
from pipeline.params.runtime import Runtime
from pipeline.score.evaluation.searches.shipped import embeddings, kept

BLOCKS = {
    "static": static_block(),
    "transformer": transformer_block(),
    "compact": compact_block(),
    "bilstm": bilstm_block(),
}
WANTED = [*TEXTS, "", "tab\tand  spaces", "ÜBER 漢字", "long " * 300]


def encoded(folder, sentences, precision="float32", roles=None, device="auto"):
    """Vectors in the order of the sentences."""
    roles = roles or ["text"] * len(sentences)
    ids = texts.in_role(texts.text_ids(sentences), roles)
    order, place = np.argsort(ids), Path(tempfile.mkdtemp(dir=folder.parent))
    table = pl.DataFrame({"text_id": ids, "text": sentences, "role": roles})
    texts.write(table, texts.LABELLED_SCHEMA, place / "texts.parquet")
    told = (place / "texts.parquet", precision, Runtime(device=device), place / "vectors.bin")
    found = embeddings(folder, "distill@x", *told)
    assert found.ids.tolist() == ids[order].tolist()
    return found.of(ids)


@pytest.mark.parametrize("kind", ["static", "transformer"])
def test_a_student_with_prompts_encodes_by_role_as_sentence_transformers_does(parts, tmp_path, kind):
    folder = tmp_path / kind
    learner = implementation("train.students.kinds", kind).build(BLOCKS[kind], parts)
    student_folder.write(learner, "a card", folder, {"text": "a ", "query": "ask: ", "document": "say: "})
    model = SentenceTransformer(str(folder), device="cpu")
    ways = {"text": model.encode, "query": model.encode_query, "document": model.encode_document}
    for role, encode in ways.items():
        found = encoded(folder, WANTED, roles=[role] * len(WANTED))
        np.testing.assert_allclose(found, encode(WANTED), atol=2e-6, err_msg=role)
    mixed = encoded(folder, WANTED[:2], roles=["query", "document"])
    expected = model.encode_query(WANTED[0]), model.encode_document(WANTED[1])
    np.testing.assert_allclose(mixed, np.stack(expected), atol=2e-6)


@pytest.mark.parametrize("kind", BLOCKS)
def test_the_vectors_are_those_of_sentence_transformers(parts, tmp_path, kind, monkeypatch):
    folder, packed = tmp_path / kind, []
    learner = implementation("train.students.kinds", kind).build(BLOCKS[kind], parts)
    student_folder.write(learner, "a card", folder)
    monkeypatch.setattr(packed_model, "TEXTS_AT_A_TIME", 5)
    encode = packed_model.PackedModel.encode
    monkeypatch.setattr(
        packed_model.PackedModel, "encode", lambda *args: packed.append(kind) or encode(*args)
    )
    found = encoded(folder, WANTED)
    assert bool(packed) == (kind in ("transformer", "compact"))
    expected = SentenceTransformer(str(folder), device="cpu").encode(WANTED)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_where_no_student_is(tmp_path):
    with refuses(tmp_path, "modules.json", "`dvc repro distill@x`"):
        encoded(tmp_path, WANTED)


@pytest.mark.parametrize("kind", BLOCKS)
def test_it_encodes_on_the_device_of_the_runtime(parts, tmp_path, kind):
    learner = implementation("train.students.kinds", kind).build(BLOCKS[kind], parts)
    student_folder.write(learner, "a card", tmp_path / kind)
    with refuses("runtime.device", "'cuda:99'", "set it to auto or cpu"):
        encoded(tmp_path / kind, WANTED, device="cuda:99")
    np.testing.assert_allclose(
        encoded(tmp_path / kind, WANTED, device="cpu"), encoded(tmp_path / kind, WANTED), atol=0.02
    )


@pytest.mark.parametrize("kind", BLOCKS)
def test_bfloat16_is_of_transformers_and_near_by(parts, tmp_path, kind):
    folder = tmp_path / kind
    learner = implementation("train.students.kinds", kind).build(BLOCKS[kind], parts)
    student_folder.write(learner, "a card", folder)
    exact, near = (encoded(folder, WANTED, one) for one in ("float32", "bfloat16"))
    most = 0.02 * np.abs(exact).max() if kind in ("transformer", "compact") else 1e-12
    assert 0 <= np.abs(near - exact).max() < most
    assert (near == exact).all() == (kind in ("static", "bilstm"))


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_kill_between_two_blocks_changes_no_byte(parts, tmp_path, kind, monkeypatch):
    learner = implementation("train.students.kinds", kind).build(BLOCKS[kind], parts)
    student_folder.write(learner, "a card", tmp_path / kind)
    ids = np.sort(texts.text_ids(WANTED))
    by_id = dict(zip(texts.text_ids(WANTED).tolist(), WANTED, strict=True))
    table = pl.DataFrame({"text_id": ids, "text": [by_id[one] for one in ids.tolist()]})
    texts.write(table, texts.LABELLED_SCHEMA, tmp_path / "texts.parquet")
    runtime = Runtime(tokens_per_batch=4, checkpoint_seconds=1)
    told = (tmp_path / kind, "distill@x", tmp_path / "texts.parquet", "float32", runtime)
    expected = embeddings(*told, tmp_path / "whole.bin")

    seconds, add, blocks = count(0, 2), kept_rows._Whole.add, []

    def killed(self, rows):
        blocks.append(len(rows))
        if len(blocks) == 3:
            raise KeyboardInterrupt
        add(self, rows)

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(kept_rows.time, "monotonic", lambda: next(seconds))
        patched.setattr(kept_rows._Whole, "add", killed)
        embeddings(*told, tmp_path / "killed.bin")
    assert len(blocks) == 3
    assert json.loads((tmp_path / "killed.json").read_text())["rows"] == sum(blocks[:2])
    found = embeddings(*told, tmp_path / "killed.bin")
    assert (tmp_path / "killed.bin").read_bytes() == (tmp_path / "whole.bin").read_bytes()
    np.testing.assert_array_equal(found.vectors, expected.vectors)


def asked(ids=(1, 2), **changes):
    """The folder that a killed stage leaves, by what is asked."""
    told = (small_params_of(**changes), "evaluate-tiny", np.array(ids, np.uint64))
    with suppress(KeyboardInterrupt), kept(*told).folder() as folder:
        (folder / "x.bin").write_bytes(b"x")
        kill()
    return folder


def kill():
    raise KeyboardInterrupt


def small_params_of(**runtime):
    return Params.model_validate(small_params(runtime={"cache": "cache", "device": "cpu", **runtime}))


def test_a_folder_is_of_the_texts_and_of_how_they_are_encoded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = asked()
    assert asked(checkpoint_seconds=7, memory=1.0) == first
    for other in ({"ids": (1, 3)}, {"tokens_per_batch": 100}):
        assert asked(**other) != first
        assert not first.exists()  # what this checkout left of the same stage before
        first = asked(**other)


def test_a_mistake_leaves_no_vectors_and_the_end_none_either(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = np.array([1, 2], np.uint64)
    for error in (UserError("a fault"), None):
        with suppress(UserError), kept(small_params_of(), "evaluate-tiny", ids).folder() as folder:
            (folder / "x.bin").write_bytes(b"x")
            if error:
                raise error
        assert list(Path("cache/training").iterdir()) == []


def test_without_locks_each_run_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(resumable.fcntl, "flock", no_locks)
    ids = np.array([1, 2], np.uint64)
    with kept(small_params_of(), "evaluate-tiny", ids).folder() as one:
        with kept(small_params_of(), "evaluate-tiny", ids).folder() as other:
            assert one != other
            (one / "x.bin").write_bytes(b"x")
        assert (one / "x.bin").exists()
    assert not one.exists()
