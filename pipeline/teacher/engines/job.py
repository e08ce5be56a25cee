"""The work of encoding one text set, as the workers of every engine take it: shards, by name."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.core.errors import UserError
from pipeline.data.common import texts
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import Encode, Teacher, single_teachers
from pipeline.teacher.shared.members import load_members, own_views, told_of
from pipeline.teacher.store import filling
from pipeline.teacher.store.filling import Advance, Shard
from pipeline.teacher.store.store import VectorStore


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
    encoded: list[int]
    """Rows that each teacher's store had lacked; the teachers are an ensemble's members, or the only one."""
    recipes: list[dict[str, Any]]
    """Each teacher's."""
    dims: list[dict[str, int]]
    """Of the views wanted of each teacher, as its store has them; none where there are no rows."""


class Worker:
    """A teacher, or all members of an ensemble, and a text set, loaded once."""

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
        self._keys = list(single_teachers(job.teacher))
        self._teachers = load_members(job.teacher, runtime)
        self._views = own_views(job.teacher, job.encode.views)
        self._stores = [VectorStore(Path(runtime.cache), teacher.recipe) for teacher in self._teachers]
        self._ids, self._texts = ids, job.texts
        self._shards = {shard.name: shard for shard in filling.partition(ids, job.encode.shard_rows)}

    def announce(self, names: Iterable[str]) -> None:
        """Let a teacher that is paid for say what the texts that the store lacks will take."""
        for number, teacher in enumerate(self._teachers):
            if hasattr(teacher, "announce"):
                shards = [self._shards[name] for name in names]
                teacher.announce(piece for shard in shards for piece in self._lacking(shard, number))

    def fill(self, name: str, advance: Advance = lambda _: None) -> Filled:
        """Make the teachers' stores hold the vectors of a shard."""
        shard = self._shards[name]
        ids = self._ids[shard.start : shard.stop]
        shard_texts = texts.read_slice(self._texts, shard.start, shard.stop)
        filled = Filled(shard.rows, [], [teacher.recipe for teacher in self._teachers], [])
        advance = _shared(advance, len(self._teachers))
        for key, teacher, views, store in zip(
            self._keys, self._teachers, self._views, self._stores, strict=True
        ):
            with told_of(key):
                filled.encoded.append(
                    filling.fill_shard(ids, shard_texts, views, store, teacher.encode, advance)
                )
            # Not asked of the teacher: an API would be sent a text for it, where it has nothing else to do.
            filled.dims.append({view: dim for view in views if (dim := store.dim(ids, view)) is not None})
        return filled

    def _lacking(self, shard: Shard, number: int) -> Iterator[list[str]]:
        """The texts of a shard that a teacher's store seems to lack, as pieces of them will be asked for."""
        ids = self._ids[shard.start : shard.stop]
        held = np.all([self._stores[number].holds(ids, view) for view in self._views[number]], axis=0)
        shard_texts = texts.read_slice(self._texts, shard.start, shard.stop)
        for piece in filling.pieces(shard_texts):
            yield [shard_texts[row] for row in piece[~held[piece]]]


def total(parts: Iterable[Filled]) -> Filled:
    """Several reports, one at least, as one."""
    found = list(parts)
    rows = sum(part.rows for part in found)
    encoded = [sum(counts) for counts in zip(*(part.encoded for part in found), strict=True)]
    dims = [
        {view: dim for one in of_one for view, dim in one.items()}
        for of_one in zip(*(part.dims for part in found), strict=True)
    ]
    return Filled(rows, encoded, found[-1].recipes, dims)


def _shared(advance: Advance, teachers: int) -> Advance:
    """Tells of a row once when each of so many teachers has told of one."""
    passed = 0

    def told(rows: int) -> None:
        nonlocal passed
        before, passed = passed // teachers, passed + rows
        advance(passed // teachers - before)

    return told
