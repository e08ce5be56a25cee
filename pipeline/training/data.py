"""What a student is trained on: texts of the chosen sets with their targets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.artifacts import pca, texts, vectors
from pipeline.core import fingerprint
from pipeline.core.errors import UserError
from pipeline.core.params.students import StudentBlock

MIN_DEV_TEXTS = 2

Reduction = Callable[[NDArray[np.floating]], NDArray[np.float32]]
"""Teacher vectors (n, d) to targets (n, dim)."""


@dataclass(frozen=True)
class Examples:
    """Texts and, row by row, their targets (n, dim)."""

    texts: list[str]
    targets: NDArray[np.float32]

    @property
    def fingerprint(self) -> str:
        """Identity of the texts and targets, in their order."""
        return fingerprint.of_bytes("\0".join(self.texts).encode() + self.targets.tobytes())


def read_examples(
    name: str, student: StudentBlock, corpus: Path, augmented: Path, vectors_folder: Path, pca_folder: Path
) -> tuple[Examples, Examples]:
    """Training and dev examples of a student; dev texts come from the seed set alone.

    Raises:
        UserError: an artifact is missing or does not fit, or the student has more dimensions than its target.
    """
    reduce = _reduction(name, student, pca_folder)
    sets = {name: vectors.open_set(vectors_folder / name) for name in ("seed", *student.train.texts)}
    vectors.same_recipe(*sets.values())
    train: list[Examples] = []
    for text_set in student.train.texts:
        vector_set = sets[text_set]
        if text_set == "seed":
            table = texts.read_seed(corpus).filter(pl.col("split") == "train")
        else:
            table = texts.read_augmented(augmented / f"{text_set}.parquet")
        train.append(_examples(table, vector_set, student.view, reduce))
    dev_table = texts.read_seed(corpus).filter(pl.col("split") == "dev")
    if len(dev_table) < MIN_DEV_TEXTS:
        raise UserError(
            f"{corpus} has {len(dev_table)} dev texts, {MIN_DEV_TEXTS} or more are needed to select weights; "
            "raise corpus.dev_fraction or add corpus.sources"
        )
    dev = _examples(dev_table, sets["seed"], student.view, reduce)
    joined = _joined(train)
    if not joined.texts:
        raise UserError(
            f"students.{name}.train.texts: {', '.join(student.train.texts)} holds no training text; "
            "add seed, or enable augment.wordnet"
        )
    return joined, dev


def teacher_sample(view: str, vectors_folder: Path) -> vectors.Half:
    """The teacher's first vectors (n, d) of the seed texts, as they are: what a PCA hides shows here."""
    return next(vectors.open_set(vectors_folder / "seed").batches(view))[1]


def _reduction(name: str, student: StudentBlock, pca_folder: Path) -> Reduction:
    """Vectors as they are for a student of the teacher's dimension, else their first principal components.

    Whitened, they are principal components at any dimension.
    """
    fitted = pca.read(pca_folder, student.view)
    if student.dim > fitted.dim:
        raise UserError(
            f"students.{name}.dim is {student.dim}, above the {fitted.dim} dimensions of the teacher's "
            f"{student.view!r} view; choose {fitted.dim} or less"
        )
    if student.train.whiten:
        if student.dim > fitted.rank:
            raise UserError(
                f"students.{name}.dim is {student.dim}, but the teacher's {student.view!r} vectors vary in "
                f"{fitted.rank} directions; choose {fitted.rank} or less, or train.whiten: false"
            )
        return lambda found: fitted.reduce(found, student.dim, whiten=True)
    if student.dim == fitted.dim:
        return lambda found: found.astype(np.float32)
    return lambda found: fitted.reduce(found, student.dim)


def _examples(table: pl.DataFrame, vector_set: vectors.VectorSet, view: str, reduce: Reduction) -> Examples:
    ids, found = vector_set.read(view)
    rows = vectors.rows_of(ids, table["text_id"].to_numpy(), vector_set.path)
    return Examples(table["text"].to_list(), reduce(found[rows]))


def _joined(parts: Sequence[Examples]) -> Examples:
    return Examples(
        [text for part in parts for text in part.texts], np.concatenate([part.targets for part in parts])
    )
