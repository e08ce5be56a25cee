"""What a student is trained on: tokenised texts with their targets, in files that are read row by row."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipeline.core import json_text, seal
from pipeline.core.atomic import atomic_folder, remove_folder
from pipeline.core.errors import UserError, under
from pipeline.core.memory import in_parts
from pipeline.core.progress import say
from pipeline.data.common import texts
from pipeline.data.tokens.mapped import Rows, gather, map_file, read_ahead
from pipeline.data.tokens.tokens import Tokens
from pipeline.params.students import StudentBlock
from pipeline.train.loop.mixture import Portion
from pipeline.train.students.shared.base.target import check_target
from pipeline.vectors import collapse
from pipeline.vectors.sets import published
from pipeline.vectors.sets.shards import Half
from pipeline.vectors.space import pca
from pipeline.vectors.space.targets import Reduction, reduction

MIN_DEV_TEXTS = {"loss": 2, "agreement": 3}
"""The least that select weights; two texts are one pair, which has no rank correlation."""
MIN_TRAINING_TEXTS = 2
"""The least that have a mean cosine, which is reported."""
SUMMED_ROWS = 1 << 16

Tokenise = Callable[[list[str]], Tokens]


@dataclass(frozen=True)
class Source:
    """The texts of one set, or of a split of it, with their vectors."""

    texts: Path
    vectors: published.VectorSet
    split: str | None
    proportion: float = 1.0
    """How often an epoch reads each text."""

    def portion(self) -> Portion:
        """What an epoch reads of it."""
        return Portion(len(texts.ids(self.texts, self.split)), self.proportion)


@dataclass(frozen=True)
class Corpus:
    """What a student is trained on and selected by, before anything of it is read."""

    train: Sequence[Source]
    dev: Source
    view: str
    target_dim: int
    reduce: Reduction
    prompts: dict[str, str]
    """What the student has before the texts of each role."""


@dataclass
class Examples:
    """n tokenised texts and, row by row, their targets; both may lie on the disk."""

    tokens: Tokens
    targets: NDArray[np.float32]
    """(n, target_dim)."""

    def __len__(self) -> int:
        return len(self.targets)

    def select(self, rows: Rows) -> tuple[Tokens, NDArray[np.float32]]:
        """Tokens and targets of these rows."""
        return self.tokens.select(rows), gather(self.targets, rows, np.ones_like(rows))

    def read_ahead(self, rows: Rows) -> None:
        """Have the disk read what `select` will want of these rows."""
        self.tokens.read_ahead(rows)
        read_ahead(self.targets, rows, np.ones_like(rows))

    def mean_target(self) -> NDArray[np.float32]:
        """The mean of all targets, (target_dim,)."""
        sums = [part.sum(axis=0, dtype=np.float64) for part in in_parts(self.targets, SUMMED_ROWS)]
        return (np.sum(sums, axis=0) / len(self)).astype(np.float32)


def open_corpus(
    name: str,
    student: StudentBlock,
    corpus: Path,
    gated: Path,
    vectors_folder: Path,
    pca_folder: Path,
    *,
    key: str = "train.texts",
) -> Corpus:
    """The training and dev texts of a student; dev texts come from the corpus alone.

    `key` says where in its block its `train.texts` were named, for messages.

    Raises:
        UserError: an artifact is missing or does not fit, or the student has more dimensions than its target.
    """
    sets = {
        text_set: published.open_set(vectors_folder / text_set, student.view)
        for text_set in ("corpus", *student.training.texts)
    }
    published.same_recipe(*sets.values())
    target_dim, reduce = targets_of(name, student, pca_folder)
    train = [
        Source(corpus, sets[text_set], "train", proportion)
        if text_set == "corpus"
        else Source(gated / f"{text_set}.parquet", sets[text_set], None, proportion)
        for text_set, proportion in student.training.texts.items()
    ]
    dev = Source(corpus, sets["corpus"], "dev")
    found, select = len(texts.ids(corpus, "dev")), student.training.select
    if found < MIN_DEV_TEXTS[select]:
        raise UserError(
            f"{corpus} has {found} dev texts, {MIN_DEV_TEXTS[select]} or more are needed to select weights "
            f"by {select} (students.{name}.train.select); raise corpus.dev_fraction or add corpus.sources"
        )
    if (found := sum(source.portion().rows for source in train)) < MIN_TRAINING_TEXTS:
        raise UserError(
            f"students.{name}.{key}: {', '.join(student.training.texts)} has {found} training texts, "
            f"{MIN_TRAINING_TEXTS} or more are needed; add corpus, enable `augment:` of a set that is named, "
            "or widen its gates"
        )
    return Corpus(train, dev, student.view, target_dim, reduce, prompts_of(student, train))


def prompts_of(student: StudentBlock, train: Sequence[Source]) -> dict[str, str]:
    """The teacher's prompts of the roles that the training texts have, where the student takes them."""
    if student.init.prompts == "none":
        return {}
    return {role: prompt for source in train for role, prompt in source.vectors.prompts.items()}


def materialise(sources: Sequence[Source], corpus: Corpus, tokenise: Tokenise, folder: Path) -> Examples:
    """Tokenise the texts and reduce their vectors into `folder`, once, in bounded memory.

    What a killed run left there is taken unless it is damaged or not complete.

    Raises:
        UserError: a text has no vector, or the disk is full.
    """
    if folder.exists() and (wrong := seal.fault_of_own(folder)):
        say(f"{wrong}; the inputs of the training are made again")
        remove_folder(folder)
    if not folder.exists():
        with atomic_folder(folder) as temporary:
            _write(sources, corpus, tokenise, temporary)
    rows, dim = json_text.parse((folder / "shape.json").read_text(encoding="utf-8"))
    offsets = np.fromfile(folder / "offsets.bin", np.int64)
    ids = map_file(folder / "ids.bin", np.int32, (int(offsets[-1]),))
    return Examples(Tokens(ids, offsets), map_file(folder / "targets.bin", np.float32, (rows, dim)))


def teacher_sample(view: str, vectors_folder: Path) -> Half:
    """The teacher's first vectors (n, d) of the corpus texts, as they are: what a PCA hides shows here.

    There are `collapse.SAMPLE_ROWS`, or as many as there are texts.
    """
    found: list[Half] = []
    for _, batch in published.open_set(vectors_folder / "corpus", view).batches(view):
        found.append(batch)
        if sum(map(len, found)) >= collapse.SAMPLE_ROWS:
            break
    return np.concatenate(found)[: collapse.SAMPLE_ROWS]


def targets_of(name: str, student: StudentBlock, pca_folder: Path) -> tuple[int, Reduction]:
    """The dimension of a student's targets, and what gives them.

    Raises:
        UserError: the student has more dimensions than they vary in.
    """
    fitted, train = pca.read(pca_folder, student.view), student.train
    if train and train.centre and not fitted.mean.any():
        raise UserError(
            f"students.{name}.train.centre: the PCA of {student.view!r} has no mean to subtract; set "
            "pca.centre: true, or train.centre: false"
        )
    with under(f"students.{name}"):
        check_target(student, fitted.dim)
    if train and train.target == "full":
        return fitted.dim, reduction(student, fitted)
    if student.width > fitted.rank and (student.width < fitted.dim or (train and train.whiten)):
        raise UserError(
            f"students.{name}.dim is {student.dim}, but the teacher's {student.view!r} vectors of the "
            f"training texts (pca.max_rows at most) vary in {fitted.rank} directions; choose {fitted.rank} "
            "or less, or add texts"
        )
    return student.width, reduction(student, fitted)


def _write(sources: Sequence[Source], corpus: Corpus, tokenise: Tokenise, folder: Path) -> None:
    rows, lengths = 0, []
    with (folder / "ids.bin").open("wb") as ids_file, (folder / "targets.bin").open("wb") as targets_file:
        for source in sources:
            ids = texts.ids(source.texts, source.split)
            for part in texts.stream(source.texts, source.split, corpus.prompts):
                tokens = tokenise(part)
                _append(tokens.ids.astype(np.int32), ids_file)
                lengths.append(tokens.lengths)
            for part_vectors in source.vectors.of(ids, corpus.view):
                _append(corpus.reduce(part_vectors), targets_file)
            rows += len(ids)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    with (folder / "offsets.bin").open("wb") as offsets_file:
        _append(offsets, offsets_file)
    (folder / "shape.json").write_text(json.dumps([rows, corpus.target_dim]), encoding="utf-8")


def _append(array: NDArray, file: BinaryIO) -> None:
    """As array.tofile, which does not notice a full disk."""
    file.write(np.ascontiguousarray(array).data)
