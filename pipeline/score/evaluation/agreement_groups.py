"""Agreement with the teacher by length and by role of the texts."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core import seal
from pipeline.core.errors import UserError
from pipeline.tasks import agreement
from pipeline.tasks.embeddings import Embeddings

TOKENIZER = "tokenizer.json"
LENGTHS = (0, 16, 32, 64, 128)
"""Where a band of lengths ends and the next one begins, in the teacher's tokens."""
LEAST_IN_GROUP = 30
"""Texts; fewer are no group of their own."""


def token_counts(given: list[str], teacher: Path) -> NDArray[np.int64]:
    """How many tokens of the teacher's each text is, special ones included and nothing cut off, (n,).

    Args:
        given: n texts.
        teacher: the teacher's parts.

    Raises:
        UserError: they have no tokenizer, or it is damaged.
    """
    from tokenizers import Tokenizer

    again = "run `dvc repro -f teacher_parts`"
    seal.check(teacher, again, TOKENIZER)
    try:
        tokenizer = Tokenizer.from_file(str(teacher / TOKENIZER))
    except Exception as error:  # tokenizers raises no narrower one
        raise UserError(f"{teacher / TOKENIZER} is damaged ({error}); {again}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return np.array([len(one.ids) for one in tokenizer.encode_batch(given)], np.int64)


def groups(
    pairs: pl.DataFrame, student: Embeddings, texts: pl.DataFrame, teacher: Path
) -> list[dict[str, Any]]:
    """How a student agrees with the teacher on texts of a length, and of a role where there are several.

    A text's nearest are looked for among all texts, whatever its group.

    Args:
        pairs: of all texts, as `agreement.task` makes them.
        student: its vectors.
        texts: them, sorted by text_id.
        teacher: the teacher's parts, whose tokens are counted.

    Returns:
        group and scores of each group that has enough texts.
    """
    ids, overlap = agreement.overlaps(pairs, student)
    counts = token_counts(texts["text"].to_list(), teacher)
    found = []
    for name, chosen in (*_bands(counts), *_roles(texts["role"].to_numpy())):
        if chosen.sum() < LEAST_IN_GROUP:
            continue
        of_group = pairs.filter(pl.col("left_id").is_in(pl.Series(ids[chosen]).implode()))
        found.append({"group": name, "scores": agreement.scores(of_group, student, overlap[chosen])})
    return found


def _bands(counts: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    for above, most in pairwise(LENGTHS):
        name = f"{above + 1} to {most} tokens" if above else f"up to {most} tokens"
        yield name, (counts > above) & (counts <= most)
    yield f"more than {LENGTHS[-1]} tokens", counts > LENGTHS[-1]


def _roles(roles: NDArray[np.str_]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    names = np.unique(roles)
    yield from ((f"role {name}", roles == name) for name in names if len(names) > 1)
