"""The work of encoding one text set, as the workers of every engine take it: shards, by name."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.core.errors import UserError
from pipeline.core.registry import implementation
from pipeline.data.common import texts
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import Encode, Similarity, Teacher
from pipeline.teacher.store import filling
from pipeline.teacher.store.filling import Advance, Shard
from pipeline.teacher.store.store import VectorStore

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
    recipe: dict[str, Any]
    """The teacher's."""
    dims: dict[str, int]
    """Of the views wanted, as the store has them; none where there are no rows."""
    similarity: Similarity
    """The teacher's."""


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
        self._store = VectorStore(Path(runtime.cache), self._teacher.recipe)
        self._shards = {shard.name: shard for shard in filling.partition(ids, job.encode.shard_rows)}

    def announce(self, names: Iterable[str]) -> None:
        """Let a teacher that is paid for say what the texts that the store lacks will take."""
        if hasattr(self._teacher, "announce"):
            self._teacher.announce(piece for name in names for piece in self._lacking(self._shards[name]))

    def fill(self, name: str, advance: Advance = lambda _: None) -> Filled:
        """Make the store hold the vectors of a shard."""
        shard = self._shards[name]
        ids = self._ids[shard.start : shard.stop]
        encoded = filling.fill_shard(
            ids,
            texts.read_slice(self._texts, shard.start, shard.stop),
            self._views,
            self._store,
            self._teacher.encode,
            advance,
        )
        # Not asked of the teacher: an API would be sent a text for it, where it has nothing else to do.
        dims = {view: dim for view in self._views if (dim := self._store.dim(ids, view)) is not None}
        return Filled(shard.rows, encoded, self._teacher.recipe, dims, self._teacher.similarity)

    def _lacking(self, shard: Shard) -> Iterator[list[str]]:
        """The texts of a shard that the store seems to lack, as pieces of them will be asked for."""
        ids = self._ids[shard.start : shard.stop]
        held = np.all([self._store.holds(ids, view) for view in self._views], axis=0)
        shard_texts = texts.read_slice(self._texts, shard.start, shard.stop)
        for piece in filling.pieces(shard_texts):
            yield [shard_texts[row] for row in piece[~held[piece]]]


def total(parts: Iterable[Filled]) -> Filled:
    """Several reports, one at least, as one."""
    found = list(parts)
    rows, encoded = sum(part.rows for part in found), sum(part.encoded for part in found)
    dims = {view: dim for part in found for view, dim in part.dims.items()}
    return Filled(rows, encoded, found[-1].recipe, dims, found[-1].similarity)
