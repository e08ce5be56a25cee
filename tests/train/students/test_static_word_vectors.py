"""A table of word vectors from a file: GloVe's or word2vec's, as a baseline or a start."""

import numpy as np
import pytest
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import static_block, teacher

from pipeline.params.student_faults import student_faults
from pipeline.params.students import StaticStudent
from pipeline.teacher.kinds import hashing
from pipeline.train.students.kinds import static
from pipeline.train.students.shared.resolve import resolved
from pipeline.train.students.shared.verdict import verdict

VECTORS = {
    "the": [0.1, 0.2, -0.1, 0.4],
    "cat": [1.0, 0.5, 0.0, -1.0],
    "sat": [0.3, -0.7, 0.9, 0.2],
    "quietly": [-0.4, 0.6, 0.8, 0.1],
    "slept": [0.5, 0.5, -0.5, 0.3],
    "dog": [0.9, 0.4, 0.1, -0.8],
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("\n".join(f"{word} {' '.join(map(str, vector))}" for word, vector in VECTORS.items()))
    return path


def block(file, **changes):
    init = {"path": str(file), "projection": "none", "sif": None, **changes.pop("init", {})}
    base = static_block(dim=4, init=init).model_dump(mode="json")
    return StaticStudent.model_validate({**base, "train": None, "loss": None, **changes})


def test_a_text_is_the_mean_of_its_words_vectors(file, tmp_path):
    static.build(block(file), tmp_path / "none").save(tmp_path / "out")
    found = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(
        ["The cat sat, quietly.", "a dog"]
    )
    means = [
        np.mean([VECTORS[word] for word in words], 0) for words in (["the", "cat", "sat", "quietly"], ["dog"])
    ]
    expected = [mean / np.linalg.norm(mean) for mean in means]
    assert found == pytest.approx(np.stack(expected), abs=1e-3)  # model2vec's float16 at most


def test_fewer_dimensions_are_principal_components(file, tmp_path):
    learner = static.build(block(file, dim=2), tmp_path / "none")
    tokens = learner.tokenise(["the cat sat quietly"])
    assert learner.encode(tokens).vectors.shape == (1, 2)


def test_auto_is_the_files_dimension(file):
    facts = hashing.look(teacher().params)
    assert resolved(block(file, dim="auto"), facts).dim == 4


TRAIN = {"epochs": 1, "batch_size": 4, "lr": 0.01}
TRAINED = {"train": {**TRAIN, "regularise": None}, "loss": {"kind": "mse"}}
ROTATED = {"train": TRAIN, "loss": {"kind": "mse"}}
RIDGE = {"init": {"projection": "ridge"}}


def facts(width: int):
    return hashing.look(teacher().params).model_copy(update={"dims": {"sentence": width}})


@pytest.fixture
def long_file(tmp_path):
    """One word of nine numbers: a table of five rows."""
    path = tmp_path / "long.txt"
    path.write_text(f"the {' '.join(map(str, range(9)))}")
    return path


@pytest.mark.parametrize(
    ("changes", "width", "dim"),
    [
        ({}, 3, 4),  # nothing of the teacher bounds a plain table
        (RIDGE, 3, 3),
        (RIDGE, 32, 4),
        (TRAINED, 3, 3),
        (TRAINED, 32, 4),
        (ROTATED, 32, 4),
    ],
)
def test_auto_is_a_dimension_that_can_be_built(file, tmp_path, changes, width, dim):
    check_auto(block(file, **{"dim": "auto", **changes}), width, dim, tmp_path)


@pytest.mark.parametrize(
    ("changes", "width", "dim"),
    [({}, 7, 9), (TRAINED, 32, 9), (TRAINED, 7, 4), (RIDGE, 7, 4), (ROTATED, 32, 4)],
)
def test_auto_is_no_more_than_the_pca_of_a_few_words_gives(long_file, tmp_path, changes, width, dim):
    check_auto(block(long_file, **{"dim": "auto", **changes}), width, dim, tmp_path)


def check_auto(student, width, dim, tmp_path):
    found = verdict("tiny", student, facts(width)).block
    assert found.width == dim
    assert static.build(found, tmp_path / "none").module["table"].weight.shape[1] == dim


@pytest.mark.parametrize("init", [{}, {"max_words": 2}])
def test_look_refuses_more_dimensions_than_the_file_has(file, tmp_path, init):
    check_refused(block(file, dim=5, init=init), 4, tmp_path)


@pytest.mark.parametrize("changes", [{"dim": 5}, {"dim": 9, **ROTATED}])
def test_look_refuses_a_pca_of_too_few_words(long_file, tmp_path, changes):
    check_refused(block(long_file, **changes), 4, tmp_path)


def check_refused(student, most, tmp_path):
    told = ("dim is ", f" {student.dim},", f" {most} or less", "auto")
    with refuses(*told):
        static.build(student, tmp_path)
    with refuses("students.tiny: ", *told):
        verdict("tiny", student, facts(32))


def test_it_has_no_more_words_than_asked_for(file, tmp_path):
    learner = static.build(block(file, init={"max_words": 2}), tmp_path / "none")
    known = learner.encode(learner.tokenise(["sat quietly"])).vectors
    assert not known.any()  # unknown words are left out
    assert static.weigh(block(file, init={"max_words": 2}), hashing.look(teacher().params)) == 6 * 4


def test_a_file_that_is_not_there(tmp_path):
    with refuses("init.path", "nowhere.txt"):
        static.build(block(tmp_path / "nowhere.txt"), tmp_path)


@pytest.mark.parametrize(
    ("init", "told"),
    [
        ({"words": 10}, "students.tiny.init.words"),
        ({"tokens": 100}, "students.tiny.init.tokens"),
        ({"min_count": 5}, "students.tiny.init.min_count"),
        ({"min_count": 21}, "students.tiny.init.min_count"),
        ({"path": None, "max_words": 10}, "students.tiny.init.max_words"),
    ],
)
def test_keys_of_the_other_start_are_refused(file, init, told):
    (fault,) = student_faults("tiny", block(file, init=init))
    assert told in fault
    assert "init.path" in fault
