"""The work of encoding one text set, as the workers of every engine take it: shards, by name."""

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.core.errors import UserError
from pipeline.data.common import texts
from pipeline.params.base import Role
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import Encode, Similarity, Teacher, single_teachers
from pipeline.teacher.encoding.engines import tried
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.encoding.store.filling import Advance, Shard
from pipeline.teacher.encoding.store.store import VectorStore, kept_as
from pipeline.teacher.encoding.store.useless import BEGINNING
from pipeline.teacher.shared.local.cut import NONE, Cut, added, most
from pipeline.teacher.shared.local.described.tuned import TUNED
from pipeline.teacher.shared.members import load_members, own_views, told_of
from pipeline.vectors.sets.shards import Ids


@dataclass(frozen=True)
class Job:
    """What a worker is told; paths are relative to the folder."""

    folder: Path
    texts: Path
    teacher: Teacher
    encode: Encode
    runtime: Runtime
    tuned: Path = TUNED
    """The fine-tuned teacher, if it is."""
    apart: bool = False
    """Whether even a single worker is a process of its own, whose death can be told."""


@dataclass(frozen=True)
class Filled:
    """What workers report: the store holds the vectors of these rows."""

    rows: int
    encoded: list[int]
    """Rows that each teacher's store had lacked; the teachers are an ensemble's members, or the only one."""
    recipes: list[dict[str, dict[str, Any]]]
    """Each teacher's, by role."""
    dims: list[dict[str, int]]
    """Of the views wanted of each teacher, as its store has them; none where there are no rows."""
    similarity: Similarity
    """Of the only teacher; an ensemble's is the cosine."""
    cut: tuple[int, int, int] | None
    """The `Cut` of these rows' texts, stored or not, by the teacher that cuts most; None where one does not
    know."""


class Worker:
    """A teacher, or all members of an ensemble, and a text set, loaded once."""

    def __init__(self, job: Job, device: str | None = None) -> None:
        enter(job.folder)
        runtime = job.runtime.model_copy(update={"device": device or job.runtime.device})
        ids = texts.ids(job.texts, None)
        self._keys = list(single_teachers(job.teacher))
        self._teachers = load_members(job.teacher, runtime, job.tuned)
        self._views = own_views(job.teacher, job.encode.views)
        self._ids, self._texts = ids, job.texts
        kept = kept_as(job.teacher, job.encode)
        self._stores = [
            {role: VectorStore(Path(runtime.cache), one, kept) for role, one in teacher.recipes.items()}
            for teacher in self._teachers
        ]
        self._shards = {shard.name: shard for shard in filling.partition(ids, job.encode.shard_rows)}

    def announce(self, names: Iterable[str]) -> None:
        """Let a teacher that is paid for say what the texts that the store lacks will take."""
        for teacher, views, stores in zip(self._teachers, self._views, self._stores, strict=True):
            if hasattr(teacher, "announce"):
                teacher.announce(
                    (piece, part.role)
                    for name in names
                    for part in self._parts(self._shards[name])
                    for piece in _lacking(part, views, stores[part.role])
                )

    def fill(self, name: str, advance: Advance = lambda _: None) -> Filled:
        """Make the teachers' stores hold the vectors of a shard."""
        shard = self._shards[name]
        encoded, dims, cuts = list[int](), list[dict[str, int]](), list[Cut | None]()
        advance = _shared(advance, len(self._teachers))
        for key, teacher, views, stores in zip(
            self._keys, self._teachers, self._views, self._stores, strict=True
        ):
            encoded.append(0)
            dims.append({})
            of_parts: list[Cut | None] = [NONE]
            for part in self._parts(shard):
                store, encode = stores[part.role], partial(teacher.encode, role=part.role)
                with told_of(key):
                    if not hasattr(teacher, "announce"):
                        tried.check(part.ids, part.texts, views, store, encode)
                    encoded[-1] += filling.fill_shard(
                        part.ids, part.texts, views, store, encode, advance, rows=shard.rows
                    )
                # Not asked of the teacher: an API would be sent a text for it.
                found = {view: store.dim(part.ids, view) for view in views}
                dims[-1] |= {view: dim for view, dim in found.items() if dim is not None}
                of_parts.append(teacher.cut(part.texts, part.role))
            cuts.append(added(of_parts))
        similarity = self._teachers[0].similarity if len(self._teachers) == 1 else "cosine"
        recipes = [teacher.recipes for teacher in self._teachers]
        return Filled(shard.rows, encoded, recipes, dims, similarity, most(cuts))

    def try_texts(self, name: str, note: Path) -> str:
        """Encode, one by one, the texts that the store lacks next in a shard, and keep nothing.

        Before each the note is written anew, so that it names the text that ends this process.

        Returns:
            Which texts these were, where none did.
        """
        for teacher, views, stores in zip(self._teachers, self._views, self._stores, strict=True):
            for part in self._parts(self._shards[name]):
                for piece in _lacking(part, views, stores[part.role]):
                    for text in piece:
                        note.write_text(_named(text), encoding="utf-8")
                        teacher.encode([text], views, role=part.role)
                    if piece:
                        return f"it dies of {len(piece):,} texts, the first {_named(piece[0])}"
        return "it dies of texts that are stored already"

    def _parts(self, shard: Shard) -> Iterator["Part"]:
        """The texts of a shard, a role at a time."""
        shard_texts = texts.read_slice(self._texts, shard.start, shard.stop)
        numbers = filling.role_numbers(self._texts, shard.start, shard.stop)
        for role, rows, ids in filling.by_role(numbers, shard, self._ids):
            yield Part(role, ids, [shard_texts[row] for row in rows])


@dataclass(frozen=True)
class Part:
    """Texts of a shard in one role."""

    role: Role
    ids: Ids
    """(n,) ascending, of the texts themselves, by which the store knows them."""
    texts: list[str]


def enter(folder: Path) -> None:
    """Make it the working folder.

    Raises:
        UserError: this machine does not have it.
    """
    try:
        os.chdir(folder)
    except OSError as error:
        raise UserError(
            f"a worker on machine {socket.gethostname()} cannot enter {folder} ({error.strerror}); "
            "all machines need the same files at the same paths"
        ) from None


def total(parts: Iterable[Filled]) -> Filled:
    """Several reports, one at least, as one."""
    found = list(parts)
    rows = sum(part.rows for part in found)
    encoded = [sum(counts) for counts in zip(*(part.encoded for part in found), strict=True)]
    dims = [
        {view: dim for one in of_one for view, dim in one.items()}
        for of_one in zip(*(part.dims for part in found), strict=True)
    ]
    cut = added(part.cut for part in found)
    return Filled(rows, encoded, found[-1].recipes, dims, found[-1].similarity, cut)


def _named(text: str) -> str:
    return f"{text[:BEGINNING]!r} (text_id {texts.text_id(text)})"


def _lacking(part: "Part", views: Sequence[str], store: VectorStore) -> Iterator[list[str]]:
    """The texts that the store seems to lack, as pieces of them will be asked for."""
    held = np.all([store.holds(part.ids, view) for view in views], axis=0)
    for piece in filling.pieces(part.texts):
        yield [part.texts[row] for row in piece[~held[piece]]]


def _shared(advance: Advance, teachers: int) -> Advance:
    """Tells of a row once when each of so many teachers has told of one."""
    passed = 0

    def told(rows: int) -> None:
        nonlocal passed
        before, passed = passed // teachers, passed + rows
        advance(passed // teachers - before)

    return told
