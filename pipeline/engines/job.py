"""The work of encoding one text set, as the workers of every engine take it: shards, by name."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.artifacts import encoding, texts
from pipeline.artifacts.encoding import Advance
from pipeline.artifacts.store import VectorStore
from pipeline.core.errors import UserError
from pipeline.core.params.evaluate import Runtime
from pipeline.core.params.teacher import Encode, Teacher
from pipeline.core.registry import implementation

if TYPE_CHECKING:
    from pipeline.teachers import interface


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
    """Of the views wanted."""


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
        table = texts.read_any(job.texts)
        ids = table["text_id"].to_numpy()
        teacher: interface.Teacher = implementation("teachers", job.teacher.kind).load(job.teacher, runtime)
        self._teacher = teacher
        self._ids, self._texts = ids, table["text"]
        self._dims: dict[str, int] = {view: teacher.dims[view] for view in job.encode.views}
        self._store = VectorStore(Path(runtime.cache), teacher.recipe)
        self._shards = {shard.name: shard for shard in encoding.partition(ids, job.encode.shard_rows)}

    def announce(self, names: Iterable[str]) -> None:
        """Let a teacher that is paid for say what the texts that the store lacks will take."""
        if hasattr(self._teacher, "announce"):
            shards = [self._shards[name] for name in names]
            rows = np.concatenate([np.arange(shard.start, shard.stop) for shard in shards])
            lacking = [~self._store.load(self._ids[rows], view)[0] for view in self._dims]
            self._teacher.announce(self._texts[rows[np.any(lacking, axis=0)]].to_list())

    def fill(self, name: str, advance: Advance = lambda _: None) -> Filled:
        """Make the store hold the vectors of a shard."""
        shard = self._shards[name]
        encoded = encoding.fill_shard(
            self._ids[shard.start : shard.stop],
            self._texts[shard.start : shard.stop].to_list(),
            list(self._dims),
            self._store,
            self._teacher.encode,
            advance,
        )
        return Filled(shard.rows, encoded, self._teacher.recipe, self._dims)


def total(parts: Iterable[Filled]) -> Filled:
    """Several reports, one at least, as one."""
    found = list(parts)
    rows, encoded = sum(part.rows for part in found), sum(part.encoded for part in found)
    return Filled(rows, encoded, found[-1].recipe, found[-1].dims)
