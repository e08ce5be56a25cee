import numpy as np
import pytest
from refusals import refuses
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from pipeline.data.student import student_folder
from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.vectors.space.geometry import normalised

TABLE = np.random.default_rng(0).normal(size=(len(letter_tokenizer()), 4)).astype(np.float32)


class Table:
    """A student that is a table of token vectors."""

    def save(self, folder):
        module = StaticEmbedding(letter_tokenizer().backend_tokenizer, embedding_weights=TABLE)
        SentenceTransformer(modules=[module], device="cpu").save(str(folder))


class Failing:
    """A student that fails in the middle of saving itself."""

    def __init__(self, error):
        self.error = error

    def save(self, folder):
        (folder / "modules.json").write_text("half")
        raise self.error


@pytest.fixture
def folder(tmp_path):
    student_folder.write(Table(), "# Card\nü\n", tmp_path / "distilled" / "tiny")
    return tmp_path / "distilled" / "tiny"


def test_a_student_loads_as_any_sentence_transformers_model(folder):
    vocabulary = letter_tokenizer().get_vocab()
    expected = [(TABLE[vocabulary["c"]] + TABLE[vocabulary["##a"]]) / 2, TABLE[vocabulary["b"]]]
    model = student_folder.read(folder, "distill@tiny")
    expected = normalised(np.array(expected))
    np.testing.assert_allclose(model.encode(["ca", "b"]), expected, atol=1e-6)
    assert model.device.type == "cpu"


def test_our_card_replaces_the_librarys(folder):
    assert (folder / "README.md").read_text(encoding="utf-8") == "# Card\nü\n"


def test_no_weights_are_pickled(folder):
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert ".safetensors" in suffixes
    assert not suffixes & {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}


@pytest.mark.parametrize("error", [OSError(28, "told"), SafetensorError("I/O error: told (os error 28)")])
def test_a_failed_write_leaves_the_old_student_and_nothing_else(folder, error):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with refuses(folder, "No space left on device"):
        student_folder.write(Failing(error), "", folder)
    assert {path: path.read_bytes() for path in folder.parent.rglob("*") if path.is_file()} == before


def test_a_new_student_replaces_the_whole_folder(folder):
    (folder / "left_over.txt").write_text("old")
    student_folder.write(Table(), "new", folder)
    assert not (folder / "left_over.txt").exists()
    assert (folder / "README.md").read_text() == "new"


@pytest.mark.parametrize("call", [student_folder.check, student_folder.read])
def test_no_student_names_folder_and_stage(tmp_path, call):
    with refuses(tmp_path / "tiny", "modules.json", "`dvc repro distill@tiny`"):
        call(tmp_path / "tiny", "distill@tiny")
