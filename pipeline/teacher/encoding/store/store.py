"""The vector store: every vector ever computed, by (recipe fingerprint, view, text_id), outside DVC.

    CACHE/vectors/FINGERPRINT/recipe.json
    CACHE/vectors/FINGERPRINT/VIEW/a/b/c/LOW-HIGH-SHA256.parquet      text_id, VIEW
    CACHE/vectors/FINGERPRINT/VIEW.int8/...                           the same of int8

A file's name holds the range of its ids and the hash of its content, so a lookup opens only files that can
hold an id, a damaged file is noticed before it is read, and two processes that write the same vectors write
the same file. Where few ids are looked up, as those of a small set beside a large one, a file's own ids tell
first whether it is read. The folders a/b/c are the letters, three at most, that all ids of the range begin
with, so a lookup lists only folders that can hold an id. A file whose ids share no letter lies in VIEW
itself.
"""

import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.core import fingerprint
from pipeline.core.atomic import PARTIAL, atomic_file, remove_abandoned, write_text
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.params.teacher import Encode, EnsembleTeacher, Storage, Teacher
from pipeline.vectors.sets import int8
from pipeline.vectors.sets.int8 import Packed
from pipeline.vectors.sets.shards import Half, Ids, places, read_stored, write_shard

HASH_LETTERS = 32
FINGERPRINT_LETTERS = 16
ID_LETTERS = 16
FOLDER_LETTERS = 3
"""4,096 folders: one holds some ten files of 10 million texts, some thousand of a billion."""
FEW = 1024
"""Ids in a file's range, fewer than which it may have none of: a quarter of a shard's, by default."""
NAME = re.compile(
    rf"([0-9a-f]{{{ID_LETTERS}}})-([0-9a-f]{{{ID_LETTERS}}})-([0-9a-f]{{{HASH_LETTERS}}})\.parquet"
)
LETTER = re.compile("[0-9a-f]")
ROUNDED = ".int8"
"""Ends the name of the folder of a view's vectors in int8."""

Present = NDArray[np.bool_]


def kept_as(teacher: Teacher, encode: Encode) -> Storage:
    """What the store keeps new vectors as: what is published, but for an ensemble.

    Its members' vectors are joined before they are rounded.
    """
    return "float16" if isinstance(teacher, EnsembleTeacher) else encode.storage


class VectorStore:
    """The vectors of one recipe.

    A store of float16 does not see those in int8, and one of int8 sees both.
    """

    def __init__(self, cache: Path, recipe: Mapping[str, Any], storage: Storage = "float16") -> None:
        """In `cache`; new vectors are kept as `storage`."""
        self.storage = storage
        self.fingerprint = fingerprint.of_json(recipe)
        self.folder = cache / "vectors" / self.fingerprint[:FINGERPRINT_LETTERS]
        self.recipe = recipe

    def load(self, ids: Ids, view: str) -> tuple[Present, Half | None]:
        """Which of the ascending `ids` (n,) have a vector of this view, and the vectors (n, d).

        Rows without a vector are not set; the vectors are None where no id has one.

        Raises:
            UserError: some have another dimension than others.
        """
        present = np.zeros(len(ids), dtype=bool)
        vectors: Half | None = None
        for at, part in self._parts(ids, view):
            half = part.restored() if isinstance(part, Packed) else part
            vectors = np.empty((len(ids), half.shape[1]), np.float16) if vectors is None else vectors
            self._check_dim(view, half.shape[1], vectors.shape[1])
            vectors[at] = half
            present[at] = True
        return present, vectors

    def load_packed(self, ids: Ids, view: str) -> tuple[Present, Packed | None]:
        """The same as int8: a vector that is kept as float16 is rounded now, to what it would be kept as."""
        present = np.zeros(len(ids), dtype=bool)
        vectors: Packed | None = None
        for at, part in self._parts(ids, view):
            packed = part if isinstance(part, Packed) else int8.pack(part)
            vectors = int8.empty(len(ids), packed.shape[1]) if vectors is None else vectors
            self._check_dim(view, packed.shape[1], vectors.shape[1])
            vectors.put(at, packed)
            present[at] = True
        return present, vectors

    def dim(self, ids: Ids, view: str) -> int | None:
        """The dimension of this view's vectors, by the first file with one of the ascending `ids`."""
        for path in self._files(ids, self._folders(view)):
            with suppress(pa.ArrowException, OSError, KeyError):
                return int(pq.read_schema(path).field(view).type.list_size)
        return None

    def holds(self, ids: Ids, view: str) -> Present:
        """Which of the ascending `ids` (n,) seem to have a vector of this view.

        Only ids are read, so that damage to the vectors stays unseen until `load`.
        """
        return self._hold(ids, self._folders(view))

    def rounds(self, ids: Ids, view: str) -> Present:
        """Which of the ascending `ids` (n,) seem to have a vector in int8."""
        return self._hold(ids, [view + ROUNDED])

    def _hold(self, ids: Ids, folders: Sequence[str]) -> Present:
        present = np.zeros(len(ids), dtype=bool)
        for path in self._files(ids, folders):
            # What cannot be opened is told by `load`.
            with suppress(pa.ArrowException, OSError, KeyError), pq.ParquetFile(path) as file:
                at, wanted = places(ids, file.read(columns=["text_id"])["text_id"].to_numpy())
                present[at[wanted]] = True
        return present

    def add(self, ids: Ids, view: str, vectors: Half | Packed) -> None:
        """Keep the vectors (n, d) of the ascending `ids`, atomically.

        A store of float16 is given no other.
        """
        recipe = self.folder / "recipe.json"
        if not recipe.exists():
            remove_abandoned(self.folder.glob(f"{PARTIAL}*"))
            write_text(recipe, json.dumps(self.recipe, indent=2, sort_keys=True) + "\n")
        content = io.BytesIO()
        write_shard(ids, {view: vectors}, content, self.storage)
        digest = fingerprint.of_bytes(content.getbuffer())
        with atomic_file(self.place(ids, view, digest)) as temporary:
            temporary.write_bytes(content.getbuffer())

    def place(self, ids: Ids, view: str, digest: str) -> Path:
        """Where a file of these ascending `ids` lies whose content has this SHA-256."""
        low, high = f"{ids[0]:0{ID_LETTERS}x}", f"{ids[-1]:0{ID_LETTERS}x}"
        name = f"{low}-{high}-{digest[:HASH_LETTERS]}.parquet"
        return self.folder.joinpath(self.view_folder(view), *shared_letters(low, high), name)

    def view_folder(self, view: str) -> str:
        """The name of the folder that new vectors of a view come into."""
        return view + ROUNDED * (self.storage == "int8")

    def of_two_models(self, view: str, *dims: int) -> UserError:
        """The error for vectors of several dimensions: what a name on a server stands for may change."""
        found = " and of ".join(map(str, sorted(dims)))
        return UserError(
            f"{self.folder} holds vectors of {found} dimensions (view {view}): the teacher has changed; "
            f"`pipeline cache prune {self.folder.name}` drops them all, then run the same command again"
        )

    def _folders(self, view: str) -> list[str]:
        """Where vectors of a view are looked for."""
        return [view] if self.storage == "float16" else [view, view + ROUNDED]

    def _check_dim(self, view: str, one: int, other: int) -> None:
        if one != other:
            raise self.of_two_models(view, one, other)

    def _parts(self, ids: Ids, view: str) -> Iterator[tuple[NDArray[np.int64], Half | Packed]]:
        """Rows of the ascending `ids` and their vectors, those of a file at a time."""
        for held, part in self._read(ids, view):
            at, wanted = places(ids, held)
            if wanted.any():
                yield at[wanted], part[np.flatnonzero(wanted)]

    def _read(self, ids: Ids, view: str) -> Iterator[tuple[Ids, Half | Packed]]:
        """Ids and vectors of the files that can hold an id; damaged files are dropped, and said."""
        for path in self._files(ids, self._folders(view)):
            if self._holds_none(path, ids):
                continue
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue  # another process has dropped it
            except OSError as error:
                raise UserError(f"{path} cannot be read ({error.strerror}); mend or remove it") from None
            if not path.stem.endswith(fingerprint.of_bytes(content)[:HASH_LETTERS]):
                say(f"{path} is damaged: dropped, its texts are encoded again")
                path.unlink(missing_ok=True)
                continue
            yield read_stored(content, view)

    def _holds_none(self, path: Path, ids: Ids) -> bool:
        """Whether a file in whose range few of the ascending `ids` lie has none of them, by its ids alone.

        If damage hides an id, its text is encoded again; if it makes one up, the whole file is read, and
        dropped.
        """
        low, high, _ = path.stem.split("-")
        few = ids[np.searchsorted(ids, np.uint64(int(low, 16))) :]
        few = few[: np.searchsorted(few, np.uint64(int(high, 16)), side="right")]
        if len(few) >= FEW:
            return False
        with suppress(pa.ArrowException, OSError, KeyError), pq.ParquetFile(path) as file:
            return not np.isin(few, file.read(columns=["text_id"])["text_id"].to_numpy()).any()
        return False

    def _files(self, ids: Ids, folders: Sequence[str]) -> Iterator[Path]:
        """The files in these folders of views whose range includes one of the ascending `ids`.

        What a killed process left half-written in the folders on the way is removed.
        """
        waiting = [(self.folder / one, "") for one in folders] if len(ids) else []
        while waiting:
            folder, letters = waiting.pop()
            for name in _names(folder):
                if LETTER.fullmatch(name):
                    inner = letters + name
                    if _any_between(ids, inner.ljust(ID_LETTERS, "0"), inner.ljust(ID_LETTERS, "f")):
                        waiting.append((folder / name, inner))
                elif named := NAME.fullmatch(name):
                    if _any_between(ids, named[1], named[2]):
                        yield folder / name
                elif name.startswith(PARTIAL):
                    remove_abandoned([folder / name])


def shared_letters(low: str, high: str) -> str:
    """The letters, three at most, that both begin with: the folders of a file."""
    count = next((place for place in range(FOLDER_LETTERS) if low[place] != high[place]), FOLDER_LETTERS)
    return low[:count]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UserError(f"{folder} cannot be read ({error.strerror}); mend that") from None


def _any_between(ids: Ids, low: str, high: str) -> bool:
    """Whether an ascending id lies between two of 16 letters, both included."""
    first = int(np.searchsorted(ids, np.uint64(int(low, 16))))
    return first < len(ids) and int(ids[first]) <= int(high, 16)
