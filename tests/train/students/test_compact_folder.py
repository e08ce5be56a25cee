import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from small_encoders import small_encoder
from small_students import TEXTS, compact_block, own_vectors, targets, write_encoder
from transformers import AutoModel, AutoTokenizer, ElectraModel

from pipeline.train.students.kinds import compact
from pipeline.train.students.shared.encoder import EncoderStudent

BLOCK = compact_block(init={"max_length": 12})
EDGES = ["", "x", "漢字 cat", "abcdefghijklmnop", "  "]


@pytest.fixture(scope="module")
def student(parts) -> EncoderStudent:
    built = compact.build(BLOCK, parts)
    built.fit_projection(built.tokenise(TEXTS), targets())
    return built


@pytest.fixture(scope="module")
def folder(student, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("saved") / "student"
    student.save(out)
    return out


@pytest.mark.parametrize("batch", [1, 3, 32])
def test_plain_sentence_transformers_gives_the_students_vectors(student, folder, batch):
    texts = [*TEXTS, *EDGES]
    found = SentenceTransformer(str(folder), device="cpu").encode(texts, batch_size=batch)
    np.testing.assert_allclose(found, own_vectors(student, texts), atol=1e-5)


def test_plain_transformers_loads_model_and_tokenizer(student, folder):
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert type(model) is ElectraModel
    assert (model.config.embedding_size, model.config.hidden_size, model.config.num_hidden_layers) == (
        16,
        32,
        1,
    )
    for text in TEXTS:
        ids = tokenizer(text, truncation=True, max_length=12)["input_ids"]
        assert ids == student.tokenise([text]).ids.tolist()


def test_the_saved_model_cuts_texts_too(folder):
    plain = SentenceTransformer(str(folder), device="cpu")
    assert plain.max_seq_length == 12
    cut, same = plain.encode(["abcdefghijklmnop", "abcdefghijzzzz"])
    np.testing.assert_array_equal(cut, same)


def test_a_loaded_student_is_the_saved_one_and_goes_on(student, folder, tmp_path):
    loaded = compact.load(BLOCK, folder)
    np.testing.assert_array_equal(own_vectors(loaded, TEXTS), own_vectors(student, TEXTS))
    loaded.save(tmp_path / "again")
    for file in folder.rglob("*.safetensors"):
        assert (tmp_path / "again" / file.relative_to(folder)).read_bytes() == file.read_bytes(), file
    loaded.encode(loaded.tokenise(TEXTS)).vectors.sum().backward()
    assert all(parameter.requires_grad for parameter in loaded.module.parameters())


def test_a_teacher_with_an_offset_of_positions_gives_a_folder_that_agrees(tmp_path):
    teacher = write_encoder(small_encoder("xlm-r"), tmp_path / "teacher")
    student = compact.build(compact_block(init={"table_dim": 8, "max_length": 64}), teacher)
    student.save(tmp_path / "student")
    texts = [*TEXTS, *EDGES]
    plain = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    np.testing.assert_allclose(plain.encode(texts), own_vectors(student, texts), atol=1e-5)


def test_the_folder_needs_no_code_of_ours_and_no_pickle(folder, parts):
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".json", ".safetensors"}
    modules = json.loads((folder / "modules.json").read_text())
    assert all(module["type"].startswith("sentence_transformers.") for module in modules)
    for file in folder.rglob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert not any(path in text for path in ("/tmp", str(folder.parent), str(parts))), file
