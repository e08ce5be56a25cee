"""What of the teacher's vectors a student learns to give."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipeline.params.losses import terms_of
from pipeline.params.students import StaticStudent, Student, StudentBlock
from pipeline.params.teacher import Similarity
from pipeline.vectors.space.pca import Pca

STORED = 0.01
"""How far storage may bring a length of 1 from it."""

Reduction = Callable[[NDArray[np.floating]], NDArray[np.float32]]
"""Teacher vectors (n, d) to targets (n, dim)."""


def reduction(student: StudentBlock, fitted: Pca) -> Reduction:
    """Vectors as they are for a student of the teacher's dimension, else their first principal components.

    Whitened, or of several lengths, they are principal components at any dimension; with `target: full` they
    are as they are at any. With `centre`, vectors as they are lose the mean.

    Args:
        student: whose dimension the PCA reaches, with a rank that does where it is whitened.
        fitted: the PCA of the student's view.
    """
    train, whole = student.train, student.width == fitted.dim
    if train is None:  # only its start is fitted to them
        return lambda found: found.astype(np.float32) if whole else fitted.reduce(found, student.width)
    if train.target == "full" or (whole and not train.whiten and not train.matryoshka):
        if not train.centre:
            return lambda found: found.astype(np.float32)
        return lambda found: found.astype(np.float32) - fitted.mean.astype(np.float32)
    return lambda found: fitted.reduce(found, student.width, whiten=train.whiten, shrinkage=train.shrinkage)


def reduced_similarity(similarity: Similarity, fitted: Pca) -> Similarity:
    """How principal components are compared: as the teacher does if they keep that, else by their cosine.

    A rotation keeps inner products and distances, but no Manhattan distance; a shift by the mean keeps
    distances, but no inner product.
    """
    kept = similarity == "euclidean" or (similarity == "dot" and not fitted.mean.any())
    return similarity if kept else "cosine"


def student_similarity(similarity: Similarity, student: StudentBlock, fitted: Pca) -> Similarity:
    """How a student's vectors are compared, given how the teacher's are.

    As the teacher does where the student learns its targets as they are, lengths included, and they keep what
    the teacher measures. Otherwise, or without training, its lengths mean nothing: by their cosine.

    Args:
        similarity: the teacher's.
        student: its block; a static one is saved with vectors of length 1.
        fitted: the PCA of its view.
    """
    loss, train = student.loss, student.train
    if loss is None or train is None:
        return "cosine"
    follows_lengths = any(term.compares == "vectors" for term in terms_of(loss))
    if not follows_lengths or train.whiten or isinstance(student, StaticStudent):
        return "cosine"
    if train.target == "full" or (student.width == fitted.dim and not train.matryoshka):
        return "cosine" if similarity == "dot" and train.centre else similarity
    return reduced_similarity(similarity, fitted)


def is_unit(similarity: Similarity, teacher: NDArray[np.floating]) -> bool:
    """Whether a student's vectors are brought to length 1, so that inner product, cosine and distance agree.

    They are where only their directions count: the student is compared by cosine, or its teacher normalises.

    Args:
        similarity: compares the student's vectors.
        teacher: some of its vectors (n, d), stored as float16 or int8.
    """
    lengths = np.linalg.norm(teacher.astype(np.float32), axis=1)
    return similarity == "cosine" or bool((np.abs(lengths - 1) < STORED).all())


def left_out(student: Student, teacher_dim: int, teacher_view: str) -> str | None:
    """Why a student's vectors are not comparable with its teacher's; None: they are.

    They are where a loss holds them to the teacher's vectors themselves. `kl` does not: it leaves each vector
    free to move by one number in all dimensions, which changes its cosines with the teacher's.

    Args:
        student: its block.
        teacher_dim: of the view that it learns.
        teacher_view: the one that the teacher's users have stored.
    """
    loss, train = student.loss, student.train
    if loss is None or train is None:
        return "it is not trained on the teacher's vectors"
    regularise = getattr(train, "regularise", None)
    if student.whitening:
        return "whitening gives its vectors axes of their own"
    if student.view != teacher_view:
        return f"it learns the view {student.view}, and the teacher's users have {teacher_view}"
    if student.finetune and student.finetune.projection:
        return "fine-tuning adds a learned projection"
    if regularise and regularise.pca:
        return "train.regularise rotates its vectors after training"
    if train.target == "full" and student.width != teacher_dim:
        return "its target has another dimension"
    if not any(term.compares in ("vectors", "directions") for term in terms_of(loss)):
        return (
            "its loss meets the teacher's vectors by their cosines, through a softmax or through a learned "
            "projection alone"
        )
    return None
