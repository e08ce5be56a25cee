import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from encode_runs import OUT, encode, published, write_texts
from flipped import flip
from refusals import refuses
from shared_vectors import TEXTS, VIEWS, assert_one_vector_of_each, dvc, files, inodes, share, stored
from stored import cache, lines

from pipeline.cli import cache_share
from pipeline.data.common import texts
from pipeline.vectors.sets.published import write_manifest


def test_the_store_is_links_to_dvcs_cache_and_gives_the_same_vectors(project_with_vectors):
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


def test_with_hard_links_of_dvc_all_three_are_one_file_and_stages_run_on(project_with_vectors):
    dvc("config cache.type hardlink,copy", "checkout -q --relink")
    assert share().exit_code == 0
    for shard in OUT.rglob("*.parquet"):
        assert shard.stat().st_nlink == 3
        assert shard.stat().st_mode & 0o777 == 0o444
    write_texts([*TEXTS, "one more"])
    encode()
    assert cache("verify").exit_code == 0
    assert_one_vector_of_each(len(TEXTS) + 1)


def test_a_set_that_has_changed_leaves_one_vector_of_each_text(project_with_vectors):
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


def test_a_share_that_is_killed_leaves_a_whole_store_and_the_next_one_ends_it(project_with_vectors):
    assert subprocess.run([sys.executable, "-c", KILLED]).returncode == 9
    assert cache("verify").exit_code == 0
    recipe, left = lines(cache("list"))
    assert int(recipe[3].split(",")[0]) > len(TEXTS)  # some lie there twice
    assert left[1] == "1 abandoned write"
    share()
    assert_one_vector_of_each(len(TEXTS))
    assert not list(Path(".cache").rglob(".partial-*"))


def test_a_file_that_goes_while_it_is_looked_at_counts_as_nothing(project_with_vectors):
    before = lines(cache("list"))
    (stored().folder / "cls" / "gone.parquet").symlink_to("nowhere")
    assert lines(cache("list")) == before


def test_files_of_other_texts_stay(project_with_vectors):
    ids = np.sort(np.array([texts.text_id(text) for text in (*TEXTS[:3], *"abcd")], np.uint64))
    stored().add(ids, "sentence", np.ones((7, 16), np.float16))
    stored().add(ids, "tokens", np.ones((7, 16), np.float16))
    assert share().exit_code == 0
    kept = [path for path in files() if path.stat().st_nlink == 1]
    assert sorted(path.relative_to(stored().folder).parts[0] for path in kept) == ["sentence", "tokens"]


def test_what_dvc_does_not_have_stays_apart(project_with_vectors):
    before = files()
    shutil.rmtree(".dvc/cache/files")
    result = share()
    assert "8 shards are not in DVC's cache, or damaged there, and stay apart" in result.stderr
    assert "0 files of the store are shared" in result.stderr
    assert files() == before


def test_a_damaged_object_of_dvc_is_not_taken(project_with_vectors):
    before = files()
    for path in Path(".dvc/cache/files/md5").glob("??/*"):
        if path.suffix != ".dir":
            path.chmod(0o644)
            flip(path, -100)
    assert "8 shards are not in DVC's cache, or damaged there" in share().stderr
    assert files() == before


def test_what_is_said_of_a_damaged_object_puts_it_right(project_with_vectors):
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


def test_of_sets_that_are_not_as_the_store_it_says_why_they_stay(project_with_vectors):
    shutil.rmtree(OUT)
    for name, recipe in (("asked", {"roles": {}}), ("mixed", {"members": []}), ("lost", {"kind": "hashing"})):
        write_manifest(Path("vectors") / name / "sentence", recipe, 16, {})
    said = share().stderr
    for name, why in (("asked", "roles"), ("mixed", "an ensemble's"), ("lost", "the store has none")):
        assert re.search(f"vectors/{name}/sentence stays apart: .*{why}", said)


def test_refusals(project_with_vectors, monkeypatch):
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
