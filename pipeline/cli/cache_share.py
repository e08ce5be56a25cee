"""`pipeline cache share`: the store's vectors become links to those that DVC's cache has.

A shard of a published set is what a file of the store is, ids and vectors, of float16 or of int8, and gets
the name that the store would give it. The store's own files whose vectors it has go. Nobody writes into the
files of either cache.
"""

import hashlib
import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from pipeline.cli import dvc_cache
from pipeline.cli.cache_options import (
    PARAMS,
    VECTORS,
    Cache,
    ParamsFile,
    Vectors,
    cache_folder,
    check_vectors,
)
from pipeline.cli.store_files import StoredRecipe, recipes, size
from pipeline.core import fingerprint
from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import UserError
from pipeline.core.progress import progress, say
from pipeline.params.load import load
from pipeline.teacher.encoding.store.store import Present, VectorStore, kept_as
from pipeline.vectors.sets import published
from pipeline.vectors.sets.shards import Ids, places, read_stored

LEAST_SHARE = 0.5
"""Of a file of the store: where the links have less of its vectors, it stays as it is."""


NO_IDS = np.empty(0, np.uint64)


@dataclass
class Linked:
    """One view of one recipe."""

    store: VectorStore
    view: str
    names: set[Path] = field(default_factory=set)
    """The links in the store."""
    ids: list[Ids] = field(default_factory=list)
    """What they hold."""


def share(
    params_file: ParamsFile = PARAMS,
    cache: Cache = None,
    vectors: Vectors = VECTORS,
    drop_float16: Annotated[
        bool,
        typer.Option("--drop-float16", help="Remove from the store what it has in int8 too, by these links."),
    ] = False,
) -> None:
    """Keep vectors once that both the store and DVC's cache hold: the store's files become hard links.

    Call it while nothing is encoded. It takes published sets of one teacher whose texts have no roles, and
    says of others why they stay apart. Both caches have to lie on one file system.
    """
    folder = cache_folder(cache, params_file)
    check_vectors(vectors)
    needed = _float16_needed(params_file)
    if drop_float16 and needed:
        raise UserError(f"--drop-float16 would have these vectors encoded again: {needed}")
    objects = dvc_cache.objects()
    if objects is None:
        raise UserError("this folder is no DVC project, so there is no cache to share with; run `dvc init`")
    before = _occupied(folder)
    linked: dict[tuple[str, str], Linked] = {}
    absent = 0
    shards = list(_shards(vectors, folder))
    with progress("share", len(shards), "shards") as advance:
        for store, view, path, digest in shards:
            found = linked.setdefault((store.fingerprint, store.view_folder(view)), Linked(store, view))
            absent += not _share(path, digest, view, store, objects, found)
            advance(1)
    spared = {name for found in linked.values() for name in found.names}
    exact, rounded = 0, False
    for found in linked.values():
        _remove_held(found.store, found, spared)
        if found.store.storage == "int8":
            plain, rounded = VectorStore(folder, found.store.recipe), True
            if drop_float16:
                _remove_held(plain, found, spared)
            else:
                exact += sum(size(path) for path, _ in _held(plain, found, spared))
    if absent:
        fix = "`pipeline cache verify --drop` and then `dvc commit` put them there"
        say(f"{absent:,} shards are not in DVC's cache, or damaged there, and stay apart; {fix}")
    if drop_float16 and not rounded:
        say("--drop-float16 removes nothing: no set is shared that is published in int8")
    if exact and not needed:
        say(f"{exact:,} bytes of float16 stay beside these in int8; --drop-float16 removes what int8 has too")
    shared, freed = sum(len(one.names) for one in linked.values()), before - _occupied(folder)
    say(f"{shared:,} files of the store are shared with DVC's cache; {freed:,} bytes freed")


def _shards(vectors: Path, cache: Path) -> Iterator[tuple[VectorStore, str, Path, str]]:
    """What may be shared: the store, the view, the published shard, and its SHA-256 by the manifest."""
    sets = sorted({path.parent.parent for path in vectors.glob(f"[!.]*/[!.]*/{published.MANIFEST}")})
    for one in map(published.open_set, sets):
        for view, manifest in one.manifests.items():
            store = VectorStore(cache, manifest["recipe"], manifest.get("storage", "float16"))
            if why := _why_apart(manifest, store):
                say(f"{one.path / view} stays apart: {why}")
                continue
            yield from (
                (store, view, one.path / view / shard["name"], shard["sha256"])
                for shard in manifest["shards"]
                if shard["rows"]
            )


def _why_apart(manifest: Mapping[str, Any], store: VectorStore) -> str:
    """Why the shards do not have the ids and the vectors of one store; empty where they have."""
    if "roles" in manifest["recipe"]:
        return "its texts have roles"
    if "members" in manifest["recipe"]:
        return "its vectors are an ensemble's"
    return "" if store.folder.is_dir() else "the store has none of its vectors"


def _share(path: Path, digest: str, view: str, store: VectorStore, objects: Path, found: Linked) -> bool:
    """Give a shard's file in DVC's cache a name in the store; False where it is not there, or damaged.

    Raises:
        UserError: the shard is damaged, or there are no links between the two.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); run `dvc checkout`") from None
    again = f"run `dvc repro -f encode@{path.parent.parent.name}`"
    if fingerprint.of_bytes(content) != digest:
        raise UserError(f"{path} is damaged: its SHA-256 is not the manifest's; {again}")
    name = hashlib.md5(content, usedforsecurity=False).hexdigest()
    cached = objects / name[:2] / name[2:]
    if not cached.exists() or cached.read_bytes() != content:
        return False
    try:
        ids, _ = read_stored(content, view)
    except pa.ArrowException as error:
        raise UserError(f"{path} is not what the store holds ({error}); {again}") from None
    target = store.place(ids, view, digest)
    if not (target.exists() and target.samefile(cached)):
        _link(cached, target, store)
    found.names.add(target)
    found.ids.append(ids)
    return True


def _link(source: Path, target: Path, store: VectorStore) -> None:
    """Make `target` another name of `source`, whose content is on the disk by then.

    What a killed process leaves lies beside the store, not among its files.
    """
    with source.open("rb") as file:
        os.fsync(file.fileno())
    with scratch_folder(store.folder) as aside:
        try:
            os.link(source, aside / target.name)
        except OSError as error:
            raise UserError(
                f"{target} cannot be a hard link to {source} ({error.strerror}); runtime.cache and DVC's "
                "cache have to lie on one file system that has hard links, and the file has to be yours"
            ) from None
        target.parent.mkdir(parents=True, exist_ok=True)
        (aside / target.name).replace(target)


def _remove_held(store: VectorStore, found: Linked, spared: Container[Path]) -> None:
    """Remove the store's own files whose vectors the links hold; what they lack of one is kept in another."""
    stored = StoredRecipe(store.folder)
    for path, held in _held(store, found, spared):
        if not held.all():
            if not stored.is_intact(path):
                continue
            own, vectors = read_stored(path.read_bytes(), found.view)
            store.add(own[~held], found.view, vectors[~held])
        path.unlink(missing_ok=True)


def _held(store: VectorStore, found: Linked, spared: Container[Path]) -> list[tuple[Path, Present]]:
    """The files in which a store keeps new vectors of the view, of which the links hold as much as counts.

    Args:
        store: of float16 or of int8.
        found: the links.
        spared: the links of all sets; they take no room.

    Returns:
        Each with which of its ids (n,) the links hold.
    """
    ids, place = np.unique(np.concatenate([NO_IDS, *found.ids])), store.folder / store.view_folder(found.view)
    own = [path for path in StoredRecipe(store.folder).files if place in path.parents and path not in spared]
    parts = ((path, places(ids, _ids(path))[1]) for path in own)
    return [(path, held) for path, held in parts if len(held) and held.mean() >= LEAST_SHARE]


def _float16_needed(params_file: Path) -> str:
    """Why the next run would look for vectors in float16, and what to do; empty where it takes int8."""
    if not params_file.exists():
        return ""  # the cache was named
    params = load(params_file)
    if kept_as(params.teacher, params.encode) == "int8":
        return ""
    if params.encode.storage == "int8":
        return f"the members of the ensemble in {params_file} are kept as float16; leave the option out"
    return f"encode.storage in {params_file} is float16; set it to int8, or leave the option out"


def _ids(path: Path) -> Ids:
    """The ids in a file of the store; none where it cannot be opened, of which `verify` tells."""
    try:
        with pq.ParquetFile(path) as file:
            return file.read(columns=["text_id"])["text_id"].to_numpy()
    except (pa.ArrowException, OSError, KeyError):
        return NO_IDS


def _occupied(cache: Path) -> int:
    """Bytes of the store that nothing else has."""
    return sum(one.bytes - one.shared for one in recipes(cache))
