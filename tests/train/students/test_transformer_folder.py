import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, bilstm_block, compact_block, own_vectors, transformer_block

from pipeline.core.registry import implementation
from pipeline.train.students.kinds import transformer
from pipeline.train.students.shared.encoder import EncoderStudent

BLOCK = transformer_block(layers=(1,), init={"activation": "tanh", "max_length": 12})


@pytest.fixture(scope="module")
def student(parts) -> EncoderStudent:
    return transformer.build(BLOCK, parts)


@pytest.fixture(scope="module")
def folder(student, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("saved") / "student"
    student.tokenise(TEXTS)
    student.save(out)
    return out


@pytest.fixture(scope="module")
def plain(folder) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


def test_plain_sentence_transformers_gives_the_students_vectors(student, plain):
    texts = [*TEXTS, "", "漢字 cat"]
    np.testing.assert_allclose(plain.encode(texts), own_vectors(student, texts), atol=1e-5)


def test_the_activation_is_saved(plain):
    assert isinstance(plain[2].activation_function, torch.nn.Tanh)


def test_no_activation_is_saved_as_none(parts, tmp_path):
    transformer.build(transformer_block(), parts).save(tmp_path / "linear")
    assert isinstance(SentenceTransformer(str(tmp_path / "linear"))[2].activation_function, torch.nn.Identity)


def test_the_saved_model_cuts_texts_too(plain):
    assert plain.max_seq_length == 12
    cut, same = plain.encode(["abcdefghijklmnop", "abcdefghijzzzz"])
    np.testing.assert_array_equal(cut, same)


@pytest.mark.parametrize("kind", ["transformer", "compact", "bilstm"])
def test_a_shorter_max_length_of_the_teachers_tokenizer_is_not_carried_on(parts, tmp_path, kind):
    """all-MiniLM-L6-v2 has one of 128 beside the 256 that it reads; fastembed cuts at the smaller."""
    teacher = Path(shutil.copytree(parts, tmp_path / "teacher"))
    for file in teacher.rglob("tokenizer_config.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"max_length": 5}))
    block = {"transformer": BLOCK, "compact": compact_block(), "bilstm": bilstm_block()}[kind]
    student = implementation("train.students.kinds", kind).build(block, teacher)
    student.tokenise(TEXTS)
    student.save(tmp_path / "saved")
    (file,) = (tmp_path / "saved").rglob("tokenizer_config.json")
    assert "max_length" not in json.loads(file.read_text())


def test_a_loaded_student_is_the_saved_one(student, folder, tmp_path):
    loaded = transformer.load(BLOCK, folder)
    np.testing.assert_array_equal(own_vectors(loaded, TEXTS), own_vectors(student, TEXTS))
    loaded.save(tmp_path / "again")
    for file in folder.rglob("*.safetensors"):
        assert (tmp_path / "again" / file.relative_to(folder)).read_bytes() == file.read_bytes(), file


def test_only_the_kept_layer_is_in_the_folder(folder):
    layers = {
        name.split("layer.")[1].split(".")[0]
        for name in load_file(folder / "model.safetensors")
        if "layer." in name
    }
    assert layers == {"0"}
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 1


def test_the_folder_holds_safetensors_and_no_pickle_and_no_path(folder, parts):
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".json", ".safetensors"}
    for file in folder.rglob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert not any(path in text for path in ("/tmp", str(folder.parent), str(parts))), file
