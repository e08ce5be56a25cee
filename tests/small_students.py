"""Students of the hashing teacher: real, and trained in a moment."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.data import teacher_parts
from pipeline.data.models import teacher_facts
from pipeline.params.students import BilstmStudent, CompactStudent, StaticStudent, TransformerStudent
from pipeline.params.teacher import HashingTeacher
from pipeline.teacher.kinds import hashing
from pipeline.teacher.kinds.hashing import Hashing, letter_tokenizer
from pipeline.teacher.shared.local.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from pipeline.train.students.shared.base.interface import Student

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
    teacher_parts.write_vocabulary(vectors_of(teacher().save_parts(folder)), folder)
    return folder


def write_facts(path: Path) -> Path:
    """What the stage look writes of the hashing teacher."""
    teacher_facts.write(hashing.look(teacher().params), path)
    return path


def vectors_of(vocabulary: Vocabulary) -> np.ndarray:
    """The vectors (V, d) of all tokens."""
    return vocabulary.encode(np.arange(vocabulary.size))


def write_encoder(
    encoder: "PreTrainedModel", folder: Path, tokenizer: "PreTrainedTokenizerBase | None" = None
) -> Path:
    """The parts of a teacher with this encoder, spelling letters if no tokenizer is given."""
    encoder.save_pretrained(folder)
    (tokenizer or letter_tokenizer()).save_pretrained(folder)
    size = (encoder.config.vocab_size, encoder.config.hidden_size)
    teacher_parts.write_vocabulary(np.zeros(size, np.float32), folder)
    return folder


def targets(dim: int = 8) -> np.ndarray:
    """The teacher's vectors of TEXTS, cut to (8, dim)."""
    return teacher().encode(TEXTS, ["sentence"])["sentence"][:, :dim]


def own_vectors(student: "Student", texts: list[str]) -> np.ndarray:
    """What the student in training makes of texts, (n, dim)."""
    return student.encode(student.tokenise(texts)).vectors.detach().numpy()


def static_block(*, dim: int = 8, init: dict | None = None, train: dict | None = None) -> StaticStudent:
    return StaticStudent.model_validate(_block("static", dim, init or {}, train or {}))


def transformer_block(
    *, dim: int = 8, layers: tuple[int, ...] = (0, 1), init: dict | None = None
) -> TransformerStudent:
    block = _block("transformer", dim, {"layers": layers, **(init or {})}, {})
    return TransformerStudent.model_validate(block)


def compact_block(*, dim: int = 8, init: dict | None = None, train: dict | None = None) -> CompactStudent:
    start = {"table_dim": 16, "layers": (1,), "projection": "ridge", **(init or {})}
    return CompactStudent.model_validate(_block("compact", dim, start, train or {}))


def bilstm_block(*, dim: int = 8, init: dict | None = None, train: dict | None = None) -> BilstmStudent:
    return BilstmStudent.model_validate(_block("bilstm", dim, {"units": 6, **(init or {})}, train or {}))


def _block(kind: str, dim: int, init: dict[str, Any], train: dict[str, Any]) -> dict[str, Any]:
    loss = {"kind": "mse"}
    block = {"kind": kind, "view": "sentence", "dim": dim, "loss": loss, "finetune": None}
    if kind != "static":
        init = {"max_length": 128, **init}
    return {**block, "init": init, "train": {**TRAIN, **train}}
