"""The work of encoding one text set, as the workers of every engine take it: shards, by name."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.core.errors import UserError
from pipeline.core.registry import implementation
from pipeline.data.common import texts
from pipeline.params.base import Role
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import Encode, Teacher
from pipeline.teacher.shared.cut import NONE, Cut, added
from pipeline.teacher.store import filling
from pipeline.teacher.store.filling import Advance, Shard
from pipeline.teacher.store.store import VectorStore
from pipeline.vectors.sets.shards import Ids

if TYPE_CHECKING:
    from pipeline.teacher import interface


@dataclass(frozen=True)
class Job:
    """What a worker is told; paths are relative to the folder."""

    folder: Path
    texts: Path
    teacher: Teacher
    encode: Encode
    runtime: Runtime


@dataclass(frozen=True)
class Filled:
    """What workers report: the store holds the vectors of these rows."""

    rows: int
    encoded: int
    """Rows that the store had lacked."""
    recipes: dict[str, dict[str, Any]]
    """The teacher's, by role."""
    dims: dict[str, int]
    """Of the views wanted, as the store has them; none where there are no rows."""
    cut: tuple[int, int, int] | None
    """The `Cut` of these rows' texts, stored or not; None where it is not known."""


class Worker:
    """A teacher and a text set, loaded once."""

    def __init__(self, job: Job, device: str | None = None) -> None:
        try:
            os.chdir(job.folder)
        except OSError as error:
            raise UserError(
                f"a worker on another machine cannot enter {job.folder} ({error.strerror}); "
                "all machines need the same files at the same paths"
            ) from None
        runtime = job.runtime.model_copy(update={"device": device or job.runtime.device})
        ids = texts.ids(job.texts, None)
        kind = implementation("teacher.kinds", job.teacher.kind)
        self._teacher: interface.Teacher = kind.load(job.teacher, runtime)
        self._ids, self._texts = ids, job.texts
        self._views: list[str] = list(job.encode.views)
        self._stores = {
            role: VectorStore(Path(runtime.cache), recipe) for role, recipe in self._teacher.recipes.items()
        }
        self._shards = {shard.name: shard for shard in filling.partition(ids, job.encode.shard_rows)}

    def announce(self, names: Iterable[str]) -> None:
        """Let a teacher that is paid for say what the texts that the store lacks will take."""
        if hasattr(self._teacher, "announce"):
            self._teacher.announce(
                (piece, part.role)
                for name in names
                for part in self._parts(self._shards[name])
                for piece in self._lacking(part)
            )

    def fill(self, name: str, advance: Advance = lambda _: None) -> Filled:
        """Make the store hold the vectors of a shard."""
        shard = self._shards[name]
        encoded, dims = 0, dict[str, int]()
        cuts: list[Cut | None] = [NONE]
        for part in self._parts(shard):
            store, encode = self._stores[part.role], partial(self._teacher.encode, role=part.role)
            encoded += filling.fill_shard(part.ids, part.texts, self._views, store, encode, advance)
            # Not asked of the teacher: an API would be sent a text for it, where it has nothing else to do.
            found = {view: store.dim(part.ids, view) for view in self._views}
            dims |= {view: dim for view, dim in found.items() if dim is not None}
            cuts.append(self._teacher.cut(part.texts, part.role))
        return Filled(shard.rows, encoded, self._teacher.recipes, dims, added(cuts))

    def _parts(self, shard: Shard) -> Iterator["Part"]:
        """The texts of a shard, a role at a time."""
        shard_texts = texts.read_slice(self._texts, shard.start, shard.stop)
        for role, rows, ids in filling.by_role(self._texts, shard, self._ids):
            yield Part(role, ids, [shard_texts[row] for row in rows])

    def _lacking(self, part: "Part") -> Iterator[list[str]]:
        """The texts that the store seems to lack, as pieces of them will be asked for."""
        store = self._stores[part.role]
        held = np.all([store.holds(part.ids, view) for view in self._views], axis=0)
        for piece in filling.pieces(part.texts):
            yield [part.texts[row] for row in piece[~held[piece]]]


@dataclass(frozen=True)
class Part:
    """Texts of a shard in one role."""

    role: Role
    ids: Ids
    """(n,) ascending, of the texts themselves, by which the store knows them."""
    texts: list[str]


def total(parts: Iterable[Filled]) -> Filled:
    """Several reports, one at least, as one."""
    found = list(parts)
    rows, encoded = sum(part.rows for part in found), sum(part.encoded for part in found)
    dims = {view: dim for part in found for view, dim in part.dims.items()}
    return Filled(rows, encoded, found[-1].recipes, dims, added(part.cut for part in found))
