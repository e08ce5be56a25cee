"""What of the teacher's vectors a student learns to give."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipeline.params.students import StudentBlock
from pipeline.vectors.pca import Pca

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
    if train.target == "full" or (whole and not train.whiten and not train.matryoshka):
        if not train.centre:
            return lambda found: found.astype(np.float32)
        return lambda found: found.astype(np.float32) - fitted.mean.astype(np.float32)
    return lambda found: fitted.reduce(found, student.width, whiten=train.whiten, shrinkage=train.shrinkage)
