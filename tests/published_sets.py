"""Published vector sets, written as `encode` does."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline.params.teacher import Storage
from pipeline.vectors.sets import published, shards
from pipeline.vectors.sets.shards import Half, Ids


def write_set(
    folder: Path,
    ids: Ids,
    views: Mapping[str, Half],
    cuts: Sequence[int] = (),
    recipe: Mapping[str, Any] | None = None,
    storage: Storage = "float16",
) -> published.VectorSet:
    """Vectors (n, d) of each view in shards that begin at 0 and at these rows."""
    for view, vectors in views.items():
        (folder / view).mkdir(parents=True, exist_ok=True)
        sizes = {}
        for number, (start, stop) in enumerate(pairwise([0, *cuts, len(ids)])):
            name = f"{number:05d}.parquet"
            shards.write_shard(ids[start:stop], {view: vectors[start:stop]}, folder / view / name, storage)
            sizes[name] = len(ids[start:stop])
        published.write_manifest(folder / view, recipe or {}, vectors.shape[1], sizes, storage)
    return published.open_set(folder, *views)


def published_files(folder: Path) -> dict[str, bytes]:
    """The files of a set, by their names in it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
