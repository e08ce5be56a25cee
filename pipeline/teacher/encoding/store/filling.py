"""One shard of a text set: what the store lacks is encoded into it, and all is published from there.

A shard is filled in pieces, each of which the store keeps as soon as it is done. A vector's last bits depend
on the texts that share its batch, so what is encoded together must not depend on how a run went: the pieces
follow from the shard's texts alone, and a piece is there whole or not at all (or lacks what it lacked before,
where a smaller set had some of its texts). So a run that is killed, split up or shared out gives the bytes of
an undisturbed one.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import Unfinished, UserError
from pipeline.data.common.texts import in_role, roles
from pipeline.params.base import ROLES, Role
from pipeline.teacher.encoding.store.store import FINGERPRINT_LETTERS, VectorStore
from pipeline.teacher.encoding.store.useless import Useless, named
from pipeline.vectors.sets import int8
from pipeline.vectors.sets.int8 import Packed
from pipeline.vectors.sets.shards import Half, Ids

ID_BITS = 64
PIECE_CHARACTERS = 65_536
"""Of text in a piece, the most that a kill costs: some 15,000 tokens, which take two cores 2 seconds with
all-MiniLM-L6-v2 and a minute with a model 30 times its size."""

Vectors = Mapping[str, NDArray[np.float32]]
"""By view, (n, d)."""
EncodeTexts = Callable[[Sequence[str], Sequence[str]], Vectors]
"""Texts and views -> vectors (n, d) of each view."""
Keep = Callable[[Ids, Sequence[str], Vectors], None]
Advance = Callable[[int], None]
Rows = NDArray[np.int64]
Numbers = NDArray[np.uint8]
ROLES_AT_A_TIME = 1 << 20


@dataclass(frozen=True)
class Shard:
    """The rows of a text set whose ids share a prefix."""

    name: str
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """How many texts it holds."""
        return self.stop - self.start


def partition(ids: Ids, shard_rows: int) -> list[Shard]:
    """Split ascending ids by prefix into a power of two of shards of about `shard_rows` rows or fewer.

    A shard's ids depend on the set's size alone, so each is computed, checked and published on its own.
    """
    bits = max(0, math.ceil(math.log2(max(1, len(ids)) / shard_rows)))
    edges = [index << (ID_BITS - bits) for index in range(1, 1 << bits)]
    cuts = [0, *np.searchsorted(ids, np.array(edges, np.uint64)).tolist(), len(ids)]
    return [Shard(f"{i:05d}.parquet", cuts[i], cuts[i + 1]) for i in range(1 << bits)]


def role_numbers(path: Path, start: int, stop: int) -> Numbers:
    """The roles (n,) of rows of a text set, as their numbers in `ROLES`."""
    numbers = np.empty(stop - start, np.uint8)
    for first in range(start, stop, ROLES_AT_A_TIME):
        found = roles(path, first, min(stop, first + ROLES_AT_A_TIME))
        part = numbers[first - start : first - start + len(found)]
        for number, role in enumerate(ROLES):
            part[found == role] = number
    return numbers


def by_role(numbers: Numbers, shard: Shard, ids: Ids) -> Iterator[tuple[Role, Rows, Ids]]:
    """The rows of a shard, a role at a time: a set of texts in several roles has several recipes.

    Args:
        numbers: the roles of its rows, as `role_numbers` gives them.
        shard: its rows.
        ids: of all texts of the set, ascending.

    Yields:
        The role, its row numbers within the shard (n,), and the ids of their texts themselves (n,), by which
        the store knows them, ascending.
    """
    for number, role in enumerate(ROLES):
        rows = np.flatnonzero(numbers == number)
        if len(rows):
            own = in_role(ids[shard.start : shard.stop][rows], role)
            order = np.argsort(own)
            yield role, rows[order], own[order]


def pieces(texts: Sequence[str]) -> list[Rows]:
    """Ascending row numbers of each piece: the texts from long to short, cut by their running length."""
    lengths = np.array([len(text) + 1 for text in texts], np.int64)
    order = np.argsort(-lengths, kind="stable")
    before = np.cumsum(lengths[order]) - lengths[order]
    cuts = np.flatnonzero(np.diff(before // PIECE_CHARACTERS)) + 1
    return [np.sort(piece) for piece in np.split(order, cuts) if len(piece)]


def fill_shard(
    ids: Ids,
    texts: Sequence[str],
    views: Sequence[str],
    store: VectorStore,
    encode: EncodeTexts,
    advance: Advance,
    *,
    numbered: bool = False,
    rows: int | None = None,
) -> int:
    """Make the store hold the vectors of ascending `ids`: only those that it lacks are encoded.

    Args:
        ids: (n,), ascending.
        texts: their texts.
        views: the views wanted.
        store: where vectors are looked up and kept.
        encode: the teacher.
        advance: told of the rows of every piece that is done.
        numbered: the texts are numbers of tokens, some of which have no vector.
        rows: of the whole shard, of which these may be one role's; None: these are all.

    Returns:
        How many texts were encoded.

    Raises:
        UserError: the teacher stopped or gave a value that is not finite, too many vectors that tell nothing
            of their texts, or vectors of another dimension than those of this shard that are known; or the
            store cannot be written.
    """
    lacking, dims = {}, {}
    useless = {} if numbered else {view: Useless(view, rows or len(ids)) for view in views}
    for view in views:
        present, found = store.load(ids, view)
        lacking[view] = ~present
        if found is not None:
            dims[view] = found.shape[1]
            if view in useless:
                known = np.flatnonzero(present)
                useless[view].see(ids[known], [texts[row] for row in known.tolist()], found[known])
                useless[view].check(store.fingerprint[:FINGERPRINT_LETTERS])
    encoded = 0
    for piece in pieces(texts):
        # Views that lack other texts are encoded apart: what one lacks is in no other's batches.
        groups: defaultdict[bytes, list[str]] = defaultdict(list)
        for view in views:
            groups[piece[lacking[view][piece]].tobytes()].append(view)
        for wanted, together in ((np.frombuffer(rows, np.int64), group) for rows, group in groups.items()):
            if len(wanted):
                keep = partial(_keep, store=store, dims=dims, useless=useless)
                _encode(ids[wanted], [texts[row] for row in wanted.tolist()], together, encode, keep)
        encoded += int(np.any([lacking[view][piece] for view in views], axis=0).sum())
        advance(len(piece))
    for view, held_back in useless.items():
        for few, vectors in held_back.accepted():
            store.add(few, view, vectors)
    return encoded


def read_shard(
    numbers: Numbers, shard: Shard, ids: Ids, view: str, dim: int, stores: Mapping[str, VectorStore]
) -> Half:
    """A view's vectors (n, dim) of the rows of a shard, from the store of each role.

    Args:
        numbers: the roles of all texts of the set, as `role_numbers` gives them.
        shard: its rows.
        ids: of all texts of the set, ascending.
        view: the view.
        dim: its dimension.
        stores: by role.

    Raises:
        UserError: as `stored`.
    """
    vectors = np.empty((shard.rows, dim), np.float16)
    for role, rows, own in by_role(numbers[shard.start : shard.stop], shard, ids):
        vectors[rows] = stored(own, view, dim, stores[role])
    return vectors


def read_packed_shard(
    numbers: Numbers, shard: Shard, ids: Ids, view: str, dim: int, stores: Mapping[str, VectorStore]
) -> Packed:
    """The same as int8."""
    vectors = int8.empty(shard.rows, dim)
    for role, rows, own in by_role(numbers[shard.start : shard.stop], shard, ids):
        present, known = stores[role].load_packed(own, view)
        _check_stored(present, None if known is None else known.shape[1], view, dim, stores[role])
        if known is not None:
            vectors.put(rows, known)
    return vectors


def stored(ids: Ids, view: str, dim: int, store: VectorStore) -> Half:
    """A view's vectors (n, dim) of ascending `ids`, all of which the store has to hold.

    Raises:
        UserError: the store lacks one, or has it in another dimension.
    """
    present, known = store.load(ids, view)
    _check_stored(present, None if known is None else known.shape[1], view, dim, store)
    return np.empty((0, dim), np.float16) if known is None else known


def _check_stored(
    present: NDArray[np.bool_], found: int | None, view: str, dim: int, store: VectorStore
) -> None:
    if not present.all():
        raise UserError(
            f"{store.folder} lacks {(~present).sum():,} vectors of view {view!r} that have just been put "
            "there; runtime.cache has to be one folder for all workers: run the same command again"
        )
    if found not in (None, dim):
        raise store.of_two_models(view, dim, found)


def _encode(ids: Ids, texts: Sequence[str], views: Sequence[str], encode: EncodeTexts, keep: Keep) -> None:
    """Encode texts and keep their vectors, also those of a teacher that stops half-way."""
    try:
        vectors = encode(texts, views)
    except Unfinished as stopped:
        if stopped.rows is not None and stopped.vectors is not None and len(stopped.rows):
            keep(ids[stopped.rows], [texts[row] for row in stopped.rows], stopped.vectors)
        raise UserError(str(stopped)) from None
    keep(ids, texts, {view: vectors[view] for view in views})


def _keep(
    ids: Ids,
    texts: Sequence[str],
    vectors: Vectors,
    *,
    store: VectorStore,
    dims: dict[str, int],
    useless: Mapping[str, Useless],
) -> None:
    """Store vectors, none where they have another dimension than `dims`, which learns it.

    Told now, it costs a piece of what may have been paid for, and not a set. Vectors that tell nothing of
    their texts are held back, so that a teacher that is mended is asked for them again.
    """
    halves = {view: _half(part, ids, texts, view) for view, part in vectors.items()}
    for view, half in halves.items():
        if dims.setdefault(view, half.shape[1]) != half.shape[1]:
            raise store.of_two_models(view, half.shape[1], dims[view])
    for view, half in halves.items():
        told = useless[view].hold_back(ids, texts, half) if view in useless else np.ones(len(ids), dtype=bool)
        if told.any():
            store.add(ids[told], view, half[told])
        if view in useless:
            useless[view].check(store.fingerprint[:FINGERPRINT_LETTERS])


def _half(vectors: NDArray[np.float32], ids: Ids, texts: Sequence[str], view: str) -> Half:
    """The vectors as float16, once they are known to be finite there."""
    with np.errstate(over="ignore"):
        half = vectors.astype(np.float16)
    bad = np.asarray(~np.isfinite(half).all(axis=1))
    if bad.any():
        raise UserError(
            f"the teacher gave NaN, infinite or too large values for {bad.sum()} texts in view {view!r}, the "
            f"first {named(ids, texts, bad)}; set teacher.precision to float32 or check its weights"
        )
    return half
