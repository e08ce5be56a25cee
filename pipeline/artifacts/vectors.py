"""Published teacher vectors: vectors/SET/NNNNN.parquet and, written last, manifest.json."""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.artifacts import int8
from pipeline.artifacts.int8 import Levels
from pipeline.core import fingerprint
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError
from pipeline.core.params.teacher import Storage

MANIFEST = "manifest.json"
ROW_GROUP_ROWS = 2048
PLAIN = {b"values": b"one page a row group, plain"}
"""Marks a file in which each column of a row group ends in nothing but its values."""
UNLIMITED = 2**31 - 1
READ_AHEAD = 2
"""Shards that are read and hashed while one is used."""

Ids = NDArray[np.uint64]
Half = int8.Half


def vector_type(dim: int, value: pa.DataType | None = None) -> pa.DataType:
    """A column of vectors, of float16 unless said otherwise."""
    return pa.list_(pa.field("item", value or pa.float16(), nullable=False), dim)


def to_table(ids: Ids, views: Mapping[str, Half | Levels]) -> pa.Table:
    """An Arrow table of ids (n,) and one non-null list column (n, d) per view, of its own type."""
    columns: dict[str, pa.Array] = {"text_id": pa.array(ids)}
    fields = [pa.field("text_id", pa.uint64(), nullable=False)]
    for view, vectors in views.items():
        kind = vector_type(vectors.shape[1], pa.from_numpy_dtype(vectors.dtype))
        columns[view] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=kind)
        fields.append(pa.field(view, kind, nullable=False))
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def write_shard(
    ids: Ids, views: Mapping[str, Half], to: Path | BinaryIO, storage: Storage = "float16"
) -> None:
    """Write one shard: fixed row groups, no compression (vectors do not compress).

    A row group's column of float16 is one page, so that `read_columns` finds its values in one piece. One of
    int8 goes through a dictionary: a value takes a byte so, and four as Parquet's plain int8.
    """
    columns, metadata = int8.pack(views) if storage == "int8" else (views, PLAIN)
    pq.write_table(
        to_table(ids, columns).replace_schema_metadata(metadata),
        to,
        row_group_size=ROW_GROUP_ROWS,
        data_page_size=UNLIMITED,
        max_rows_per_page=UNLIMITED,
        use_dictionary=[f"{view}.list.element" for view in views] if storage == "int8" else False,
        compression="none",
        store_schema=True,
    )


def read_columns(content: bytes, view: str) -> tuple[Ids, Half]:
    """Ids (n,) and a view's vectors (n, d) of a shard's bytes.

    Raises:
        pa.ArrowInvalid: it is no Parquet, or holds no ids, no vectors of this view or not their scale.
    """
    file = pq.ParquetFile(pa.BufferReader(content))
    found = {field.name: field.type for field in file.schema_arrow}
    dim = getattr(found.get(view), "list_size", 0)
    kinds = (vector_type(dim), vector_type(dim, pa.int8()))
    if found.get("text_id") != pa.uint64() or found.get(view) not in kinds:
        raise pa.ArrowInvalid(f"text_id is {found.get('text_id')}, {view} is {found.get(view)}")
    if not PLAIN.items() <= (file.metadata.metadata or {}).items():
        table = file.read(columns=["text_id", view])
        return table["text_id"].to_numpy(), column(table, view)
    rows = file.metadata.num_rows
    ids, vectors = np.empty(rows, np.uint64), np.empty((rows, dim), np.float16)
    for name, values in (("text_id", ids), (view, vectors)):
        _copy_values(content, file.metadata, list(found).index(name), values)
    return ids, vectors


def _copy_values(content: bytes, metadata: pq.FileMetaData, index: int, values: NDArray) -> None:
    """Fill `values` with a column as it lies in the file: Arrow takes lists apart value by value."""
    start = 0
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        part = values[start : start + group.num_rows]
        chunk = group.column(index)
        end = chunk.data_page_offset + chunk.total_compressed_size
        part[:] = np.frombuffer(content, part.dtype, part.size, end - part.nbytes).reshape(part.shape)
        start += group.num_rows


def column(table: pa.Table, view: str) -> Half:
    """A view's column as an array (n, d), without Python objects.

    Raises:
        pa.ArrowInvalid: it is of int8, and the table's metadata do not hold its scale.
    """
    kind = table.schema.field(view).type
    flat = table[view].combine_chunks().flatten()
    values = flat.to_numpy(zero_copy_only=True).reshape(-1, kind.list_size)
    if kind.value_type != pa.int8():
        return values
    return int8.dequantise(values, int8.scale_of(table.schema.metadata, view, kind.list_size))


def write_manifest(
    folder: Path,
    recipe: Mapping[str, Any],
    dims: Mapping[str, int],
    shards: Mapping[str, int],
    storage: Storage = "float16",
) -> None:
    """Write what makes the shards in `folder` a set; it comes last.

    Args:
        folder: holds the shards.
        recipe: everything that decides the vectors.
        dims: the views and their dimensions.
        shards: rows of each shard by file name, in the order of their ids.
        storage: the type of the shards' values; of int8, what it loses is put down for each view.
    """
    manifest: dict[str, Any] = {
        "rows": sum(shards.values()),
        "dims": dims,
        "fingerprint": fingerprint.of_json(recipe),
        "recipe": recipe,
        "shards": [
            {"name": name, "rows": rows, "sha256": fingerprint.of_file(folder / name)}
            for name, rows in shards.items()
        ],
    }
    if storage == "int8":
        footers = [pq.read_metadata(folder / name).metadata for name in shards]
        lost = {view: int8.loss([int8.sums_of(footer, view) for footer in footers]) for view in dims}
        manifest |= {"storage": storage, "loss": lost}
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2, sort_keys=True) + "\n")


@dataclass(frozen=True)
class VectorSet:
    """The vectors of one text set."""

    path: Path
    manifest: dict[str, Any]

    @property
    def rows(self) -> int:
        """How many texts there are."""
        return int(self.manifest["rows"])

    @property
    def dims(self) -> dict[str, int]:
        """Dimension of every view."""
        return dict(self.manifest["dims"])

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
                raise UserError(
                    f"{self.path / shard['name']} holds other ids; run `dvc repro -f encode@{self.path.name}`"
                )
            last = int(ids[-1]) if len(ids) else last
            yield ids, vectors

    def read(self, view: str) -> tuple[Ids, Half]:
        """All ids (n,), ascending, and vectors (n, d) of a view."""
        rows = sum(shard["rows"] for shard in self.manifest["shards"])
        ids, vectors = np.empty(rows, np.uint64), np.empty((rows, self._dim(view)), np.float16)
        start = 0
        for part_ids, part in self.batches(view):
            stop = start + len(part)
            ids[start:stop], vectors[start:stop] = part_ids, part
            start = stop
        return ids, vectors

    def of(self, wanted: Ids, view: str) -> Iterator[Half]:
        """Vectors (n, d) of the ascending `wanted` ids, in their order, as many at a time as a shard has.

        Raises:
            UserError: as `batches`, or an id has no vector.
        """
        done = 0
        for ids, vectors in self.batches(view):
            stop = done + int(np.searchsorted(wanted[done:], ids[-1:], side="right").sum())
            yield vectors[rows_of(ids, wanted[done:stop], self.path)]
            done = stop
        rows_of(wanted[:0], wanted[done:], self.path)

    def _dim(self, view: str) -> int:
        if view not in self.dims:
            raise UserError(
                f"{self.path} has no view {view!r} ({', '.join(self.dims)}); add it to encode.views"
            )
        return self.dims[view]

    def _shards(self, view: str) -> Iterator[tuple[dict[str, Any], tuple[Ids, Half]]]:
        """Shards in order with what they hold, some of them read ahead: hashing takes longer than reading."""
        waiting: deque[tuple[dict[str, Any], Future[tuple[Ids, Half]]]] = deque()
        with ThreadPoolExecutor(READ_AHEAD) as pool:
            for shard in self.manifest["shards"]:
                waiting.append((shard, pool.submit(self._read_shard, shard, view)))
                if len(waiting) > READ_AHEAD:
                    shard, content = waiting.popleft()
                    yield shard, content.result()
            for shard, content in waiting:
                yield shard, content.result()

    def _read_shard(self, shard: dict[str, Any], view: str) -> tuple[Ids, Half]:
        path = self.path / shard["name"]
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


def open_set(path: Path) -> VectorSet:
    """Open vectors/SET.

    Raises:
        UserError: there is no complete set: the manifest, which is written last, is missing or broken.
    """
    manifest = path / MANIFEST
    again = f"run `dvc repro encode@{path.name}`"
    if not manifest.exists():
        raise UserError(f"{manifest} does not exist; {again}")
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{manifest} is not JSON ({error}); {again}") from None
    if not isinstance(content, dict) or not {"rows", "dims", "fingerprint", "shards"} <= content.keys():
        raise UserError(f"{manifest} is no manifest; {again}")
    return VectorSet(path, content)


def same_recipe(*sets: VectorSet) -> None:
    """Fail unless all sets come from one teacher.

    Raises:
        UserError: two sets have different recipes.
    """
    for one, other in pairwise(sets):
        if one.manifest["fingerprint"] != other.manifest["fingerprint"]:
            raise UserError(
                f"{one.path} and {other.path} come from different teachers; run `dvc repro encode`"
            )


def rows_of(ids: Ids, wanted: Ids, path: Path) -> NDArray[np.int64]:
    """Positions of `wanted` in the ascending `ids`.

    Raises:
        UserError: an id has no vector.
    """
    at = np.searchsorted(ids, wanted)
    found = at < len(ids)
    found[found] = ids[at[found]] == wanted[found]
    if not found.all():
        raise UserError(
            f"{path} has no vector for {(~found).sum()} texts (first text_id {wanted[~found][0]}); "
            f"run `dvc repro -f encode@{path.name}`"
        )
    return at
