"""Students of every kind of teacher: the verdict is what `build` does, and what is saved is the student."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from refusals import refuses
from small_params import small_params
from small_students import TEXTS, own_vectors, vectors_of
from small_teachers import TEACHERS, write_teacher

from pipeline.core.errors import UserError
from pipeline.core.registry import implementation
from pipeline.data import teacher_parts
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.look.look import look, verdicts
from pipeline.params.load import Params, check
from pipeline.params.runtime import Runtime
from pipeline.teacher.kinds import transformer
from pipeline.train.students.shared.base.interface import Student
from pipeline.train.students.shared.base.target import check_target
from pipeline.train.students.shared.resolve import resolved
from pipeline.train.students.shared.verdict import Possible, Refused

KINDS = {
    "transformer": {"layers": "auto"},
    "compact": {"table_dim": 0.5, "layers": {"last": 2}},
    "bilstm": {"units": 6},
    "static": {},
}
LOADED = """
import json, sys
import numpy as np
from sentence_transformers import SentenceTransformer
places, texts = json.load(open("asked.json"))
np.savez("loaded.npz", *(SentenceTransformer(place, device="cpu").encode(texts) for place in places))
"""
STRANGE = [*TEXTS, "", "naïve 日本 🙂 Ünïcödé", "a " * 100]


class Judged(NamedTuple):
    """What becomes of a teacher and its students."""

    facts: TeacherFacts
    teacher: transformer.Transformer
    vocabulary: np.ndarray
    verdicts: dict[str, Possible | Refused]
    params: Params
    built: dict[str, Student | UserError]


def params_of(model: Path) -> Params:
    tiny = small_params()["students"]["tiny"]
    students = {kind: {**tiny, "kind": kind, "dim": "auto", "init": init} for kind, init in KINDS.items()}
    teacher = {"kind": "transformer", "model": str(model)}
    return check(small_params(teacher=teacher, students=students), Path("params.yaml"))


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> dict[str, Judged]:
    found = {}
    for name in TEACHERS:
        folder = tmp_path_factory.mktemp("teacher")
        params = params_of(write_teacher(name, folder))
        facts = look(params)
        teacher = transformer.load(params.teacher, Runtime(device="cpu"))
        (folder / "parts").mkdir()
        vocabulary = vectors_of(teacher.save_parts(folder / "parts"))
        teacher_parts.write_vocabulary(vocabulary, folder / "parts")
        built = {kind: build(params, facts, kind, folder / "parts") for kind in KINDS}
        found[name] = Judged(facts, teacher, vocabulary, verdicts(params, facts), params, built)
    return found


def build(params: Params, facts: TeacherFacts, kind: str, parts: Path) -> Student | UserError:
    """The student, its output layer fitted and its weights moved, or why there is none."""
    try:
        block = resolved(params.students[kind], facts)
        check_target(block, facts.dims["sentence"])  # as the corpus is opened
        student: Student = implementation("train.students.kinds", kind).build(block, parts)
    except UserError as error:
        return error
    targets = np.random.default_rng(0).standard_normal((len(TEXTS), block.width), dtype=np.float32)
    student.fit_projection(student.tokenise(TEXTS), targets)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in student.module.parameters():
            parameter += 0.1 * parameter.std(correction=0) * torch.randn(parameter.shape)
    return student


@pytest.mark.parametrize("name", TEACHERS)
def test_the_facts_are_those_of_the_loaded_teacher(judged, name):
    facts, teacher, vocabulary, *_ = judged[name]
    assert facts.dims == teacher.dims
    assert (facts.tokens, facts.token_dim) == vocabulary.shape
    assert facts.ends == len(teacher.module.tokenizer("")["input_ids"])
    assert facts.window == teacher.max_length


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TEACHERS)
def test_the_verdict_is_what_build_does(judged, name, kind):
    one = judged[name]
    verdict, built = one.verdicts[kind], one.built[kind]
    if isinstance(verdict, Refused):
        reason, _, fix = str(verdict).partition("; ")
        assert isinstance(built, UserError)
        assert str(verdict) == f"students.{kind}: {built}"
        assert reason
        assert fix
        return
    assert not isinstance(built, UserError), built
    assert own_vectors(built, TEXTS).shape[1] == verdict.block.width
    numbers = sum(parameter.numel() for parameter in built.module.parameters())
    if kind == "static":  # saved with its weights multiplied in
        numbers -= len(one.vocabulary)
    assert verdict.parameters == numbers


def test_the_matrix_has_students_and_refusals_of_all_kinds_but_the_static_one(judged):
    """So that the comparisons above compare something."""
    counts = {kind: [isinstance(one.verdicts[kind], Possible) for one in judged.values()] for kind in KINDS}
    assert all(sum(found) >= 6 for found in counts.values())
    assert all(counts["static"])
    assert sum(map(len, counts.values())) - sum(map(sum, counts.values())) >= 4


@pytest.fixture(scope="module")
def loaded(judged, tmp_path_factory) -> dict[tuple[str, str], np.ndarray]:
    """All students as a fresh process reads them."""
    root = tmp_path_factory.mktemp("saved")
    pairs = [
        (name, kind)
        for name, one in judged.items()
        for kind, student in one.built.items()
        if not isinstance(student, UserError)
    ]
    for row, (name, kind) in enumerate(pairs):
        judged[name].built[kind].save(root / str(row))
    places = [str(root / str(row)) for row in range(len(pairs))]
    (root / "asked.json").write_text(json.dumps([places, STRANGE]))
    subprocess.run([sys.executable, "-c", LOADED], cwd=root, check=True, timeout=300)
    with np.load(root / "loaded.npz") as arrays:
        return {pair: arrays[f"arr_{row}"] for row, pair in enumerate(pairs)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TEACHERS)
def test_the_saved_student_is_the_trained_one(judged, loaded, name, kind):
    student = judged[name].built[kind]
    if isinstance(student, UserError):
        assert (name, kind) not in loaded
        return
    found, own = loaded[name, kind], own_vectors(student, STRANGE)
    if kind == "static":  # saved with `normalize`
        own = own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(found, own, atol=1e-5 * max(1, np.abs(own).max()))


def test_pickled_weights_alone_are_at_fault_for_everyone(tmp_path):
    model = write_teacher("bert", tmp_path)
    weights = next(model.glob("*.safetensors"))
    encoder = torch.nn.Linear(2, 2)
    torch.save(encoder.state_dict(), model / "pytorch_model.bin")
    weights.unlink()
    params = params_of(model)
    with refuses("teacher.model", ".safetensors"):
        look(params)
    with refuses("teacher.model", ".safetensors"):
        transformer.load(params.teacher, Runtime(device="cpu"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"max_length": 91}, ("teacher.max_length", " 91;", " 90 ")),
        ({"pooling": "mean"}, ("teacher.pooling", "'mean'")),
    ],
)
def test_what_is_at_fault_for_everyone_is_what_the_teacher_says_when_it_is_loaded(tmp_path, changes, named):
    params = params_of(write_teacher("bert", tmp_path))
    teacher = params.teacher.model_copy(update=changes)
    with refuses(*named):
        look(params.model_copy(update={"teacher": teacher}))
    with refuses(*named):
        transformer.load(teacher, Runtime(device="cpu"))
