"""Students as the evaluation encodes with them."""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, bilstm_block, compact_block, static_block, transformer_block

from pipeline.core.registry import implementation
from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.encoders import packed_model
from pipeline.params.runtime import Runtime
from pipeline.score.evaluation.searches.shipped import embeddings

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
