import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, bilstm_block, own_vectors, targets

from pipeline.params.students import BilstmStudent
from pipeline.train.students.kinds import bilstm

EDGES = ["", "  ", "x", "漢字", "cat 漢字 dog", "abcdefghijklmnopqrstuvwxyz " * 4]
POOLINGS = ["max", "mean", "last"]


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> Path:
    """A GloVe file of some of the texts' words."""
    path = tmp_path_factory.mktemp("glove") / "glove.txt"
    random = np.random.default_rng(0)
    known = sorted({word for text in TEXTS[:6] for word in text.split()})
    lines = [" ".join([word, *map(str, random.standard_normal(5).round(3))]) for word in known]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=["teacher", "file"])
def init(request, words) -> dict:
    start = {"embeddings": request.param, "max_length": 20}
    return {**start, "path": str(words)} if request.param == "file" else start


@pytest.fixture(scope="module", params=POOLINGS)
def block(request, init) -> BilstmStudent:
    return bilstm_block(init={**init, "pooling": request.param})


@pytest.fixture(scope="module")
def student(block, parts) -> bilstm.Bilstm:
    built = bilstm.build(block, parts)
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
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, own_vectors(student, texts), atol=1e-5)


def test_a_loaded_student_is_the_saved_one_and_goes_on(student, block, folder, tmp_path):
    loaded = bilstm.load(block, folder)
    texts = [*TEXTS, *EDGES]
    np.testing.assert_array_equal(own_vectors(loaded, texts), own_vectors(student, texts))
    loaded.save(tmp_path / "again")
    for file in folder.rglob("*.safetensors"):
        assert (tmp_path / "again" / file.relative_to(folder)).read_bytes() == file.read_bytes(), file
    loaded.encode(loaded.tokenise(TEXTS)).vectors.square().sum().backward()
    trained = [parameter for parameter in loaded.module.parameters() if parameter.requires_grad]
    assert len(trained) == 10
    assert all(parameter.grad.any() for parameter in trained)


def test_the_folder_needs_no_code_of_ours_and_no_pickle(folder, words, parts):
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".json", ".safetensors"}
    configs = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.suffix == ".json"]
    modules = next(config for config in configs if isinstance(config, list))
    classes = [module["type"] for module in modules]
    classes += [config["tokenizer_class"] for config in configs if "update_embeddings" in config]
    assert len(classes) in (5, 6)
    assert all(name.startswith("sentence_transformers.") for name in classes)
    for file in folder.rglob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert not any(path in text for path in ("/tmp", str(folder.parent), str(parts), str(words))), file
