"""Shards and sets of int8, as they lie on disk and as they are read."""

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from published_sets import write_set
from refusals import refuses

from pipeline.core import seal
from pipeline.vectors.sets import int8, published, shards

IDS = np.unique(np.random.default_rng(0).integers(0, 2**64 - 1, 5000, np.uint64))
VIEWS = {
    view: np.random.default_rng(dim).normal(size=(5000, dim)).astype(np.float16)
    for view, dim in (("sentence", 96), ("cls", 3))
}
DIMS = {"sentence": 96, "cls": 3}
CUT = 3000


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    path = tmp_path_factory.mktemp("shard") / "00000.parquet"
    shards.write_shard(IDS, VIEWS, path, "int8")
    return path


@pytest.fixture
def folder(tmp_path):
    """vectors/corpus in two shards."""
    return write_set(tmp_path / "corpus", IDS, VIEWS, [CUT], {"model": "m"}, "int8").path


def check(read, true):
    """What is read is one of the 255 steps up to a dimension's largest magnitude, and the nearest."""
    steps = np.abs(true.astype(np.float64)).max(axis=0, initial=0) / 127
    rounding = 127 / 2**11 + 1e-4  # of float16 where it is largest, in steps
    assert read.shape == true.shape
    assert (np.abs(read / steps - np.round(read / steps)) <= rounding).all()
    assert (np.abs(read - true.astype(np.float64)) <= (0.5 + rounding) * steps).all()


def test_views_are_non_null_fixed_size_lists_of_int8_with_their_scale_beside_them(shard):
    schema = pq.read_schema(shard)
    assert schema.names == ["text_id", "sentence", "cls"]
    assert not any(field.nullable for field in schema)
    said = json.loads(schema.metadata[b"int8"])
    for view, dim in DIMS.items():
        assert schema.field(view).type == pa.list_(pa.field("item", pa.int8(), nullable=False), dim)
        expected = np.abs(VIEWS[view].astype(np.float64)).max(axis=0) / 127
        np.testing.assert_allclose(said[view]["scale"], expected, rtol=1e-6)


def test_polars_reads_a_shard_and_its_metadata(shard):
    read = pl.read_parquet(shard)
    assert read.schema == {
        "text_id": pl.UInt64,
        "sentence": pl.Array(pl.Int8, 96),
        "cls": pl.Array(pl.Int8, 3),
    }
    scale = json.loads(pl.read_parquet_metadata(shard)["int8"])["sentence"]["scale"]
    check(read["sentence"].to_numpy() * np.array(scale), VIEWS["sentence"])


def test_a_value_takes_a_byte(shard):
    """Parquet's plain int8 takes four, twice as many as float16."""
    metadata = pq.ParquetFile(shard).metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [2048, 2048, 904]
    assert sum(group.column(1).total_compressed_size for group in groups) < 1.08 * VIEWS["sentence"].size
    assert all(group.column(1).compression == "UNCOMPRESSED" for group in groups)
    assert not any(group.column(0).has_dictionary_page for group in groups)


@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_what_is_read_is_float16_and_the_nearest_step(tmp_path, rows):
    part = {view: found[:rows] for view, found in VIEWS.items()}
    shards.write_shard(IDS[:rows], part, path := tmp_path / "shard.parquet", "int8")
    for view, found in part.items():
        ids, read = shards.read_columns(path.read_bytes(), view)
        assert np.array_equal(ids, IDS[:rows])
        assert read.dtype == np.float16
        check(read, found)


def test_equal_vectors_give_equal_bytes(shard, tmp_path):
    views = {view: found.copy() for view, found in VIEWS.items()}
    shards.write_shard(IDS.copy(), views, tmp_path / "again", "int8")
    assert (tmp_path / "again").read_bytes() == shard.read_bytes()


def test_a_set_is_read_whole_or_shard_by_shard(folder):
    opened = published.open_set(folder)
    ids, found = opened.read("sentence")
    assert np.array_equal(ids, IDS)
    assert found.dtype == np.float16
    parts = [part for _, part in opened.batches("sentence")]
    assert np.array_equal(np.concatenate(parts), found)
    for part, rows in zip(parts, (slice(CUT), slice(CUT, None)), strict=True):
        check(part, VIEWS["sentence"][rows])


def test_the_manifest_holds_what_all_rows_lost(folder):
    opened = published.open_set(folder)
    assert opened.manifests.keys() == VIEWS.keys()
    for view, true in VIEWS.items():
        assert opened.manifests[view]["storage"] == "int8"
        assert opened.manifests[view]["loss"].keys() == {view}
        one, other = true.astype(np.float64), opened.read(view)[1].astype(np.float64)
        cosines = np.einsum("nd,nd->n", one, other)
        cosines /= np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        assert opened.manifests[view]["loss"][view] == pytest.approx(
            {
                "mean_cosine": cosines.mean(),
                "least_cosine": cosines.min(),
                "relative_rmse": np.linalg.norm(one - other) / np.linalg.norm(one),
            },
            rel=1e-12,
        )


def test_a_float16_set_says_nothing_of_it(tmp_path):
    opened = write_set(tmp_path / "corpus", IDS, VIEWS)
    assert [{"storage", "loss"} & manifest.keys() for manifest in opened.manifests.values()] == [set(), set()]


def test_sets_of_one_teacher_go_together_however_they_are_stored(folder, tmp_path):
    plain = write_set(tmp_path / "wordnet", IDS, VIEWS, recipe={"model": "m"})
    published.same_recipe(published.open_set(folder), plain)


def rewrite(path, metadata, level=None):
    """The shard with other metadata, and this level as its last."""
    table = pq.read_table(path)
    if level is not None:
        flat = table["cls"].combine_chunks().flatten().to_numpy().copy()
        flat[-1] = level
        kind = shards.vector_type(3, pa.int8())
        column = pa.FixedSizeListArray.from_arrays(pa.array(flat), type=kind)
        table = table.set_column(1, table.schema.field("cls"), column)
    pq.write_table(table.replace_schema_metadata(metadata), path)


def scale(*values):
    return {int8.KEY: json.dumps({"cls": {"scale": values}}).encode()}


FAULTS = {
    "none": (None, None, "metadata"),
    "cut": ({int8.KEY: b'{"cls": {"scale": [0.1, 0.'}, None, "metadata"),
    "short": (scale(0.1, 0.1), None, " 3 "),
    "zero": (scale(0.1, 0.1, 0.0), None, " 3 "),
    "not a number": (scale(0.1, 0.1, np.nan), None, " 3 "),
    "too large": (scale(1, 1, 1e5), 127, "finite"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_shard_whose_scale_is_at_fault_names_itself_and_the_stage(folder, fault):
    metadata, level, name = FAULTS[fault]
    manifest = seal.read_json(folder / "cls/manifest.json", "encode")
    rewrite(folder / "cls/00001.parquet", metadata, level)
    manifest["shards"][1]["sha256"] = published.fingerprint.of_file(folder / "cls/00001.parquet")
    (folder / "cls/manifest.json").write_text(seal.to_json(manifest))
    with refuses(folder / "cls/00001.parquet", "'cls'", name, "`dvc repro -f encode@corpus`"):
        published.open_set(folder).read("cls")


def test_a_shard_damaged_on_disk_is_noticed_by_its_hash(folder):
    path = folder / "cls/00000.parquet"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"scale": [0.', b'"scale": [9.'))
    assert path.read_bytes() != content
    with refuses(path, "SHA-256", "`dvc repro -f encode@corpus`"):
        published.open_set(folder).read("cls")
