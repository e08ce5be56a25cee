"""The context check: which substitutes are near the rest of a text in the teacher's own token table."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.augment.wordnet.lexicon import Choices
from pipeline.augment.wordnet.pieces import CLOSING, OPENING
from pipeline.augment.wordnet.rewrite import Fits
from pipeline.core import memory
from pipeline.data.teacher_parts import read_tokenizer, read_vocabulary

REMEMBERED_BYTES = 1 << 28
"""Of the vectors of words that are remembered."""
ROWS_AT_A_TIME = 4096


def teacher_context(teacher: Path, least: float) -> Fits:
    """Keeps the substitutes whose vector has at least this cosine with the mean of the other words'.

    A word's vector is the mean of its tokens' unit vectors in the teacher's vocabulary, brought to length 1;
    the context is the mean over the text's other words that are longer than three letters.

    Args:
        teacher: the teacher's parts.
        least: the least cosine.

    Raises:
        UserError: the parts are not there, or damaged.
    """
    tokenizer, table = read_tokenizer(teacher), read_vocabulary(teacher)
    memory.say_if_more(
        f"the teacher's vectors of {len(table):,} tokens take",
        table.nbytes + REMEMBERED_BYTES,
        "without augment.wordnet.context it takes less",
    )
    for start in range(0, len(table), ROWS_AT_A_TIME):
        rows = table[start : start + ROWS_AT_A_TIME]
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    @lru_cache(_remembered(table.shape[1]))
    def vector(word: str) -> NDArray[np.float32]:
        ids = tokenizer.encode(word, add_special_tokens=False).ids
        return _unit(table[ids].mean(axis=0)) if ids else np.zeros(table.shape[1], np.float32)

    def fits(choices: Choices, pieces: Sequence[str], places: range) -> Choices | None:
        words = [piece.strip(OPENING + CLOSING) for at, piece in enumerate(pieces) if at not in places]
        words = [word for word in words if len(word) > 3]
        if not words:
            return choices
        context = _unit(np.mean([vector(word) for word in words], axis=0))
        kept = [float(vector(spelling) @ context) >= least for spelling in choices.spellings]
        if all(kept):
            return choices
        weighted = zip(choices.spellings, choices.weights, kept, strict=True)
        return Choices(left) if (left := {word: weight for word, weight, keep in weighted if keep}) else None

    return fits


def _remembered(dim: int) -> int:
    return REMEMBERED_BYTES // (4 * dim)


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
