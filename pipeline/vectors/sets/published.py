"""Published teacher vectors: vectors/SET/VIEW/NNNNN.parquet and, written last, manifest.json.

A view has a folder of its own, so that what reads one does not run again when another is added.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.core import fingerprint, seal
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError
from pipeline.params.teacher import Similarity, Storage
from pipeline.vectors.sets import int8
from pipeline.vectors.sets.shards import Half, Ids, places, read_columns

MANIFEST = "manifest.json"
READ_AHEAD = 2
"""Shards that are read and hashed while one is used."""


def recipe_of(recipes: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The recipe of a set from those of its roles: `text` alone has its own, others are named."""
    return recipes["text"] if set(recipes) == {"text"} else {"roles": recipes}


def write_manifest(
    folder: Path,
    recipe: Mapping[str, Any],
    dim: int,
    shards: Mapping[str, int],
    storage: Storage = "float16",
    similarity: Similarity = "cosine",
) -> None:
    """Write what makes the shards in SET/VIEW a view of the set; it comes last.

    Args:
        folder: SET/VIEW, which holds the shards.
        recipe: everything that decides the vectors, as `recipe_of` gives it.
        dim: of the vectors.
        shards: rows of each shard by file name, in the order of their ids.
        storage: the type of the shards' values; what int8 loses is put down.
        similarity: how the teacher compares them; put down where it is not the cosine.
    """
    view = folder.name
    manifest: dict[str, Any] = {
        "rows": sum(shards.values()),
        "dims": {view: dim},
        "fingerprint": fingerprint.of_json(recipe),
        "recipe": recipe,
        "shards": [
            {"name": name, "rows": rows, "sha256": fingerprint.of_file(folder / name)}
            for name, rows in shards.items()
        ],
    }
    if storage == "int8":
        footers = [pq.read_metadata(folder / name).metadata for name in shards]
        lost = int8.loss([int8.sums_of(footer, view) for footer in footers])
        manifest |= {"storage": storage, "loss": {view: lost}}
    if similarity != "cosine":
        manifest |= {"similarity": similarity}
    write_text(folder / MANIFEST, seal.to_json(manifest))


@dataclass(frozen=True)
class VectorSet:
    """Views of one text set."""

    path: Path
    """vectors/SET."""
    manifests: dict[str, dict[str, Any]]
    """Of each view that was opened, one or more."""

    @property
    def rows(self) -> int:
        """How many texts there are, the same in all views."""
        return int(next(iter(self.manifests.values()))["rows"])

    @property
    def dims(self) -> dict[str, int]:
        """Dimension of every view that was opened."""
        return {view: int(manifest["dims"][view]) for view, manifest in self.manifests.items()}

    @property
    def prompts(self) -> dict[str, str]:
        """What the teacher has put before the texts of each role that the set has."""
        manifest = next(iter(self.manifests.values()))
        return {role: recipe.get("prompt", "") for role, recipe in by_role(manifest).items()}

    def similarity(self, view: str) -> Similarity:
        """How the teacher compares the vectors of a view that was opened."""
        return self.manifests[view].get("similarity", "cosine")

    def batches(self, view: str) -> Iterator[tuple[Ids, Half]]:
        """Ids (n,) and vectors (n, d) of one shard at a time, ids ascending over all of them.

        Raises:
            UserError: the view is absent, or a shard is missing, damaged, of another size than the
                manifest says, or holds a value that is not finite.
        """
        self._dim(view)
        last = -1
        for shard, (ids, vectors) in self._shards(view):
            if len(ids) and int(ids[0]) <= last:
                path = self.path / view / shard["name"]
                raise UserError(f"{path} holds other ids; run `dvc repro -f encode@{self.path.name}`")
            last = int(ids[-1]) if len(ids) else last
            yield ids, vectors

    def read(self, view: str) -> tuple[Ids, Half]:
        """All ids (n,), ascending, and vectors (n, d) of a view."""
        dim = self._dim(view)
        rows = sum(shard["rows"] for shard in self.manifests[view]["shards"])
        ids, vectors = np.empty(rows, np.uint64), np.empty((rows, dim), np.float16)
        start = 0
        for part_ids, part in self.batches(view):
            stop = start + len(part)
            ids[start:stop], vectors[start:stop] = part_ids, part
            start = stop
        return ids, vectors

    def of(self, wanted: Ids, view: str) -> Iterator[Half]:
        """Vectors (n, d) of the ascending `wanted` ids, in their order, as many at a time as a shard has.

        After the last of them no further shard is looked at.

        Raises:
            UserError: as `batches`, or an id has no vector.
        """
        done = 0
        for ids, vectors in self.batches(view):
            stop = done + int(np.searchsorted(wanted[done:], ids[-1:], side="right").sum())
            yield vectors[rows_of(ids, wanted[done:stop], self.path)]
            done = stop
            if done == len(wanted):
                break
        rows_of(wanted[:0], wanted[done:], self.path)

    def _dim(self, view: str) -> int:
        if view not in self.manifests:
            raise _absent(self.path, view, self.manifests)
        return self.dims[view]

    def _shards(self, view: str) -> Iterator[tuple[dict[str, Any], tuple[Ids, Half]]]:
        """Shards in order with what they hold, some of them read ahead: hashing takes longer than reading."""
        waiting: deque[tuple[dict[str, Any], Future[tuple[Ids, Half]]]] = deque()
        with ThreadPoolExecutor(READ_AHEAD) as pool:
            for shard in self.manifests[view]["shards"]:
                waiting.append((shard, pool.submit(self._read_shard, shard, view)))
                if len(waiting) > READ_AHEAD:
                    shard, content = waiting.popleft()
                    yield shard, content.result()
            for shard, content in waiting:
                yield shard, content.result()

    def _read_shard(self, shard: dict[str, Any], view: str) -> tuple[Ids, Half]:
        path = self.path / view / shard["name"]
        again = f"run `dvc repro -f encode@{self.path.name}`"
        try:
            content = path.read_bytes()
            if fingerprint.of_bytes(content) != shard["sha256"]:
                raise UserError(f"{path} is damaged: its SHA-256 is not the manifest's; {again}")
            ids, vectors = read_columns(content, view)
        except FileNotFoundError:
            raise UserError(f"{path} is missing; {again}") from None
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{path} is not a readable shard ({error}); {again}") from None
        if not (ids[1:] > ids[:-1]).all():
            raise UserError(f"{path}: its ids do not ascend; {again}")
        rows, dim = shard["rows"], self.dims[view]
        if vectors.shape != (rows, dim):
            raise UserError(f"{path} holds {vectors.shape}, the manifest says {rows} rows of {dim}; {again}")
        if not _all_finite(vectors):
            raise UserError(f"{path}: view {view!r} holds a value that is not finite; {again}")
        return ids, vectors


def _all_finite(vectors: Half) -> bool:
    """As np.isfinite(vectors).all(), ten times as fast: NaN and infinity have an exponent of ones."""
    return not len(vectors) or bool((vectors.view(np.uint16) & 0x7FFF).max() < 0x7C00)


def open_set(path: Path, *views: str) -> VectorSet:
    """Open these views of vectors/SET, and look at no other; all that it has, by name, where none is named.

    Raises:
        UserError: a view is absent, or it is not complete: its manifest, which is written last, is missing or
            broken.
    """
    there = sorted(folder.name for folder in path.glob("[!.]*") if folder.is_dir())
    for view in views:
        if there and view not in there:
            raise _absent(path, view, there)
    # A set without any view fails where its manifest is looked for.
    return VectorSet(path, {view: _read_manifest(path, view) for view in views or there or ("VIEW",)})


def _read_manifest(path: Path, view: str) -> dict[str, Any]:
    manifest = path / view / MANIFEST
    again = f"run `dvc repro -f encode@{path.name}`"
    content = seal.read_json(manifest, f"encode@{path.name}")
    if not {"rows", "dims", "recipe", "shards"} <= content.keys():
        raise UserError(f"{manifest} is no manifest; {again}")
    if view not in content["dims"]:
        raise UserError(f"{manifest} is that of {', '.join(content['dims'])}; {again}")
    return content


def _absent(path: Path, view: str, there: Iterable[str]) -> UserError:
    return UserError(f"{path} has no view {view!r} ({', '.join(there)}); add it to encode.views")


def same_recipe(*sets: VectorSet) -> None:
    """Fail unless all opened views of all sets come from one teacher; an empty set comes from none.

    Raises:
        UserError: two have different recipes, or different prompts for one role.
    """
    found = [
        (one.path / view, by_role(manifest))
        for one in sets
        if one.rows
        for view, manifest in one.manifests.items()
    ]
    for (one, its_own), (other, others) in combinations(found, 2):
        known = {role: recipe for role, recipe in others.items() if role in its_own}
        models = [_without_prompts(recipe) for recipe in (*its_own.values(), *others.values())]
        if any(its_own[role] != recipe for role, recipe in known.items()) or models[1:] != models[:-1]:
            raise UserError(f"{one} and {other} come from different teachers; run `dvc repro encode`")


def by_role(manifest: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The recipe of each role that a set has; an empty set has none."""
    recipe = manifest["recipe"]
    return recipe.get("roles", {"text": recipe}) if recipe else {}


def _without_prompts(recipe: object) -> object:
    if isinstance(recipe, list):
        return [_without_prompts(part) for part in recipe]
    if not isinstance(recipe, dict):
        return recipe
    return {key: _without_prompts(part) for key, part in recipe.items() if key != "prompt"}


def rows_of(ids: Ids, wanted: Ids, path: Path) -> NDArray[np.int64]:
    """Positions of `wanted` in the ascending `ids`.

    Raises:
        UserError: an id has no vector.
    """
    at, found = places(ids, wanted)
    if not found.all():
        raise UserError(
            f"{path} has no vector for {(~found).sum()} texts (first text_id {wanted[~found][0]}); "
            f"run `dvc repro -f encode@{path.name}`"
        )
    return at
