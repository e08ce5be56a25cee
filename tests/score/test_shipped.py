"""Students as the evaluation encodes with them."""

import numpy as np
import pytest
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, bilstm_block, compact_block, static_block, transformer_block

from pipeline.core.registry import implementation
from pipeline.data import student_folder
from pipeline.encoders import packed_model
from pipeline.score.evaluation.shipped import open_student

BLOCKS = {
    "static": static_block(),
    "transformer": transformer_block(),
    "compact": compact_block(),
    "bilstm": bilstm_block(),
}
WANTED = [*TEXTS, "", "tab\tand  spaces", "ÜBER 漢字", "long " * 300]


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
    found = open_student(folder, "distill@x", "float32")(WANTED)
    assert bool(packed) == (kind in ("transformer", "compact"))
    expected = SentenceTransformer(str(folder), device="cpu").encode(WANTED)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_where_no_student_is(tmp_path):
    with refuses(tmp_path, "modules.json", "`dvc repro distill@x`"):
        open_student(tmp_path, "distill@x", "auto")


@pytest.mark.parametrize("kind", BLOCKS)
def test_bfloat16_is_of_transformers_and_near_by(parts, tmp_path, kind):
    folder = tmp_path / kind
    learner = implementation("train.students.kinds", kind).build(BLOCKS[kind], parts)
    student_folder.write(learner, "a card", folder)
    exact, near = (open_student(folder, "distill@x", one)(WANTED) for one in ("float32", "bfloat16"))
    most = 0.02 * np.abs(exact).max() if kind in ("transformer", "compact") else 1e-12
    assert 0 <= np.abs(near - exact).max() < most
    assert (near == exact).all() == (kind in ("static", "bilstm"))
