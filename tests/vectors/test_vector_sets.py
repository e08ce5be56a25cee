import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from published_sets import published_files, write_set
from refusals import refuses

from pipeline.vectors.sets import published, shards

IDS = np.arange(10, 60, 10, dtype=np.uint64)
VECTORS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float16)
SHARDS = {"00000.parquet": 3, "00001.parquet": 2}


@pytest.fixture
def folder(tmp_path):
    """vectors/corpus in two shards."""
    views = {"sentence": VECTORS, "cls": -VECTORS}
    return write_set(tmp_path / "corpus", IDS, views, [3], {"model": "m"}).path


def sign(path):
    """Write a manifest that says what the shards should hold, with the hashes of what they do hold."""
    published.write_manifest(path / "sentence", {"model": "m"}, 4, SHARDS)


def test_a_set_is_read_whole_or_shard_by_shard(folder):
    vector_set = published.open_set(folder)
    assert (vector_set.rows, vector_set.dims) == (5, {"sentence": 4, "cls": 4})
    ids, found = vector_set.read("cls")
    assert np.array_equal(ids, IDS)
    assert np.array_equal(found, -VECTORS)
    assert found.dtype == np.float16
    assert [ids.tolist() for ids, _ in vector_set.batches("sentence")] == [[10, 20, 30], [40, 50]]


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_shards_that_are_read_ahead_come_in_order(tmp_path, count):
    ids, found = np.arange(count * 2, dtype=np.uint64), np.arange(count * 2, dtype=np.float16).reshape(-1, 1)
    opened = write_set(tmp_path / "corpus", ids, {"cls": found}, range(2, 2 * count, 2))
    assert [ids.tolist() for ids, _ in opened.batches("cls")] == ids.reshape(-1, 2).tolist()
    assert np.array_equal(opened.read("cls")[1], found)


def test_a_reader_may_stop_after_the_first_shard(folder):
    (folder / "cls/00001.parquet").unlink()
    batches = published.open_set(folder).batches("cls")
    assert next(batches)[0].tolist() == [10, 20, 30]
    batches.close()


@pytest.mark.parametrize("wanted", [[], [10, 20], [30]])
def test_shards_after_the_last_wanted_id_are_left_alone(folder, wanted):
    (folder / "sentence/00001.parquet").unlink()
    [found] = published.open_set(folder).of(np.array(wanted, np.uint64), "sentence")
    assert np.array_equal(found, VECTORS[np.isin(IDS, wanted)])


@pytest.mark.parametrize("absent", [5, 15, 35, 45, 70])
def test_an_id_without_a_vector_is_told_wherever_it_would_be(folder, absent):
    for others in ([], [10], [50], [10, 40]):
        wanted = np.array(sorted([*others, absent]), np.uint64)
        with refuses(folder, "1 texts", f"text_id {absent})", "`dvc repro -f encode@corpus`"):
            list(published.open_set(folder).of(wanted, "sentence"))


@pytest.mark.parametrize("sizes", [{}, {"00000.parquet": 0}])
def test_an_empty_set(folder, sizes):
    shards.write_shard(IDS[:0], {"sentence": VECTORS[:0]}, folder / "sentence/00000.parquet")
    published.write_manifest(folder / "sentence", {}, 4, sizes)
    ids, found = published.open_set(folder).read("sentence")
    assert ids.shape == (0,)
    assert found.shape == (0, 4)


@pytest.mark.parametrize("views", [(), ("sentence",), ("sentence", "cls")])
def test_a_set_without_a_manifest_is_no_set(folder, views):
    (folder / "sentence/manifest.json").unlink()
    with refuses(folder / "sentence/manifest.json", "`dvc repro encode@corpus`"):
        published.open_set(folder, *views)
    shutil.rmtree(folder)
    for _ in range(2):  # no folder, and an empty one
        with refuses(folder / (*views, "VIEW")[0] / "manifest.json", "`dvc repro encode@corpus`"):
            published.open_set(folder, *views)
        folder.mkdir(exist_ok=True)


def test_a_manifest_that_is_not_json(folder):
    (folder / "sentence/manifest.json").write_text('{"rows": 5,')
    with refuses(folder / "sentence/manifest.json", "JSON", "`dvc repro -f encode@corpus`"):
        published.open_set(folder)


def test_a_manifest_that_lacks_keys(folder):
    (folder / "sentence/manifest.json").write_text('{"shards": []}')
    with refuses(folder / "sentence/manifest.json", "no manifest", "`dvc repro -f encode@corpus`"):
        published.open_set(folder)


def test_an_absent_view_names_those_there_are(folder):
    named = folder, "'token_mean'", "(cls, sentence)", "encode.views"
    with refuses(*named):
        published.open_set(folder).read("token_mean")
    with refuses(*named):
        published.open_set(folder, "sentence", "token_mean")


def test_no_view_is_looked_at_but_those_that_are_asked_for(folder):
    shutil.rmtree(folder / "sentence")
    (folder / "token_mean").mkdir()
    opened = published.open_set(folder, "cls", "cls")
    assert (opened.rows, opened.dims) == (5, {"cls": 4})
    assert np.array_equal(opened.read("cls")[1], -VECTORS)


def test_a_view_does_not_change_with_the_others_of_its_set(folder, tmp_path):
    alone = write_set(tmp_path / "alone", IDS, {"cls": -VECTORS}, [3], {"model": "m"}).path
    files = published_files(folder)
    assert published_files(alone) == {name: files[name] for name in files if name.startswith("cls/")}


def test_the_folder_of_one_view_is_not_taken_for_another(folder):
    (folder / "cls").rename(folder / "token_mean")
    with refuses(folder / "token_mean/manifest.json", "cls;", "`dvc repro -f encode@corpus`"):
        published.open_set(folder, "token_mean")


def not_finite(value):
    spoilt = VECTORS[3:].copy()
    spoilt[1, 2] = value
    return lambda path: shards.write_shard(IDS[3:], {"sentence": spoilt}, path)


FAULTS = {
    "missing": (lambda path: path.unlink(), "missing"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "SHA-256"),
    "empty": (lambda path: path.write_bytes(b""), "SHA-256"),
    "without the view": (
        lambda path: shards.write_shard(IDS[3:], {"cls": VECTORS[3:]}, path),
        "sentence is None",
    ),
    "fewer rows": (
        lambda path: shards.write_shard(IDS[3:4], {"sentence": VECTORS[3:4]}, path),
        "(1, 4)",
    ),
    "narrower": (
        lambda path: shards.write_shard(IDS[3:], {"sentence": VECTORS[3:, :3].copy()}, path),
        "(2, 3)",
    ),
    "NaN": (not_finite(np.nan), "finite"),
    "infinite": (not_finite(-np.inf), "finite"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_shard_at_fault_names_itself_and_the_stage(folder, fault):
    spoil, name = FAULTS[fault]
    spoil(folder / "sentence/00001.parquet")
    if fault not in ("missing", "cut", "empty"):
        sign(folder)
    with refuses(folder / "sentence/00001.parquet", name, "`dvc repro -f encode@corpus`"):
        published.open_set(folder).read("sentence")


def test_sets_of_one_teacher_go_together_and_others_do_not(folder):
    mine, whole = published.open_set(folder, "cls"), published.open_set(folder)
    other = published.VectorSet(folder.with_name("wordnet"), {"cls": {"recipe": {"model": "g"}, "rows": 1}})
    published.same_recipe(mine)
    published.same_recipe(whole, mine, whole)
    with refuses(folder / "cls", folder.with_name("wordnet") / "cls", "`dvc repro encode`"):
        published.same_recipe(whole, mine, other)
    empty = published.VectorSet(folder, {"cls": {"recipe": {}, "rows": 0}})
    published.same_recipe(mine, empty, mine)
    published.write_manifest(folder / "sentence", {"model": "n"}, 4, SHARDS)
    with refuses(folder / "cls", folder / "sentence", "`dvc repro encode`"):
        published.same_recipe(published.open_set(folder))


def test_sets_of_one_teacher_may_have_different_roles_but_one_prompt_for_each(folder):
    def of(name, **prompts):
        recipes = {role: {"model": "m", "prompt": prompt} for role, prompt in prompts.items()}
        manifest = {"recipe": published.recipe_of(recipes), "rows": 1}
        return published.VectorSet(folder.with_name(name), {"cls": manifest})

    corpus, query = of("corpus", text="", query="q: "), of("wordnet", query="q: ")
    published.same_recipe(corpus, query, of("other", text=""), of("third", document="d: "))
    with refuses(folder.with_name("corpus"), folder.with_name("other"), "`dvc repro encode`"):
        published.same_recipe(corpus, of("other", query="Q: "))
    # The set between the two has no text in their common role.
    with refuses(folder.with_name("corpus"), folder.with_name("other"), "`dvc repro encode`"):
        published.same_recipe(corpus, query, of("other", text="t: "))


def of_single_precision(path):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS[3:].astype(np.float32).reshape(-1)), 4)
    pq.write_table(pa.table({"text_id": IDS[3:], "sentence": lists}), path)


UNCHECKED = {
    "float32": of_single_precision,
    "text": lambda path: pq.write_table(pa.table({"text_id": IDS[3:], "sentence": ["a", "b"]}), path),
    "other ids": lambda path: shards.write_shard(IDS[:2], {"sentence": VECTORS[3:]}, path),
    "falling ids": lambda path: shards.write_shard(IDS[:2:-1].copy(), {"sentence": VECTORS[3:]}, path),
}


@pytest.mark.parametrize("fault", UNCHECKED)
def test_a_set_of_another_make_names_the_stage(folder, fault):
    UNCHECKED[fault](folder / "sentence/00001.parquet")
    sign(folder)
    with refuses(folder / "sentence/00001.parquet", "`dvc repro -f encode@corpus`"):
        published.open_set(folder).read("sentence")
