"""Small students of every kind, untrained, as sentence-transformers folders."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from small_corpus import DEV, TRAIN
from small_students import TEXTS, bilstm_block, compact_block, static_block, targets, transformer_block

from pipeline.data.student import student_folder
from pipeline.train.students.kinds import bilstm, compact, static, transformer

BLOCKS = {
    "transformer": transformer_block(init={"max_length": 12}),
    "compact": compact_block(init={"max_length": 12}),
    "bilstm": bilstm_block(init={"max_length": 12}),
    "static": static_block(),
}
BUILDS = {
    "transformer": lambda parts: transformer.build(BLOCKS["transformer"], parts),
    "compact": lambda parts: compact.build(BLOCKS["compact"], parts),
    "bilstm": lambda parts: bilstm.build(BLOCKS["bilstm"], parts),
    "bilstm-max": lambda parts: bilstm.build(bilstm_block(init={"pooling": "max"}), parts),
    "bilstm-last": lambda parts: bilstm.build(bilstm_block(init={"pooling": "last"}), parts),
    "static": lambda parts: static.build(BLOCKS["static"], parts),
    "static-file": lambda parts: from_a_file(parts),
}
HARD = [
    *TEXTS,
    "",
    " ",
    "   a  cat\t",
    "Übermut tut selten gut, 日本語 \U0001f600 e\u0301",
    "very long " * 60,
]
COMPARED = ["", "日本語 \U0001f600 e\u0301 Übermut", "very long " * 60, "a cat"]
"""What exports are compared on, beside TEXTS."""


def from_a_file(parts: Path) -> static.Static:
    """A table of the words of TEXTS and of the small corpus, with vectors of chance."""
    words = sorted({word for text in TEXTS + TRAIN + DEV for word in text.lower().split()})
    vectors = np.random.default_rng(0).standard_normal((len(words), 8)).round(4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.txt"
        rows = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, vectors, strict=True))
        path.write_text("".join(rows), encoding="utf-8")
        return static.build(static_block(init={"path": str(path)}), parts)


def saved(kind: str, parts: Path, folder: Path) -> Path:
    """A student of a kind, fitted to the teacher's vectors but not trained."""
    made = BUILDS[kind](parts)
    made.fit_projection(made.tokenise(TEXTS), targets())
    student_folder.write(made, "", folder)
    return folder


def trained_vectors(folder: Path, texts: list[str]) -> np.ndarray:
    with torch.no_grad():
        return SentenceTransformer(str(folder), device="cpu").encode(texts)
