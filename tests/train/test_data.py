from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses
from small_corpus import (
    DEV,
    SYNONYMS,
    TRAIN,
    as_bytes,
    components,
    opened,
    read_back,
    teacher_vectors,
    write_augmented,
    write_corpus,
    write_pca,
    write_texts,
    write_vectors,
)
from small_students import TEACHER_DIM, compact_block

from pipeline.params.students import CompactStudent
from pipeline.train.loop.data import Examples, materialise, open_corpus, teacher_sample
from pipeline.vectors import collapse
from pipeline.vectors.space import pca

LEARNED = {"kind": "infonce", "projection": "learned"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_corpus(tmp_path)


def read(folder: Path, **changes: object) -> tuple[Examples, Examples]:
    """The training and the dev examples."""
    corpus = opened(folder, **changes)
    into = folder / repr(sorted(changes.items()))
    return (
        materialise(corpus.train, corpus, as_bytes, into / "train"),
        materialise([corpus.dev], corpus, as_bytes, into / "dev"),
    )


def with_vectors(folder: Path, **changes: object) -> list[tuple[np.ndarray, np.ndarray]]:
    """Targets and the teacher's vectors (float64) of the training examples, and of the dev examples."""
    return [
        (examples.targets, teacher_vectors(read_back(examples.tokens)).astype(np.float64))
        for examples in read(folder, **changes)
    ]


def test_training_texts_are_the_chosen_sets_and_dev_texts_are_never_among_them(folder):
    for sets, expected in (
        (("corpus", "wordnet"), TRAIN + SYNONYMS),
        (("corpus",), TRAIN),
        (("wordnet",), SYNONYMS),
    ):
        train, dev = read(folder, texts=sets)
        assert sorted(read_back(train.tokens)) == sorted(expected)
        assert sorted(read_back(dev.tokens)) == sorted(DEV)
        assert (len(train), len(dev)) == (len(expected), len(DEV))


def test_below_the_teachers_dimension_targets_are_principal_components(folder):
    mean, rotation = components()
    for targets, vectors in with_vectors(folder):
        assert targets.dtype == np.float32
        np.testing.assert_allclose(targets, ((vectors - mean) @ rotation.T)[:, :8], atol=1e-5)


def test_at_the_teachers_dimension_targets_are_its_vectors(folder):
    for targets, vectors in with_vectors(folder, dim=TEACHER_DIM):
        np.testing.assert_array_equal(targets, vectors)


@pytest.mark.parametrize("dim", [8, TEACHER_DIM, TEACHER_DIM + 5])
def test_full_targets_are_the_teachers_vectors_at_any_dimension(folder, dim):
    full = {"dim": dim, "target": "full", "init": {"projection": "none"}, "loss": LEARNED}
    assert opened(folder, **full).target_dim == TEACHER_DIM
    for targets, vectors in with_vectors(folder, **full):
        np.testing.assert_array_equal(targets, vectors)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"loss": LEARNED}, ("students.tiny: init.projection", " 32 ", "set it to none")),
        ({"init": {"projection": "none"}}, ("students.tiny: loss", " 8, ", " mse ", "use infonce")),
        (
            {"init": {"projection": "none"}, "loss": {"kind": "kl"}},
            ("students.tiny: loss", " 8, ", " kl ", "use infonce"),
        ),
    ],
)
def test_full_targets_need_a_map_between_dimensions(folder, changes, named):
    with refuses("train.target full", *named):
        opened(folder, target="full", **changes)


def test_a_compact_student_with_full_targets_starts_from_a_random_map(folder):
    train = {"target": "full", "texts": ("corpus", "wordnet")}
    block = CompactStudent.model_validate({**compact_block(train=train).model_dump(), "loss": LEARNED})
    with refuses("students.tiny: init.projection", "set it to random"):
        open_corpus("tiny", block, folder / "corpus.parquet", folder, folder, folder)


@pytest.mark.parametrize("dim", [8, TEACHER_DIM])
def test_of_several_lengths_targets_are_principal_components_at_any_dimension(folder, dim):
    mean, rotation = components()
    assert opened(folder, dim=dim, matryoshka=(2, 4)).target_dim == dim
    for targets, vectors in with_vectors(folder, dim=dim, matryoshka=(2, 4)):
        np.testing.assert_allclose(targets, ((vectors - mean) @ rotation.T)[:, :dim], atol=1e-5)


@pytest.mark.parametrize("dim", [8, TEACHER_DIM])
def test_whitened_targets_have_one_scale_at_any_dimension(folder, dim):
    mean, rotation = components()
    variances = np.linspace(4, 0.25, TEACHER_DIM)
    write_pca(folder, variances)
    for targets, vectors in with_vectors(folder, dim=dim, whiten=True):
        expected = ((vectors - mean) @ rotation.T / np.sqrt(variances))[:, :dim]
        np.testing.assert_allclose(targets, expected, atol=1e-5)


@pytest.mark.parametrize("train", [{}, {"target": "full", "init": {"projection": "none"}, "loss": LEARNED}])
def test_centred_targets_have_no_mean(folder, train):
    mean, _ = components()
    for targets, vectors in with_vectors(folder, dim=TEACHER_DIM, centre=True, **train):
        np.testing.assert_allclose(targets, vectors - mean, atol=1e-6)


def test_without_a_mean_nothing_is_centred(folder):
    uncentred = replace(pca.read(folder, "sentence"), mean=np.zeros(TEACHER_DIM))
    pca.write(uncentred, folder / "sentence.safetensors")
    with refuses("students.tiny.train.centre", "set pca.centre: true"):
        opened(folder, dim=TEACHER_DIM, centre=True)


def test_what_has_no_variance_is_not_whitened(folder):
    write_pca(folder, np.repeat([1.0, 1e-12, 0.0], [8, 12, TEACHER_DIM - 20]))
    assert read(folder, dim=8, whiten=True)[0].targets.shape[1] == 8
    with refuses("students.tiny.dim", " 9,", "choose 8"):
        opened(folder, dim=9, whiten=True)


def test_a_student_has_no_more_dimensions_than_few_texts_vary_in(folder):
    write_pca(folder, np.repeat([1.0, 0.0], [8, TEACHER_DIM - 8]))
    assert read(folder, dim=8)[0].targets.shape[1] == 8
    assert read(folder, dim=TEACHER_DIM)[0].targets.shape[1] == TEACHER_DIM
    with refuses("students.tiny.dim", " 9,", "choose 8 or less, or add"):
        opened(folder, dim=9)


def test_above_the_teachers_dimension(folder):
    with refuses("students.tiny: dim", " 33,", f"choose {TEACHER_DIM}", "train.target: full"):
        opened(folder, dim=TEACHER_DIM + 1)


def test_sets_of_two_teachers(folder):
    write_vectors(folder / "wordnet", SYNONYMS, recipe="two")
    with refuses(folder / "corpus", folder / "wordnet", "`dvc repro encode`"):
        opened(folder)
    opened(folder, texts=("corpus",))


def test_dev_vectors_are_of_the_training_vectors_teacher(folder):
    write_vectors(folder / "corpus", TRAIN + DEV, recipe="two")
    with refuses(folder / "corpus", folder / "wordnet", "`dvc repro encode`"):
        opened(folder, texts=("wordnet",))


@pytest.mark.parametrize(("select", "least"), [("loss", 2), ("agreement", 3)])
def test_too_few_dev_texts(folder, select, least):
    for number in range(least):
        write_texts(folder, TRAIN, DEV[:number])
        texts = f" {number} dev texts, {least} "
        with refuses(texts, f" {select} ", "students.tiny.train.select", "raise corpus.dev_fraction"):
            opened(folder, select=select)
    write_texts(folder, TRAIN, DEV[:least])
    opened(folder, select=select)


@pytest.mark.parametrize("missing", [min, max])
@pytest.mark.parametrize("cuts", [(), (2,), (5, 5, 21)])
def test_a_text_without_a_vector(folder, missing, cuts):
    gone = missing(TRAIN)
    write_vectors(folder / "corpus", [text for text in TRAIN + DEV if text != gone], "one", cuts)
    corpus = opened(folder)
    with refuses(folder / "corpus", "1 texts", "`dvc repro -f encode@corpus`"):
        materialise(corpus.train, corpus, as_bytes, folder / "inputs")
    assert not (folder / "inputs").exists()


@pytest.mark.parametrize("number", [0, 1])
def test_too_few_training_texts(folder, number):
    made = [f"text {i}" for i in range(number)]
    write_augmented(folder, made)
    write_vectors(folder / "wordnet", made, recipe="one")
    with refuses("students.tiny.train.texts", f"wordnet has {number} ", "`augment:`"):
        opened(folder, texts=("wordnet",))
    assert sorted(read_back(read(folder)[0].tokens)) == sorted(TRAIN + made)


@pytest.mark.parametrize("missing", ["corpus.parquet", "wordnet.parquet", "corpus/sentence/manifest.json"])
def test_a_missing_artifact_is_told_before_anything_is_read(folder, missing):
    (folder / missing).unlink()
    with refuses(folder / missing, "`dvc repro "):
        opened(folder)


def test_the_sample_of_the_teacher_is_not_reduced(folder):
    sample = teacher_sample("sentence", folder)
    known = {vector.tobytes() for vector in teacher_vectors(TRAIN + DEV)}
    assert {vector.tobytes() for vector in sample} == known


def test_the_sample_of_the_teacher_is_as_large_however_small_its_shards_are(folder, monkeypatch):
    write_vectors(folder / "corpus", TRAIN + DEV, recipe="one", cuts=range(0, len(TRAIN + DEV)))
    assert len(teacher_sample("sentence", folder)) == len(TRAIN + DEV)
    monkeypatch.setattr(collapse, "SAMPLE_ROWS", 7)
    assert len(teacher_sample("sentence", folder)) == 7
