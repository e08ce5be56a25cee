"""The vector store: every vector ever computed, by (recipe fingerprint, view, text_id), outside DVC.

    CACHE/vectors/FINGERPRINT/recipe.json
    CACHE/vectors/FINGERPRINT/VIEW/LOW-HIGH-SHA256.parquet      text_id, VIEW

A file's name holds the range of its ids and the hash of its content, so a lookup opens only files that can
hold an id, a damaged file is noticed before it is read, and two processes that write the same vectors write
the same file.
"""

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.artifacts.vectors import Half, Ids, read_columns, write_shard
from pipeline.core import fingerprint
from pipeline.core.atomic import atomic_file, write_text
from pipeline.core.errors import UserError
from pipeline.core.progress import say

HASH_LETTERS = 32
FINGERPRINT_LETTERS = 16


class VectorStore:
    """The vectors of one recipe."""

    def __init__(self, cache: Path, recipe: Mapping[str, Any]) -> None:
        self.fingerprint = fingerprint.of_json(recipe)
        self.folder = cache / "vectors" / self.fingerprint[:FINGERPRINT_LETTERS]
        self._recipe = recipe

    def load(self, ids: Ids, view: str) -> tuple[NDArray[np.bool_], Half | None]:
        """Which of the ascending `ids` (n,) have a vector of this view, and the vectors (n, d).

        Rows without a vector are not set; the vectors are None where no id has one.
        """
        present = np.zeros(len(ids), dtype=bool)
        vectors: Half | None = None
        for held, part in self._overlapping(ids, view):
            _, at, source = np.intersect1d(ids, held, assume_unique=True, return_indices=True)
            if len(at):
                vectors = np.empty((len(ids), part.shape[1]), np.float16) if vectors is None else vectors
                vectors[at] = part[source]
                present[at] = True
        return present, vectors

    def add(self, ids: Ids, view: str, vectors: Half) -> None:
        """Keep the vectors (n, d) of the ascending `ids`, atomically."""
        recipe = self.folder / "recipe.json"
        if not recipe.exists():
            write_text(recipe, json.dumps(self._recipe, indent=2, sort_keys=True) + "\n")
        content = io.BytesIO()
        write_shard(ids, {view: vectors}, content)
        digest = fingerprint.of_bytes(content.getbuffer())[:HASH_LETTERS]
        name = f"{ids[0]:016x}-{ids[-1]:016x}-{digest}.parquet"
        with atomic_file(self.folder / view / name) as temporary:
            temporary.write_bytes(content.getbuffer())

    def _overlapping(self, ids: Ids, view: str) -> Iterator[tuple[Ids, Half]]:
        """Ids and vectors of the files whose range overlaps `ids`; damaged files are dropped, and said."""
        for path in sorted((self.folder / view).glob("[0-9a-f]*.parquet")) if len(ids) else []:
            low, high, digest = path.stem.split("-")
            if int(low, 16) > ids[-1] or int(high, 16) < ids[0]:
                continue
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue  # another process has dropped it
            except OSError as error:
                raise UserError(f"{path} cannot be read ({error.strerror}); mend or remove it") from None
            if fingerprint.of_bytes(content)[:HASH_LETTERS] != digest:
                say(f"{path} is damaged: dropped, its texts are encoded again")
                path.unlink(missing_ok=True)
                continue
            yield read_columns(content, view)
