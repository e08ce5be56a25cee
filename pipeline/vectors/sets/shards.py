"""One shard of teacher vectors: a Parquet file of ids and a column of vectors for each view."""

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.params.teacher import Storage
from pipeline.vectors.sets import int8
from pipeline.vectors.sets.int8 import Packed

ROW_GROUP_ROWS = 2048
PLAIN = {b"values": b"one page a row group, plain"}
"""Marks a file in which each column of a row group ends in nothing but its values."""
UNLIMITED = 2**31 - 1

Ids = NDArray[np.uint64]
Half = int8.Half


def places(
    ids: NDArray[np.integer], sought: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Positions of those sought (any shape) in the ascending `ids` (n,), and which of them are there."""
    at = np.searchsorted(ids, sought)
    known = at < len(ids)
    known[known] = ids[at[known]] == sought[known]
    return at, known


def vector_type(dim: int, value: pa.DataType | None = None) -> pa.DataType:
    """A column of vectors, of float16 unless said otherwise."""
    return pa.list_(pa.field("item", value or pa.float16(), nullable=False), dim)


def to_table(ids: Ids, views: Mapping[str, Half | Packed]) -> pa.Table:
    """An Arrow table of ids (n,) and one non-null list column (n, d) per view, of its own type.

    Beside one of int8 stand the numbers of `Packed`, a column of float32 each.
    """
    columns: dict[str, pa.Array] = {"text_id": pa.array(ids)}
    fields = [pa.field("text_id", pa.uint64(), nullable=False)]
    for view, vectors in views.items():
        values = vectors.levels if isinstance(vectors, Packed) else vectors
        kind = vector_type(values.shape[1], pa.from_numpy_dtype(values.dtype))
        columns[view] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), type=kind)
        fields.append(pa.field(view, kind, nullable=False))
        for name, column in int8.columns(view).items() if isinstance(vectors, Packed) else ():
            columns[column] = pa.array(getattr(vectors, name))
            fields.append(pa.field(column, pa.float32(), nullable=False))
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def write_shard(
    ids: Ids, views: Mapping[str, Half | Packed], to: Path | BinaryIO, storage: Storage = "float16"
) -> None:
    """Write one shard: fixed row groups, no compression (vectors do not compress).

    A row group's column of float16 is one page, so that `read_columns` finds its values in one piece. One of
    int8 goes through a dictionary: a value takes a byte so, and four as Parquet's plain int8.
    """
    metadata = PLAIN
    if storage == "int8":
        packed = {view: one if isinstance(one, Packed) else int8.pack(one) for view, one in views.items()}
        views, metadata = packed, int8.metadata(packed)
    pq.write_table(
        to_table(ids, views).replace_schema_metadata(metadata),
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
        pa.ArrowInvalid: as `read_stored`.
    """
    ids, vectors = read_stored(content, view)
    return ids, vectors.restored() if isinstance(vectors, Packed) else vectors


def read_stored(content: bytes, view: str) -> tuple[Ids, Half | Packed]:
    """Ids (n,) and a view's vectors (n, d) of a shard's bytes, those of int8 as they are.

    Raises:
        pa.ArrowInvalid: it is no Parquet, or holds no ids, no vectors of this view or not their scales.
    """
    file = pq.ParquetFile(pa.BufferReader(content))
    found = {field.name: field.type for field in file.schema_arrow}
    dim = getattr(found.get(view), "list_size", 0)
    kinds = (vector_type(dim), vector_type(dim, pa.int8()))
    if found.get("text_id") != pa.uint64() or found.get(view) not in kinds:
        raise pa.ArrowInvalid(f"text_id is {found.get('text_id')}, {view} is {found.get(view)}")
    if not PLAIN.items() <= (file.metadata.metadata or {}).items():
        beside = [name for name in int8.columns(view).values() if name in found]
        table = file.read(columns=["text_id", view, *beside])
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


def column(table: pa.Table, view: str) -> Half | Packed:
    """A view's column as an array (n, d), without Python objects; of int8 with what stands beside it.

    Raises:
        pa.ArrowInvalid: it is of int8, and its scales are missing or no scales.
    """
    kind = table.schema.field(view).type
    flat = table[view].combine_chunks().flatten()
    values = flat.to_numpy(zero_copy_only=True).reshape(-1, kind.list_size)
    if kind.value_type != pa.int8():
        return values
    names = int8.columns(view)
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    if any(types.get(name) != pa.float32() for name in names.values()):
        raise pa.ArrowInvalid(f"it holds no {' or '.join(names.values())} of the int8 view {view!r}")
    packed = Packed(values, **{name: table[column].to_numpy() for name, column in names.items()})
    if not (np.isfinite(packed.scale) & (packed.scale > 0)).all():
        raise pa.ArrowInvalid(f"the scales of the int8 view {view!r} are not positive numbers")
    return packed
