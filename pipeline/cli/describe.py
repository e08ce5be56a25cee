"""What `pipeline inspect` says of each kind of artifact: facts by name, then sample rows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.cli import model_folder
from pipeline.cli.named_texts import is_labelled, with_places, with_texts
from pipeline.core import seal
from pipeline.core.errors import UserError
from pipeline.data.common.files.tables import readable_or
from pipeline.data.student import student_folder
from pipeline.vectors.sets import int8, published, shards
from pipeline.vectors.sets.shards import Half
from pipeline.vectors.space.geometry import effective_rank, mean_pairwise_cosine

SAMPLED = 1000
"""Rows whose geometry is measured."""
SHOWN = 5
"""Rows that are printed."""


@dataclass
class Description:
    """An artifact in words."""

    kind: str
    facts: dict[str, str] = field(default_factory=dict)
    sample: list[str] = field(default_factory=list)


def table(path: Path) -> Description:
    """A Parquet file: schema, rows, sample rows, and the geometry of its vector columns.

    Raises:
        UserError: it is not a readable Parquet file.
    """
    with readable_or(path, "make it again"):
        return _table(path)


def _table(path: Path) -> Description:
    file = pq.ParquetFile(path)
    head = next(file.iter_batches(batch_size=SAMPLED), None)
    said = Description("Parquet table")
    said.facts["rows"] = f"{file.metadata.num_rows:,} (row groups: {file.num_row_groups:,})"
    said.facts["size"] = f"{path.stat().st_size:,} bytes"
    said.facts |= {f"column {column.name}": str(column.type) for column in file.schema_arrow}
    if head is not None and head.num_rows:
        first = pa.Table.from_batches([head])
        for column in first.schema:
            if pa.types.is_fixed_size_list(column.type) and _are_vectors(column.type, first.schema):
                there = first.filter(first[column.name].is_valid())
                if lacking := len(first) - len(there):
                    said.facts[f"{column.name} null"] = f"{lacking} rows"
                said.facts |= _geometry(column.name, _vectors(path, there, column.name))
        labelled = is_labelled(first.column_names)
        shown = pl.DataFrame(first.slice(0, SHOWN))
        said.sample = _printed(with_texts(path, SHOWN) if labelled else with_places(path, shown))
    return said


def vector_set(path: Path) -> Description:
    """A folder of teacher vectors: recipe, rows, dimensions and geometry of each view, sample rows."""
    return _teacher_vectors(published.open_set(path))


def view(path: Path) -> Description:
    """The folder of one view of such a set: the same of this view alone."""
    whole = path.absolute()
    return _teacher_vectors(published.open_set(whole.parent, whole.name))


def _teacher_vectors(opened: published.VectorSet) -> Description:
    said, manifests = Description("teacher vectors"), opened.manifests.values()
    manifest = next(iter(manifests))  # all views of a set have the same texts, shards and recipe
    said.facts["rows"] = f"{opened.rows:,} (shards: {len(manifest['shards']):,})"
    said.facts["dimensions"] = ", ".join(f"{view} {dim}" for view, dim in opened.dims.items())
    said.facts["storage"] = str(manifest.get("storage", "float16"))
    for view, lost in (item for one in manifests for item in one.get("loss", {}).items()):
        said.facts[f"{view} loss"] = (
            f"cosine: mean {lost['mean_cosine']:.6f}, least {lost['least_cosine']:.6f}; "
            f"relative RMSE {lost['relative_rmse']:.3%}"
        )
    said.facts["fingerprint"] = str(manifest["fingerprint"])
    for role, recipe in published.by_role(manifest).items():
        in_role = {} if role == "text" else {"prompt": f"prompt of a {role}"}
        said.facts |= {f"recipe {in_role.get(key, key)}": str(recipe[key]) for key in sorted(recipe)}
    for view in opened.dims:
        found = next((part for part in opened.batches(view) if len(part[0])), None)
        if found is None:
            continue
        ids, rows = found
        # Ids are hashes, so the first shard is a random sample of the texts.
        said.facts |= _geometry(view, rows[:SAMPLED])
        said.sample += _rows(shards.to_table(ids[:SHOWN], {view: rows[:SHOWN]}))
    return said


def model(path: Path) -> Description:
    """A sentence-transformers folder (a student) or the teacher's parts: modules, size, dimension."""
    parts = not (path / "modules.json").exists()
    said = Description("teacher's parts" if parts else "sentence-transformers model")
    said.facts["modules"] = ", ".join(kind for kind, _ in model_folder.modules(path))
    said.facts["dimension"] = str(model_folder.dimension(path) or "not known")
    said.facts["max length"] = (
        f"{length} tokens" if (length := model_folder.max_length(path)) else "not limited"
    )
    said.facts["parameters"] = f"{model_folder.parameters(path):,}"
    said.facts["size"] = f"{_bytes(path):,} bytes"
    return said


def refused(path: Path) -> Description:
    """The folder of a student that the teacher cannot give: why, and what to do."""
    return Description("no student", {"reason": str(student_folder.refusal(path))})


def vocabulary(path: Path) -> Description:
    """A folder of vocabulary vectors: those, by token id."""
    said = table(path / "vocabulary.parquet")
    return Description("the teacher's vocabulary vectors", said.facts, said.sample)


def is_pca(path: Path) -> bool:
    """Whether a folder holds principal components, and nothing else in .safetensors files."""
    files = [file.name for file in path.glob("*.safetensors")]
    return bool(files) and all(
        "explained_variance" in model_folder.tensor_shapes(path, name) for name in files
    )


def pca(path: Path) -> Description:
    """A folder of principal components: dimension and share of the variance explained, by view."""
    from pipeline.vectors.space import pca as pca_file

    said = Description("principal components")
    for file in sorted(path.glob("*.safetensors")):
        fitted = pca_file.read(path, file.stem)
        shares = np.cumsum(fitted.explained_variance) / fitted.explained_variance.sum()
        kept = [size for size in (32, 64, 128, 256, 512) if size < fitted.dim]
        explained = ", ".join(f"{size}: {shares[size - 1]:.1%}" for size in kept)
        said.facts[f"{file.stem} dimension"] = str(fitted.dim)
        said.facts[f"{file.stem} mean's length"] = f"{np.linalg.norm(fitted.mean):.4f}"
        said.facts[f"{file.stem} variance kept"] = explained or "all"
    return said


def numbers(path: Path) -> Description:
    """A metrics file: every number by its path of keys."""
    read = model_folder.read_json(path)
    if not isinstance(read, dict):
        raise UserError(f"{path} is JSON, but no metrics file: its top level is no object; name another")
    read.pop(seal.KEY, None)
    return Description("metrics", dict(_flat(read, "")))


def _are_vectors(kind: pa.DataType, schema: pa.Schema) -> bool:
    packed = kind.value_type == pa.int8() and int8.KEY in (schema.metadata or {})
    return packed or pa.types.is_floating(kind.value_type)


def _vectors(path: Path, rows: pa.Table, name: str) -> Half:
    try:
        found = shards.column(rows, name)
    except pa.ArrowException as error:
        is_published = (path.parent / published.MANIFEST).exists()
        text_set = path.absolute().parent.parent.name
        again = f"run `dvc repro -f encode@{text_set}`" if is_published else "make it again"
        raise UserError(f"{path} is damaged ({error}); {again}") from None
    return found.restored() if isinstance(found, int8.Packed) else found


def _geometry(name: str, rows: Half) -> dict[str, str]:
    """Norms, mean cosine and effective rank of (n, d)."""
    finite = rows[np.isfinite(rows).all(axis=1)]
    facts = {f"{name} not finite": f"{len(rows) - len(finite)} rows"} if len(finite) < len(rows) else {}
    if len(finite) < 2:
        return facts
    norms = np.linalg.norm(finite.astype(np.float64), axis=1)
    facts[f"{name} norms"] = f"min {norms.min():.4f}, median {np.median(norms):.4f}, max {norms.max():.4f}"
    facts[f"{name} mean cosine"] = f"{mean_pairwise_cosine(finite):.4f} over {len(finite):,} rows"
    facts[f"{name} effective rank"] = (
        f"{effective_rank(finite):.1f} of {min(len(finite) - 1, finite.shape[1])}"
    )
    return facts


def _rows(rows: pa.Table) -> list[str]:
    return _printed(pl.DataFrame(rows.slice(0, SHOWN)))


def _printed(frame: pl.DataFrame) -> list[str]:
    with pl.Config(tbl_hide_dataframe_shape=True, fmt_str_lengths=60, tbl_width_chars=110, tbl_cols=-1):
        return str(frame).split("\n")


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _flat(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, str(value)
