import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from encode_runs import OUT, SMALL_PIECE, encode, published, write_params, write_texts
from flipped import flip
from refusals import refuses
from stored import cache, lines

from pipeline.cli import cache_share
from pipeline.core import fingerprint, seal
from pipeline.data.common import texts
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.vectors.sets.published import open_set, write_manifest

TEXTS = [f"text {number}" for number in range(150)]
VIEWS = ("sentence", "cls")


def dvc(*commands: str) -> None:
    for command in commands:
        subprocess.run(["dvc", *shlex.split(command)], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A project with a set of vectors, whose shards were encoded in several pieces, and DVC's copy of it."""
    root = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr(filling, "PIECE_CHARACTERS", SMALL_PIECE)
        write_params()
        write_texts(TEXTS)
        encode()
        dvc("init -q --no-scm", "add -q vectors")
    return root


@pytest.fixture
def project(made, tmp_path, monkeypatch) -> Path:
    root = shutil.copytree(made, tmp_path / "project")
    monkeypatch.chdir(root)
    return root


def share():
    return cache("share", "--vectors", "vectors")


def stored() -> VectorStore:
    return VectorStore(Path(".cache"), open_set(OUT).manifests["sentence"]["recipe"])


def files() -> list[Path]:
    return sorted(stored().folder.rglob("*.parquet"))


def inodes(folder: Path) -> set[int]:
    return {path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def assert_one_vector_of_each(count: int) -> None:
    """That the store holds those of `count` texts once, and the published ones as they are."""
    recipe, *_ = [row for row in lines(cache("list")) if row[0] == stored().folder.name]
    assert recipe[2:4] == ["cls,sentence", f"{count},{count}"]
    for view in VIEWS:
        ids, vectors = open_set(OUT).read(view)
        present, found = stored().load(ids, view)
        assert present.all()
        assert np.array_equal(found, vectors)


def test_the_store_is_links_to_dvcs_cache_and_gives_the_same_vectors(project):
    before, shards = files(), published()
    result = share()
    assert (result.exit_code, result.stdout) == (0, "")
    links = files()
    assert len(links) == len(VIEWS) * 4 < len(before)
    assert {path.stat().st_ino for path in links} <= inodes(Path(".dvc/cache/files/md5"))
    freed = sum(path.stat().st_size for path in links)
    assert f"{len(links)} files of the store are shared with DVC's cache" in result.stderr
    row = next(row for row in lines(cache("list")) if row[0] == stored().folder.name)
    recipe = (stored().folder / "recipe.json").stat().st_size
    assert row[4:6] == [str(freed + recipe), str(freed)]
    assert_one_vector_of_each(len(TEXTS))
    assert cache("verify").exit_code == 0
    shutil.rmtree(OUT)
    assert encode() == shards
    assert files() == links
    assert share().stderr.endswith("8 files of the store are shared with DVC's cache; 0 bytes freed\n")
    assert lines(cache("prune", stored().folder.name))[0][3] == str(recipe)


def test_with_hard_links_of_dvc_all_three_are_one_file_and_stages_run_on(project):
    dvc("config cache.type hardlink,copy", "checkout -q --relink")
    assert share().exit_code == 0
    for shard in OUT.rglob("*.parquet"):
        assert shard.stat().st_nlink == 3
        assert shard.stat().st_mode & 0o777 == 0o444
    write_texts([*TEXTS, "one more"])
    encode()
    assert cache("verify").exit_code == 0
    assert_one_vector_of_each(len(TEXTS) + 1)


def test_a_set_that_has_changed_leaves_one_vector_of_each_text(project):
    share()
    write_texts([*TEXTS[:-3], "a new text", "another"])
    shards = encode()
    dvc("add -q vectors")
    share()
    assert len(files()) > 8  # what the new shards lack of the old ones
    assert_one_vector_of_each(len(TEXTS) + 2)
    assert published() == shards
    write_texts(TEXTS)
    encode()
    assert_one_vector_of_each(len(TEXTS) + 2)


KILLED = """
import os, sys
from pathlib import Path
from pipeline.cli import cache_share

renamed, rename = [], Path.replace

def replace(path, target):
    renamed.append(path)
    return os._exit(9) if len(renamed) == 3 else rename(path, target)

Path.replace = replace
cache_share.share(vectors=Path("vectors"))
"""


def test_a_share_that_is_killed_leaves_a_whole_store_and_the_next_one_ends_it(project):
    assert subprocess.run([sys.executable, "-c", KILLED]).returncode == 9
    assert cache("verify").exit_code == 0
    recipe, left = lines(cache("list"))
    assert int(recipe[3].split(",")[0]) > len(TEXTS)  # some lie there twice
    assert left[1] == "1 abandoned write"
    share()
    assert_one_vector_of_each(len(TEXTS))
    assert not list(Path(".cache").rglob(".partial-*"))


def test_a_file_that_goes_while_it_is_looked_at_counts_as_nothing(project):
    before = lines(cache("list"))
    (stored().folder / "cls" / "gone.parquet").symlink_to("nowhere")
    assert lines(cache("list")) == before


def test_files_of_other_texts_stay(project):
    ids = np.sort(np.array([texts.text_id(text) for text in (*TEXTS[:3], *"abcd")], np.uint64))
    stored().add(ids, "sentence", np.ones((7, 16), np.float16))
    stored().add(ids, "tokens", np.ones((7, 16), np.float16))
    assert share().exit_code == 0
    kept = [path for path in files() if path.stat().st_nlink == 1]
    assert sorted(path.relative_to(stored().folder).parts[0] for path in kept) == ["sentence", "tokens"]


def test_what_dvc_does_not_have_stays_apart(project):
    before = files()
    shutil.rmtree(".dvc/cache/files")
    result = share()
    assert "8 shards are not in DVC's cache, or damaged there, and stay apart" in result.stderr
    assert "0 files of the store are shared" in result.stderr
    assert files() == before


def test_a_damaged_object_of_dvc_is_not_taken(project):
    before = files()
    for path in Path(".dvc/cache/files/md5").glob("??/*"):
        if path.suffix != ".dir":
            path.chmod(0o644)
            flip(path, -100)
    assert "8 shards are not in DVC's cache, or damaged there" in share().stderr
    assert files() == before


def test_what_is_said_of_a_damaged_object_puts_it_right(project):
    damaged = max(Path(".dvc/cache/files/md5").glob("??/*[!r]"), key=lambda path: path.stat().st_size)
    damaged.chmod(0o644)
    flip(damaged, -100)
    damaged.chmod(0o444)
    said = share().stderr
    assert "`pipeline cache verify --drop` and then `dvc commit`" in said
    assert "7 files of the store are shared" in said
    cache("verify", "--drop")
    dvc("commit -q")
    assert "8 files of the store are shared" in share().stderr


def round_published() -> None:
    """Publish the set as int8, into DVC's cache too."""
    shutil.rmtree(OUT)
    params = Path("params.yaml").read_text().replace("shard_rows: 64", "shard_rows: 64\n  storage: int8")
    Path("params.yaml").write_text(params)
    encode()
    dvc("add -q vectors")


def folders() -> set[str]:
    return {path.relative_to(stored().folder).parts[0] for path in files()}


def test_int8_is_shared_and_float16_stays_beside_it_until_that_is_asked_for(project):
    round_published()
    shards, exact = published(), files()
    said = share().stderr
    taken = sum(path.stat().st_size for path in exact)
    assert f"{taken:,} bytes of float16 stay beside these in int8; --drop-float16" in said
    assert "8 files of the store are shared" in said
    assert set(exact) < set(files())
    assert folders() == {*VIEWS, "cls.int8", "sentence.int8"}
    said = cache("share", "--vectors", "vectors", "--drop-float16").stderr
    assert f"8 files of the store are shared with DVC's cache; {taken:,} bytes freed" in said
    assert "stay beside" not in said
    assert folders() == {"cls.int8", "sentence.int8"}
    recipe, *_ = [row for row in lines(cache("list")) if row[0] == stored().folder.name]
    assert recipe[2:4] == ["cls.int8,sentence.int8", "150,150"]
    assert cache("verify").exit_code == 0
    shutil.rmtree(OUT)
    assert encode() == shards
    write_texts([*TEXTS, "one more"])
    encode()
    assert len(files()) == 8 + len(VIEWS)


def drop_float16():
    return cache("share", "--vectors", "vectors", "--drop-float16")


def test_float16_that_cannot_go_is_not_named(project):
    round_published()
    others = np.sort(np.array([texts.text_id(text) for text in (*TEXTS[:3], *"abcd")], np.uint64))
    stored().add(others, "sentence", np.ones((7, 16), np.float16))
    assert "bytes of float16 stay beside" in share().stderr
    drop_float16()
    assert folders() == {"sentence", "cls.int8", "sentence.int8"}
    said = share().stderr
    assert "stay beside" not in said
    assert "0 bytes freed" in said


def test_float16_of_a_set_that_is_published_so_stays(project):
    shutil.copytree(OUT, "vectors/exact")
    round_published()
    for said in (drop_float16().stderr, share().stderr):
        assert "16 files of the store are shared" in said
        assert "stay beside" not in said
        assert folders() == {*VIEWS, "cls.int8", "sentence.int8"}


def test_float16_goes_from_no_store_whose_next_run_takes_it(project):
    assert cache("share", "--vectors", "vectors", "--cache", ".cache", "--params", "none").exit_code == 0
    with refuses("encoded again", "encode.storage in params.yaml is float16", "set it to int8"):
        cache_share.share(vectors=Path("vectors"), drop_float16=True)
    round_published()
    member = {"teacher": {"kind": "hashing", "dim": 16}}
    write_params(teacher={"kind": "ensemble", "members": [member, member]})
    params = Path("params.yaml").read_text().replace("shard_rows: 64", "shard_rows: 64\n  storage: int8")
    Path("params.yaml").write_text(params)
    before = files()
    with refuses("encoded again", "members of the ensemble in params.yaml"):
        cache_share.share(vectors=Path("vectors"), drop_float16=True)
    assert files() == before
    assert "stay beside" not in share().stderr


KILLED_AS_IT_DROPS = """
import os
from pathlib import Path
from pipeline.cli import cache_share

removed, unlink = [], Path.unlink

def counted(path, missing_ok=False):
    removed.append(path)
    return os._exit(9) if len(removed) == 3 else unlink(path, missing_ok=missing_ok)

share = cache_share._remove_held
def remove(store, *told):
    if store.storage == "float16":
        Path.unlink = counted
    share(store, *told)

cache_share._remove_held = remove
cache_share.share(vectors=Path("vectors"), drop_float16=True)
"""


def test_a_drop_that_is_killed_loses_no_vector_and_the_next_one_ends_it(project):
    round_published()
    shards, others = published(), ["a", "b"]
    some = np.sort(np.array([texts.text_id(text) for text in (*TEXTS[:9], *others)], np.uint64))
    present, vectors = stored().load(some, "sentence")
    vectors[~present] = np.arange(16)
    stored().add(some, "sentence", vectors)  # goes but for the others'
    assert subprocess.run([sys.executable, "-c", KILLED_AS_IT_DROPS]).returncode == 9
    assert folders() > {"sentence.int8", "cls.int8"}
    assert cache("verify").exit_code == 0
    shutil.rmtree(OUT)
    encode()
    assert drop_float16().exit_code == 0
    (left,) = [path for path in files() if ".int8" not in str(path)]
    assert pq.read_metadata(left).num_rows == len(others)
    np.testing.assert_array_equal(stored().load(some[~present], "sentence")[1], vectors[~present])
    assert published() == shards


def test_that_there_is_no_int8_to_take_is_said(project):
    params = Path("params.yaml").read_text().replace("shard_rows: 64", "shard_rows: 64\n  storage: int8")
    Path("params.yaml").write_text(params)
    said = drop_float16().stderr
    assert "--drop-float16 removes nothing: no set is shared that is published in int8" in said
    assert folders() == set(VIEWS)


def test_a_store_of_int8_from_the_start_is_shared(project, capsys, monkeypatch):
    monkeypatch.setattr(filling, "PIECE_CHARACTERS", SMALL_PIECE)
    shutil.rmtree(".cache")
    round_published()
    shards = published()
    assert folders() == {"cls.int8", "sentence.int8"}
    before = len(files())
    assert "8 files of the store are shared" in share().stderr
    assert len(files()) == 8 < before
    write_texts([*TEXTS[:-3], "a new text", "another"])
    encode()
    dvc("add -q vectors")
    assert "8 files of the store are shared" in share().stderr
    write_texts(TEXTS)
    capsys.readouterr()
    assert encode() == shards
    assert "0 encoded, 150 taken from the store" in capsys.readouterr().err


def test_int8_without_the_scales_of_its_vectors_never_comes_into_the_store(project):
    round_published()
    shard, manifest = OUT / "cls/00000.parquet", OUT / "cls/manifest.json"
    pq.write_table(pq.read_table(shard).drop_columns("cls_scale"), shard)
    told = seal.read_json(manifest, "encode")
    told["shards"][0]["sha256"] = fingerprint.of_file(shard)
    manifest.write_text(seal.to_json(told))
    dvc("add -q vectors")
    before = files()
    with refuses(shard, "cls_scale", "`dvc repro -f encode@corpus`"):
        cache_share.share(vectors=Path("vectors"))
    assert files() == before


def test_of_sets_that_are_not_as_the_store_it_says_why_they_stay(project):
    shutil.rmtree(OUT)
    for name, recipe in (("asked", {"roles": {}}), ("mixed", {"members": []}), ("lost", {"kind": "hashing"})):
        write_manifest(Path("vectors") / name / "sentence", recipe, 16, {})
    said = share().stderr
    for name, why in (("asked", "roles"), ("mixed", "an ensemble's"), ("lost", "the store has none")):
        assert re.search(f"vectors/{name}/sentence stays apart: .*{why}", said)


def test_refusals(project, monkeypatch):
    before = files()

    def refused(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refused)
        with refuses("Invalid cross-device link", "on one file system"):
            cache_share.share(vectors=Path("vectors"))
    shard = min(OUT.rglob("*.parquet"))
    flip(shard, -100)
    with refuses(shard, "damaged", "`dvc repro -f encode@corpus`"):
        cache_share.share(vectors=Path("vectors"))
    Path(".dvc/config").write_text("[core")
    with refuses("DVC's settings are damaged", ".dvc/config"):
        cache_share.share(vectors=Path("vectors"))
    shutil.rmtree(".dvc")
    with refuses("no DVC project"):
        cache_share.share(vectors=Path("vectors"))
    assert files() == before
    assert not list(Path(".cache").rglob(".partial-*"))
