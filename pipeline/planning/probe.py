"""What this machine takes for the work that most of a run's time goes into, measured within some seconds.

The real teacher encodes real texts, and each student takes real training steps, on targets that are made up.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.core.machine import find_device
from pipeline.core.registry import implementation
from pipeline.data import teacher_parts
from pipeline.params.load import Params
from pipeline.params.teacher import OpenAiApiTeacher, SingleTeacher, single_teachers, starting_teacher
from pipeline.planning.clock import STEPS, clocked
from pipeline.planning.sizes import tokens_of
from pipeline.planning.student_probe import PARTS, VOCABULARY, StudentSpeed, measure
from pipeline.teacher.shared.members import told_of

if TYPE_CHECKING:
    from pipeline.params.students import Student
    from pipeline.teacher import interface
    from pipeline.teacher.shared.local.vocabulary import Vocabulary

SECONDS = 16.0
"""All that is measured is over by then, but for a step that is under way: within 20 seconds."""
OF_TEACHER = 4.0
OF_VOCABULARY = 1.5
IMPORTS = "import pipeline.train.distillation.distill"
SPREAD = 0.1
FLOAT = 4
CHUNK = 256
"""Texts that the teacher encodes at a time."""
TOKENS_ALONE = 512
LEAST = 2.0
"""What a student is given at least, or is left out."""
BUSY = 0.6
"""Processes a thread that want a CPU: of more, the times of threads that wait for each other tell nothing."""
THREADS = 0.65
"""Exponent by which more threads are faster: 2 are 1.57 times as fast as one on two cores of an AMD EPYC."""


@dataclass(frozen=True)
class Probe:
    """What was measured, in seconds."""

    start: float
    """Until a stage that computes has imported what it needs."""
    load: float
    """Until the teacher is loaded."""
    encode: dict[str, float]
    """A token of a text, by the key of the teacher; an API is not asked."""
    vocabulary: float
    """A token of the vocabulary, encoded alone."""
    students: dict[str, StudentSpeed]
    parameters: int
    """Numbers of the teacher that students start from."""
    weights: int
    """Their bytes, in its precision."""
    device: str
    seconds: float
    """That the probe itself took."""
    left_out: tuple[str, ...] = field(default=())
    """Students that there was no time for."""
    recipes: dict[str, dict[str, dict[str, object]]] = field(default_factory=dict)
    """Teacher's key -> role -> recipe, by which the store is asked what it has."""
    dims: dict[str, int] = field(default_factory=dict)
    """Of the views of the only teacher; none of several."""
    busy: bool = False
    """Whether other work took the processor, so that one thread alone was measured."""


NOTHING = Probe(0.0, 0.0, {}, 0.0, {}, 0, 0, "", 0.0)
"""Where nothing had to be measured."""


@dataclass
class _Taught:
    """What was measured of the teachers."""

    encode: dict[str, float] = field(default_factory=dict)
    recipes: dict[str, dict[str, dict[str, object]]] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)
    load: float = 0.0
    alone: float = 0.0
    parameters: int = 0
    weights: int = 0


def probe(params: Params, students: "dict[str, Student]", sample: Sequence[str]) -> Probe:
    """Measure the teacher and the students.

    Args:
        params: params.yaml's.
        students: their blocks, without `auto`.
        sample: real texts, whose lengths are those of the corpus.

    Raises:
        UserError: the teacher cannot be loaded.
    """
    import torch

    began, start = time.perf_counter(), started()
    device, threads = find_device(params.runtime.device), torch.get_num_threads()
    busy = device == "cpu" and threads > 1 and os.getloadavg()[0] > threads * BUSY
    torch.set_num_threads(1 if busy else threads)
    learned: dict[str, StudentSpeed] = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            taught = _teachers(params, students, sample, Path(folder))
            for number, (name, student) in enumerate(students.items()):
                left = SECONDS - (time.perf_counter() - began)
                if left < LEAST:
                    break
                target = dims_of(taught.dims, student, params)
                most = left / (len(students) - number)
                learned[name] = measure(student, Path(folder), sample, target, params, most)
    finally:
        torch.set_num_threads(threads)
    faster = threads**THREADS if busy else 1.0
    return Probe(
        start,
        taught.load,
        {key: one / faster for key, one in taught.encode.items()},
        taught.alone / faster,
        {n: StudentSpeed(one.build, one.train / faster, one.forward / faster) for n, one in learned.items()},
        taught.parameters,
        taught.weights,
        device,
        time.perf_counter() - began,
        tuple(name for name in students if name not in learned),
        taught.recipes,
        taught.dims,
        busy,
    )


def dims_of(dims: dict[str, int], student: "Student", params: Params) -> int:
    """The dimension of a student's targets; its own where the teacher's is not known."""
    full = student.train is not None and student.train.target == "full"
    return dims.get(student.view, student.width) if full else student.width


def started() -> float:
    """CPU seconds of a process that imports what a training does: this one has done more than that."""
    before = os.times()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _teachers(params: Params, students: "dict[str, Student]", sample: Sequence[str], folder: Path) -> _Taught:
    """Measure every teacher, and leave in `folder` what students start from."""
    found = _Taught()
    single = single_teachers(params.teacher)
    key_of_parts, _ = starting_teacher(params.teacher)
    reads = any(one.reads_vocabulary for one in students.values()) or params.augment.wordnet.reads_vocabulary
    for key, block in single.items():
        seconds, teacher = clocked(partial(_load, key, block, params))
        found.load += seconds
        found.recipes[key] = teacher.recipes
        if not isinstance(block, OpenAiApiTeacher):  # whose dimensions are known by a request that costs
            found.dims = dict(teacher.dims) if len(single) == 1 else {}
            views = [view for view in params.encode.views if view in teacher.dims]
            found.encode[key] = _encoding(teacher, views, sample, OF_TEACHER / len(single))
        if key == key_of_parts:
            (folder / PARTS).mkdir()
            vocabulary = teacher.save_parts(folder / PARTS)
            found.weights = sum(path.stat().st_size for path in (folder / PARTS).glob("*.safetensors"))
            numbers = next(teacher.module.parameters(), None) if teacher.module else None
            found.parameters = found.weights // (FLOAT if numbers is None else numbers.element_size())
            if reads:
                found.alone = _alone(vocabulary.encode, vocabulary.size)
                _make_up(vocabulary, folder)
        del teacher
    return found


def _make_up(vocabulary: "Vocabulary", folder: Path) -> None:
    """Vectors of a vocabulary's size, of which a student is as large and as fast as of its own."""
    dim = vocabulary.encode(np.arange(1)).shape[1]
    made_up = np.random.default_rng(0).normal(0.0, SPREAD, (vocabulary.size, dim))
    teacher_parts.write_reader(made_up.astype(np.float32), folder / PARTS, folder / VOCABULARY)


def _load(key: str, block: SingleTeacher, params: Params) -> "interface.Teacher":
    """The teacher before any fine-tuning, which changes no speed."""
    with told_of(key):
        made: interface.Teacher = implementation("teacher.kinds", block.kind).load(block, params.runtime)
    return made


def _encoding(
    teacher: "interface.Teacher", views: Sequence[str], sample: Sequence[str], most: float
) -> float:
    """Seconds a token, the fastest of some chunks of texts."""
    teacher.encode(list(sample[:16]), views)
    best, began = float("inf"), time.perf_counter()
    for first in range(0, len(sample), CHUNK):
        chunk = list(sample[first : first + CHUNK])
        if len(chunk) < CHUNK and first:
            break
        seconds, _ = clocked(partial(teacher.encode, chunk, views))
        best = min(best, seconds / tokens_of(chunk))
        if time.perf_counter() - began > most:
            break
    return best


def _alone(encode: Callable[[np.ndarray], np.ndarray], size: int) -> float:
    """Seconds a token of the vocabulary."""
    count = min(size, TOKENS_ALONE)
    rounds: list[float] = []
    began = time.perf_counter()
    encode(np.arange(min(size, 8)))
    while time.perf_counter() - began < OF_VOCABULARY and len(rounds) < STEPS:
        rounds.append(clocked(partial(encode, np.arange(count)))[0] / count)
    return min(rounds)
