"""Vectors that tell nothing of their texts, which no student should learn and no score should rest on.

All zeros, or one value in all dimensions: servers give them where a model fails. A guard against a collapse
of all vectors does not see two of a hundred.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.vectors.sets.shards import Half, Ids

MOST_SHARE = 0.001
"""Of a shard's texts, how many may have such a vector: some models know no token of some rare text."""
NAMED = 3
BEGINNING = 40
WORD = re.compile(r"\w")


def useless(texts: Sequence[str], vectors: Half) -> NDArray[np.bool_]:
    """Which of the vectors (n, d) tell nothing of their texts (n,).

    A text without a letter or a digit may have any vector: a mean over no token is zero.
    """
    zero = (vectors == 0).all(axis=1)
    constant = (vectors == vectors[:, :1]).all(axis=1) & (vectors.shape[1] > 1)
    found: NDArray[np.bool_] = zero | constant
    for row in np.flatnonzero(found).tolist():
        found[row] = bool(WORD.search(texts[row]))
    return found


@dataclass
class Useless:
    """The useless vectors of a shard, in one view: what is stored already, and what is held back."""

    view: str
    rows: int
    """Texts of the shard."""
    stored: list[tuple[int, str]] = field(default_factory=list)
    """Ids and texts."""
    held_back: list[tuple[Ids, Half]] = field(default_factory=list)
    new: list[tuple[int, str]] = field(default_factory=list)

    def hold_back(self, ids: Ids, texts: Sequence[str], vectors: Half) -> NDArray[np.bool_]:
        """Which of these new vectors (n, d) are to be stored now; a few others may be, at the shard's end."""
        bad = useless(texts, vectors)
        if bad.any():
            self.held_back.append((ids[bad], vectors[bad]))
            self.new += _pairs(ids, texts, bad)
        return ~bad

    def see(self, ids: Ids, texts: Sequence[str], vectors: Half) -> None:
        """Note which of the stored vectors (n, d) are useless."""
        self.stored += _pairs(ids, texts, useless(texts, vectors))

    def check(self, fingerprint: str) -> None:
        """Fail if too many texts have a useless vector.

        Raises:
            UserError: naming some texts, and how to get other vectors.
        """
        found = [*self.stored, *self.new]
        if len(found) <= MOST_SHARE * self.rows:
            return
        fix = f"; `pipeline cache prune {fingerprint}` drops what is stored" if self.stored else ""
        raise UserError(
            f"the teacher tells nothing of {self._told(found)}; mend the teacher, or remove these "
            f"texts{fix}; then run the same command again, which asks only for what is missing"
        )

    def accepted(self) -> Iterator[tuple[Ids, Half]]:
        """What was held back, once the shard is through and it is little; it is said."""
        if found := [*self.stored, *self.new]:
            say(f"the teacher tells nothing of {self._told(found)}; so few are kept")
        yield from self.held_back

    def _told(self, found: Sequence[tuple[int, str]]) -> str:
        return (
            f"{len(found):,} of {self.rows:,} texts in view {self.view!r}, {len(found) / self.rows:.2%} "
            f"(limit {MOST_SHARE:.1%}): their vectors are zero, or one value throughout; the first are "
            f"{_listed(found)}"
        )


def named(ids: Ids, texts: Sequence[str], chosen: NDArray[np.bool_]) -> str:
    """The first of the chosen texts (n,), by their beginnings and ids."""
    return _listed(_pairs(ids, texts, chosen))


def _listed(found: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{text[:BEGINNING]!r} (text_id {number})" for number, text in found[:NAMED])


def _pairs(ids: Ids, texts: Sequence[str], bad: NDArray[np.bool_]) -> list[tuple[int, str]]:
    return [(int(ids[row]), texts[row]) for row in np.flatnonzero(bad).tolist()]
