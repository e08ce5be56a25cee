import json
import os
import subprocess
import sys

import numpy as np
import pytest
from killed import killed_write
from refusals import refuses

from pipeline.teacher.encoding.store import store as store_module
from pipeline.teacher.encoding.store.store import VectorStore

RECIPE = {"model": "m", "weights": "w", "prompt": "", "precision": "float32"}
IDS = np.array([0, 7, 8, 500, 2**63, 2**64 - 1], np.uint64)
VECTORS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float16)
WRITER = """
import sys, numpy as np
from pathlib import Path
from pipeline.teacher.encoding.store.store import VectorStore
sys.stdin.readline()
start = int(sys.argv[2])
for _ in range(5):
    for low in range(start, start + 100, 10):
        ids = np.arange(low, low + 10, dtype=np.uint64)
        VectorStore(Path(sys.argv[1]), {"a": 1}).add(ids, "cls", ids.astype(np.float16).reshape(-1, 1) / 4)
"""


@pytest.fixture
def store(tmp_path):
    return VectorStore(tmp_path, RECIPE)


def files(store):
    return sorted(path.relative_to(store.folder).as_posix() for path in store.folder.rglob("*.parquet"))


def test_vectors_of_several_files_come_back_row_by_row(store):
    for rows in ([1, 3], [0], [5]):
        store.add(IDS[rows], "sentence", VECTORS[rows])
    present, found = store.load(IDS, "sentence")
    assert present.tolist() == [True, True, False, True, False, True]
    assert np.array_equal(found[present], VECTORS[present])


def test_vectors_of_two_dimensions_are_a_fault_and_not_a_mixture(store):
    store.add(IDS[:3], "sentence", VECTORS[:3])
    assert (store.dim(IDS, "sentence"), store.dim(IDS, "cls")) == (4, None)
    store.add(IDS[3:], "sentence", np.ones((3, 8), np.float16))
    with refuses(store.folder, "4 and of 8 dimensions", f"`pipeline cache prune {store.folder.name}`"):
        store.load(IDS, "sentence")


def test_what_nobody_kept_is_absent(store):
    store.add(IDS, "sentence", VECTORS)
    others = np.array([1, 6, 9, 2**63 - 1, 2**64 - 2], np.uint64)
    for ids, view in ((IDS, "cls"), (others, "sentence"), (IDS[:0], "sentence")):
        present, found = store.load(ids, view)
        assert len(present) == len(ids)
        assert not present.any()
        assert found is None


@pytest.mark.parametrize("change", [{"weights": "x"}, {"prompt": "query: "}, {"revision": None}])
def test_another_recipe_is_another_store(tmp_path, store, change):
    store.add(IDS, "sentence", VECTORS)
    other = VectorStore(tmp_path, {**RECIPE, **change})
    assert other.fingerprint != store.fingerprint
    assert not other.load(IDS, "sentence")[0].any()
    other.add(IDS, "sentence", -VECTORS)
    assert np.array_equal(store.load(IDS, "sentence")[1], VECTORS)


def test_the_same_recipe_finds_its_vectors_again_and_says_what_they_are(tmp_path, store):
    store.add(IDS, "sentence", VECTORS)
    again = VectorStore(tmp_path, dict(reversed(RECIPE.items())))
    assert np.array_equal(again.load(IDS, "sentence")[1], VECTORS)
    assert json.loads((again.folder / "recipe.json").read_text()) == RECIPE


def test_the_same_vectors_are_kept_once(store):
    store.add(IDS, "sentence", VECTORS)
    store.add(IDS, "sentence", VECTORS)
    assert len(files(store)) == 1


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[content.index(VECTORS[1].tobytes())] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [flip_a_bit, lambda path: path.write_bytes(path.read_bytes()[:-50]), lambda path: path.write_bytes(b"")],
)
def test_a_damaged_file_is_dropped_and_said(store, capsys, damage):
    store.add(IDS[:3], "sentence", VECTORS[:3])
    (damaged,) = files(store)
    store.add(IDS[3:], "sentence", VECTORS[3:])
    damage(store.folder / damaged)
    present, found = store.load(IDS, "sentence")
    assert present.tolist() == [False] * 3 + [True] * 3
    assert np.array_equal(found[3:], VECTORS[3:])
    assert f"{damaged} is damaged: dropped, its texts are encoded again" in capsys.readouterr().err
    assert damaged not in files(store)


@pytest.mark.parametrize("few", [True, False])
def test_of_a_file_that_has_none_of_a_few_ids_no_vector_is_read(store, capsys, monkeypatch, few):
    monkeypatch.setattr(store_module, "FEW", 3 if few else 2)
    store.add(IDS[[0, 1, 5]], "sentence", VECTORS[[0, 1, 5]])
    (others,) = files(store)
    flip_a_bit(store.folder / others)
    store.add(IDS[2:4], "sentence", VECTORS[2:4])
    present, found = store.load(IDS[2:4], "sentence")
    assert present.all()
    assert np.array_equal(found, VECTORS[2:4])
    assert (others in files(store), "is damaged" in capsys.readouterr().err) == (few, not few)
    present, _ = store.load(IDS[[1, 3]], "sentence")
    assert present.tolist() == [False, True]
    assert others not in files(store)


def test_what_a_killed_process_left_is_passed_over_and_removed_on_the_way(store):
    store.add(IDS[:3], "sentence", VECTORS[:3])
    folder = (store.folder / files(store)[0]).parent
    left = killed_write(folder / "file.parquet")
    elsewhere = killed_write(store.folder / "sentence/8/0/0/file.parquet")
    unknown = folder / ".partial-1a2b.parquet"
    unknown.write_bytes(b"half a file")
    assert store.load(IDS[:3], "sentence")[0].all()
    assert [path.exists() for path in (left, elsewhere, unknown)] == [False, True, True]
    assert store.holds(IDS[-2:], "sentence").tolist() == [False, False]
    assert not elsewhere.exists()


@pytest.mark.parametrize(
    ("low", "high", "folder"),
    [
        (0x0ABC << 48, 0x0ABC << 48, "0/a/b"),
        (0xABC0 << 48, (0xABC1 << 48) - 1, "a/b/c"),
        (0xABC0 << 48, 0xABCF << 48, "a/b/c"),
        (0xAB00 << 48, 0xABFF << 48, "a/b"),
        (0xAB00 << 48, 0xAC00 << 48, "a"),
        (0, 2**64 - 1, ""),
        (0x7FFF << 48, 0x8000 << 48, ""),
    ],
)
def test_a_file_lies_under_the_first_letters_that_its_ids_share(store, low, high, folder):
    ids = np.unique(np.array([low, high], np.uint64))
    store.add(ids, "cls", VECTORS[: len(ids)])
    (name,) = files(store)
    assert name.split("/")[1:-1] == [letter for letter in folder.split("/") if letter]
    assert store.load(ids, "cls")[0].all()
    assert store.holds(ids, "cls").all()


@pytest.fixture
def many(store):
    """256 shards of two files each, and a file whose ids lie everywhere."""
    for i in range(256):
        ids = np.array([16 * i, 16 * i + 1, 16 * i + 9], np.uint64) << np.uint64(52)
        store.add(ids[:2], "cls", VECTORS[:2])
        store.add(ids[2:], "cls", VECTORS[2:3])
    store.add(np.array([5, 2**64 - 1], np.uint64), "cls", VECTORS[:2])
    return store


@pytest.mark.parametrize(
    ("ids", "folders"),
    [
        ([0xA70 << 52, 0xA71 << 52, 0xA79 << 52], ["", "a", "a/7", "a/7/9"]),
        ([0xA79 << 52], ["", "a", "a/7", "a/7/9"]),
        ([0xA71 << 52], ["", "a", "a/7"]),
        ([5, 2**64 - 1], ["", "0", "0/0", "f", "f/f"]),
    ],
)
def test_a_lookup_lists_the_folders_of_its_ids_alone(many, monkeypatch, ids, folders):
    listed, list_folder = [], os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or list_folder(path))
    assert many.load(np.array(ids, np.uint64), "cls")[0].all()
    assert sorted(listed) == sorted(many.folder / "cls" / folder for folder in folders)


def test_files_of_before_there_were_subfolders_are_found(store):
    store.add(IDS, "sentence", VECTORS)
    store.add(IDS[:3], "cls", VECTORS[:3])
    for name in files(store):
        view, *_, file = name.split("/")
        (store.folder / name).rename(store.folder / view / file)
    assert np.array_equal(store.load(IDS, "sentence")[1], VECTORS)
    assert store.holds(IDS, "cls").tolist() == [True] * 3 + [False] * 3


def test_which_ids_are_held_is_read_without_their_vectors(store):
    assert store.holds(IDS, "sentence").tolist() == [False] * 6
    for rows in ([1, 3], [0], [5]):
        store.add(IDS[rows], "sentence", VECTORS[rows])
    spoilt = store.folder / next(name for name in files(store) if "7-" in name)
    content = spoilt.read_bytes()
    spoilt.write_bytes(content.replace(VECTORS[1].tobytes(), bytes(8)))
    assert spoilt.read_bytes() != content
    assert store.holds(IDS, "sentence").tolist() == [True, True, False, True, False, True]
    assert store.holds(IDS, "cls").tolist() == [False] * 6
    assert store.holds(IDS[:0], "sentence").tolist() == []
    spoilt.write_bytes(content[:-9])
    assert store.holds(IDS, "sentence").tolist() == [True, False, False, False, False, True]
    assert spoilt.exists()


def test_processes_that_write_at_the_same_time_do_not_disturb_each_other(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, start], stdin=subprocess.PIPE, text=True)
        for start in ("0", "50")
    ]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    store = VectorStore(tmp_path, {"a": 1})
    present, found = store.load(np.arange(150, dtype=np.uint64), "cls")
    assert present.all()
    assert np.array_equal(found[:, 0], np.arange(150) / 4)
    assert len(files(store)) == 15
