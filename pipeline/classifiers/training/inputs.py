"""A task's texts, or its pairs of texts as one input each, as an encoder reads them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.data.tokens.tokens import Tokens
from pipeline.train.students.shared.base.interface import ReadsPairs, Student

Rows = NDArray[np.int64]
"""(n, 1), or (n, 2) of pairs: rows of a table of texts."""


@dataclass(frozen=True)
class Inputs:
    """What an encoder reads, tokenised once."""

    tokens: Tokens
    """Of all texts, or of all pairs that are read together."""
    texts: int
    """How many texts there are."""
    pairs: NDArray[np.int64] | None = None
    """(p,) ascending, of each pair that is read together left * texts + right; None: texts are read apart."""

    @classmethod
    def of(cls, student: Student, texts: list[str], rows: Sequence[Rows], *, together: bool) -> "Inputs":
        """Those of a student.

        Args:
            student: who reads them.
            texts: the table's.
            rows: all that will be asked for; of interest where pairs are read together.
            together: whether pairs are.

        Raises:
            UserError: the student reads no pairs.
        """
        if not together:
            return cls(student.tokenise(texts), len(texts))
        if not isinstance(student, ReadsPairs):
            raise UserError("read is together, and its student reads no pairs; set it to apart")
        keys = np.unique(np.concatenate([part[:, 0] * len(texts) + part[:, 1] for part in rows]))
        sides = zip((keys // len(texts)).tolist(), (keys % len(texts)).tolist(), strict=True)
        tokens = student.tokenise_pairs([(texts[left], texts[right]) for left, right in sides])
        return cls(tokens, len(texts), keys)

    def rows(self, texts: Rows) -> Rows:
        """Which inputs (n, k) rows of texts are: of a pair that is read together one, else one a text."""
        if self.pairs is None:
            return texts
        return np.searchsorted(self.pairs, texts[:, :1] * self.texts + texts[:, 1:])

    def lengths(self, texts: Rows) -> NDArray[np.int64]:
        """Tokens of each row, (n,)."""
        return self.tokens.lengths[self.rows(texts)].sum(axis=1)
