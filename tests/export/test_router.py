"""A student's queries among its teacher's documents: the Router against the student and the teacher alone."""

from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, own_vectors, static_block, targets, transformer_block
from small_teachers import write_teacher
from transformers import AutoModel, AutoTokenizer

from pipeline.data.student import student_folder
from pipeline.export import router
from pipeline.params.students import Student, TransformerStudent
from pipeline.params.teacher import HashingTeacher, Teacher, TransformerTeacher
from pipeline.train.students.kinds import static, transformer
from pipeline.vectors.space.geometry import normalised
from pipeline.vectors.space.pca import Pca

WIDTH = 16
MORE = [*TEXTS, "", "very long " * 60, "Übermut tut selten gut"]
PROMPTS = {"text": "", "query": "ask: ", "document": "tell: "}


def block(kind: str, dim: int, **train: object) -> Student:
    if kind == "static":
        return static_block(dim=dim, train={"regularise": None, **train})
    stated = transformer_block(dim=dim, init={"max_length": 12}).model_dump()
    return TransformerStudent.model_validate({**stated, "train": {**stated["train"], **train}})


def fitted(vectors: np.ndarray) -> Pca:
    """All principal components of vectors (n, d), of which there may be fewer than d."""
    generator = np.random.default_rng(0)
    spread = vectors.astype(np.float64) + generator.normal(scale=0.1, size=(9, *vectors.shape))
    rows = spread.reshape(-1, vectors.shape[1])
    mean = rows.mean(0)
    _, found, components = np.linalg.svd(rows - mean, full_matrices=False)
    return Pca(mean, components, found**2 / len(rows))


def saved(student: Student, parts: Path, folder: Path, **said: object) -> Path:
    """A student of the hashing teacher's layers, which is not trained."""
    built = (transformer if student.kind == "transformer" else static).build(student, parts)
    built.fit_projection(built.tokenise(TEXTS), targets(student.width))
    assert np.ptp(own_vectors(built, TEXTS)) > 0
    student_folder.write(built, "", folder, **said)
    return folder


def written(
    teacher: Teacher, student: Student, pca: Pca, finetuned: Path, folder: Path
) -> SentenceTransformer:
    """The Router as any user loads it."""
    router.write(finetuned, student, teacher, pca, "sentence", folder)
    return SentenceTransformer(str(folder), device="cpu")


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("kind", "unit"), [("transformer", True), ("transformer", False), ("static", True)])
@pytest.mark.parametrize(
    ("dim", "train"),
    [(WIDTH, {}), (WIDTH, {"centre": True}), (8, {}), (8, {"whiten": True, "shrinkage": 0.1})],
)
def test_queries_are_the_students_and_documents_the_teachers_reduced_to_its_targets(
    tmp_path, parts, kind, dim, train, unit
):
    folder = write_teacher("prompts", tmp_path)
    alone = SentenceTransformer(str(folder), device="cpu")
    documents = alone.encode(MORE, prompt="passage: ").astype(np.float64)
    pca, student = fitted(documents), block(kind, dim, **train)
    finetuned = saved(student, parts, tmp_path / "student", prompts=PROMPTS, unit=unit)
    teacher = TransformerTeacher(kind="transformer", model=str(folder))
    model = written(teacher, student, pca, finetuned, tmp_path / "router")

    queries = SentenceTransformer(str(finetuned), device="cpu").encode(MORE, prompt="ask: ")
    assert_close(model.encode_query(MORE), queries)
    expected = documents
    if dim < WIDTH or train.get("centre"):
        expected = documents - pca.mean
    if dim < WIDTH:
        expected = expected @ pca.components[:dim].T
    if train.get("whiten"):
        variances = 0.9 * pca.explained_variance + 0.1 * pca.explained_variance.mean()
        expected = expected / np.sqrt(variances[:dim])
    assert_close(model.encode_document(MORE), normalised(expected) if unit else expected)


def test_a_plain_model_takes_pooling_prompt_and_length_from_params(tmp_path, parts, bert):
    student = block("transformer", WIDTH)
    finetuned = saved(student, parts, tmp_path / "student", similarity="dot", unit=False)
    teacher = TransformerTeacher(
        kind="transformer", model=str(bert), pooling="cls", prompts={"document": "tell: "}, max_length=20
    )
    pca = Pca(np.zeros(WIDTH), np.eye(WIDTH), np.ones(WIDTH))
    model = written(teacher, student, pca, finetuned, tmp_path / "router")
    tokenizer, encoder = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert).eval()
    for text, vector in zip(MORE, model.encode_document(MORE), strict=True):
        tokens = tokenizer(f"tell: {text}", truncation=True, max_length=20, return_tensors="pt")
        with torch.no_grad():
            assert_close(vector, encoder(**tokens).last_hidden_state[0, 0].numpy())
    assert_close(model.encode_query(MORE), SentenceTransformer(str(finetuned), device="cpu").encode(MORE))
    assert model.similarity_fn_name == "dot"


@pytest.mark.parametrize(
    ("teacher", "student", "view", "named"),
    [
        (HashingTeacher(kind="hashing"), block("transformer", 8), "sentence", ("teacher.kind hashing",)),
        (None, block("transformer", 8), "cls", ("encode.views", "cls", "sentence")),
        (
            None,
            block("transformer", 8).model_copy(update={"view": "token_mean"}),
            "token_mean",
            ("encode.views", "token_mean", "sentence"),
        ),
    ],
    ids=["no weights", "another view", "no pipeline's view"],
)
def test_a_teacher_without_weights_or_of_another_view_is_refused(
    tmp_path, bert, teacher, student, view, named
):
    teacher = teacher or TransformerTeacher(kind="transformer", model=str(bert), pooling="mean")
    pca = Pca(np.zeros(WIDTH), np.eye(WIDTH), np.ones(WIDTH))
    with refuses("export.formats", "leave router out", *named):
        router.write(tmp_path / "student", student, teacher, pca, view, tmp_path / "router")
    assert not (tmp_path / "router").exists()
