import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from encode_runs import OUT, SMALL_PIECE, encode, published, write_params, write_texts
from refusals import refuses
from shared_vectors import TEXTS, VIEWS, dvc, files, share, stored
from stored import cache, lines

from pipeline.cli import cache_share
from pipeline.core import fingerprint, seal
from pipeline.data.common import texts
from pipeline.teacher.encoding.store import filling


def round_published() -> None:
    """Publish the set as int8, into DVC's cache too."""
    shutil.rmtree(OUT)
    params = Path("params.yaml").read_text().replace("shard_rows: 64", "shard_rows: 64\n  storage: int8")
    Path("params.yaml").write_text(params)
    encode()
    dvc("add -q vectors")


def folders() -> set[str]:
    return {path.relative_to(stored().folder).parts[0] for path in files()}


def test_int8_is_shared_and_float16_stays_beside_it_until_that_is_asked_for(project_with_vectors):
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


def test_float16_that_cannot_go_is_not_named(project_with_vectors):
    round_published()
    others = np.sort(np.array([texts.text_id(text) for text in (*TEXTS[:3], *"abcd")], np.uint64))
    stored().add(others, "sentence", np.ones((7, 16), np.float16))
    assert "bytes of float16 stay beside" in share().stderr
    drop_float16()
    assert folders() == {"sentence", "cls.int8", "sentence.int8"}
    said = share().stderr
    assert "stay beside" not in said
    assert "0 bytes freed" in said


def test_float16_of_a_set_that_is_published_so_stays(project_with_vectors):
    shutil.copytree(OUT, "vectors/exact")
    round_published()
    for said in (drop_float16().stderr, share().stderr):
        assert "16 files of the store are shared" in said
        assert "stay beside" not in said
        assert folders() == {*VIEWS, "cls.int8", "sentence.int8"}


def test_float16_goes_from_no_store_whose_next_run_takes_it(project_with_vectors):
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


def test_a_drop_that_is_killed_loses_no_vector_and_the_next_one_ends_it(project_with_vectors):
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


def test_that_there_is_no_int8_to_take_is_said(project_with_vectors):
    params = Path("params.yaml").read_text().replace("shard_rows: 64", "shard_rows: 64\n  storage: int8")
    Path("params.yaml").write_text(params)
    said = drop_float16().stderr
    assert "--drop-float16 removes nothing: no set is shared that is published in int8" in said
    assert folders() == set(VIEWS)


def test_a_store_of_int8_from_the_start_is_shared(project_with_vectors, capsys, monkeypatch):
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


def test_int8_without_the_scales_of_its_vectors_never_comes_into_the_store(project_with_vectors):
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
