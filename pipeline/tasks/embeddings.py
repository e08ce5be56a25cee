"""Vectors of the evaluation texts, by text id."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.params.teacher import Similarity

Ids = NDArray[np.uint64]


@dataclass(frozen=True)
class Embeddings:
    """Vectors (n, d) of ascending ids (n,)."""

    ids: Ids
    vectors: NDArray[np.floating]
    similarity: Similarity = "cosine"
    """How the model compares them."""

    def of(self, wanted: Ids) -> NDArray[np.floating]:
        """The vectors of these ids, in their order; every id must be there.

        Raises:
            UserError: one is not.
        """
        rows = np.searchsorted(self.ids, wanted)
        if len(wanted) and not np.array_equal(self.ids[np.minimum(rows, len(self.ids) - 1)], wanted):
            raise UserError(
                "data/vectors/eval lacks the vector of an evaluation text; run `dvc repro -f encode@eval`"
            )
        return self.vectors[rows]
