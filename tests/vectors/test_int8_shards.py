"""Shards and sets of int8, as they lie on disk and as they are read."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from published_sets import write_set
from refusals import refuses

from pipeline.core import seal
from pipeline.vectors.sets import published, shards

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
    """What is read is one of the 255 steps up to a vector's largest magnitude, and the nearest."""
    steps = np.abs(true.astype(np.float64)).max(axis=1, initial=0, keepdims=True) / 127
    rounding = 127 / 2**11 + 1e-4  # of float16 where it is largest, in steps
    assert read.shape == true.shape
    assert (np.abs(read / steps - np.round(read / steps)) <= rounding).all()
    assert (np.abs(read - true.astype(np.float64)) <= (0.5 + rounding) * steps).all()


def test_views_are_non_null_fixed_size_lists_of_int8_with_their_numbers_beside_them(shard):
    schema = pq.read_schema(shard)
    beside = ["scale", "cosine", "error"]
    assert schema.names == [
        "text_id",
        "sentence",
        *(f"sentence_{one}" for one in beside),
        "cls",
        *(f"cls_{one}" for one in beside),
    ]
    assert not any(field.nullable for field in schema)
    for view, dim in DIMS.items():
        assert schema.field(view).type == pa.list_(pa.field("item", pa.int8(), nullable=False), dim)
        expected = np.abs(VIEWS[view].astype(np.float64)).max(axis=1) / 127
        np.testing.assert_allclose(pq.read_table(shard)[f"{view}_scale"].to_numpy(), expected, rtol=1e-6)


def test_polars_reads_a_shard(shard):
    read = pl.read_parquet(shard)
    assert read.schema["sentence"] == pl.Array(pl.Int8, 96)
    check(read["sentence"].to_numpy() * read["sentence_scale"].to_numpy()[:, None], VIEWS["sentence"])


def test_a_value_takes_a_byte(shard):
    """Parquet's plain int8 takes four, twice as many as float16."""
    metadata = pq.ParquetFile(shard).metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [2048, 2048, 904]
    assert sum(group.column(1).total_compressed_size for group in groups) < 1.08 * VIEWS["sentence"].size
    assert all(group.column(1).compression == "UNCOMPRESSED" for group in groups)
    assert not any(group.column(other).has_dictionary_page for group in groups for other in (0, 2, 3, 4))


def test_vectors_that_are_read_as_they_are_stored_are_written_as_they_were(shard, tmp_path):
    read = {view: shards.read_stored(shard.read_bytes(), view)[1] for view in VIEWS}
    shards.write_shard(IDS, read, tmp_path / "again", "int8")
    assert (tmp_path / "again").read_bytes() == shard.read_bytes()


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
            rel=1e-4,
        )


def test_a_float16_set_says_nothing_of_it(tmp_path):
    opened = write_set(tmp_path / "corpus", IDS, VIEWS)
    assert [{"storage", "loss"} & manifest.keys() for manifest in opened.manifests.values()] == [set(), set()]


def test_sets_of_one_teacher_go_together_however_they_are_stored(folder, tmp_path):
    plain = write_set(tmp_path / "wordnet", IDS, VIEWS, recipe={"model": "m"})
    published.same_recipe(published.open_set(folder), plain)


def rewrite(path, scales):
    """The shard with this column as its scales."""
    table = pq.read_table(path)
    place = table.schema.get_field_index("cls_scale")
    table = table.remove_column(place)
    if scales is not None:
        table = table.add_column(place, "cls_scale", pa.array(scales))
    pq.write_table(table, path)


ROWS = 5000 - CUT
FAULTS = {
    "none": (None, "cls_scale"),
    "other type": (np.ones(ROWS), "cls_scale"),
    "zero": (np.zeros(ROWS, np.float32), "positive"),
    "not a number": (np.full(ROWS, np.nan, np.float32), "positive"),
    "too large": (np.full(ROWS, 1e5, np.float32), "finite"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_shard_whose_scale_is_at_fault_names_itself_and_the_stage(folder, fault):
    scales, name = FAULTS[fault]
    manifest = seal.read_json(folder / "cls/manifest.json", "encode")
    rewrite(folder / "cls/00001.parquet", scales)
    manifest["shards"][1]["sha256"] = published.fingerprint.of_file(folder / "cls/00001.parquet")
    (folder / "cls/manifest.json").write_text(seal.to_json(manifest))
    with refuses(folder / "cls/00001.parquet", "'cls'", name, "`dvc repro -f encode@corpus`"):
        published.open_set(folder).read("cls")


def test_a_shard_damaged_on_disk_is_noticed_by_its_hash(folder):
    path = folder / "cls/00000.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with refuses(path, "SHA-256", "`dvc repro -f encode@corpus`"):
        published.open_set(folder).read("cls")
