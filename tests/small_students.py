"""Students of the hashing teacher: real, and trained in a moment."""

from pathlib import Path
from typing import Any

from pipeline.artifacts import teacher_parts
from pipeline.core.params.students import StaticStudent, TransformerStudent
from pipeline.core.params.teacher import HashingTeacher
from pipeline.teachers.hashing import Hashing

TEACHER_DIM = 32
TRAIN = {"epochs": 1, "batch_size": 4, "lr": 0.01}
TEXTS = [
    "a cat sat on the mat",
    "dogs bark",
    "the cat and the dog slept on the mat all day",
    "rain falls",
    "it rained for forty days and forty nights",
    "x",
    "the sun rose over a quiet sea",
    "a quiet sea",
]


def teacher() -> Hashing:
    return Hashing(HashingTeacher(kind="hashing", dim=TEACHER_DIM))


def write_parts(folder: Path) -> Path:
    """The hashing teacher's parts, as the stage teacher_parts writes them."""
    teacher_parts.write_vocabulary(teacher().save_parts(folder), folder)
    return folder


def static_block(*, dim: int = 8, init: dict | None = None, train: dict | None = None) -> StaticStudent:
    return StaticStudent.model_validate(_block("static", dim, init or {}, train or {}))


def transformer_block(
    *, dim: int = 8, layers: tuple[int, ...] = (0, 1), init: dict | None = None
) -> TransformerStudent:
    block = _block("transformer", dim, {"layers": layers, **(init or {})}, {})
    return TransformerStudent.model_validate(block)


def _block(kind: str, dim: int, init: dict[str, Any], train: dict[str, Any]) -> dict[str, Any]:
    loss = {"kind": "mse"}
    block = {"kind": kind, "view": "sentence", "dim": dim, "loss": loss, "finetune": None}
    return {**block, "init": init, "train": {**TRAIN, **train}}
