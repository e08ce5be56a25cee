"""Some stored vectors are computed again and compared: do they still belong to their texts?

A digest says that a file is as it was written, not that its rows are right: a tool may have mixed them up and
written the digest anew. Teachers that are paid for are not asked: they are asked for what is missing alone.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.teacher.encoding.store.filling import EncodeTexts
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.teacher.encoding.store.useless import named
from pipeline.vectors.sets.shards import Ids

TRIED = 4
"""Texts of a shard: 0.1 % of one."""
LOWEST = 0.98
"""Least cosine to the stored vector. Another batch, processor or server lowers it by less than 0.001. Texts
as near as this pass for one another."""


def check(
    ids: Ids, texts: Sequence[str], views: Sequence[str], store: VectorStore, encode: EncodeTexts
) -> None:
    """Fail if the teacher gives other vectors than the store has, for texts spread evenly over those it has.

    Args:
        ids: (n,), ascending.
        texts: their texts.
        views: the views wanted.
        store: where their vectors are, as far as they are known.
        encode: the teacher.

    Raises:
        UserError: naming the texts and what drops the vectors.
    """
    has = np.all([store.holds(ids, view) for view in views], axis=0)
    known = np.flatnonzero(has)
    rows = known[np.unique(np.linspace(0, len(known) - 1, TRIED).astype(np.int64))] if len(known) else known
    if not len(rows):
        return
    tried = [texts[row] for row in rows.tolist()]
    now = encode(tried, views)
    for view in views:
        present, stored = store.load(ids[rows], view)
        if stored is None or stored.shape[1] != now[view].shape[1]:
            continue  # damaged, or of another model, of which `fill_shard` tells
        before = np.where(present[:, None], stored, 0).astype(np.float32)
        wrong = present & ~_alike(before, now[view])
        if wrong.any():
            raise UserError(
                f"{store.folder} holds other vectors than the teacher gives now, in view {view!r}, for "
                f"{wrong.sum()} of {present.sum()} texts that were tried: {named(ids[rows], tried, wrong)}; "
                f"rows were mixed up; `pipeline cache prune {store.folder.name}` drops all its vectors, then "
                "run the same command again"
            )


def _alike(stored: NDArray[np.float32], now: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which pairs of vectors, both (n, d), point the same way; two that are zero do."""
    lengths = np.linalg.norm(stored, axis=1) * np.linalg.norm(now, axis=1)
    alike: NDArray[np.bool_] = (stored * now).sum(axis=1) >= LOWEST * lengths
    return alike & ((lengths > 0) | (stored == now).all(axis=1))
