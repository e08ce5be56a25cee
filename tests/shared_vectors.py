"""A project whose vectors lie in the store and in DVC's cache, for tests of `pipeline cache share`."""

import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
from encode_runs import OUT, SMALL_PIECE, encode, write_params, write_texts
from stored import cache, lines

from pipeline.teacher.encoding.store import filling
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.vectors.sets.published import open_set

TEXTS = [f"text {number}" for number in range(150)]
VIEWS = ("sentence", "cls")


def dvc(*commands: str) -> None:
    for command in commands:
        subprocess.run(["dvc", *shlex.split(command)], check=True, stdout=subprocess.DEVNULL)


def write_project() -> None:
    """A set of vectors in the working folder, whose shards were encoded in several pieces, and DVC's copy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filling, "PIECE_CHARACTERS", SMALL_PIECE)
        write_params()
        write_texts(TEXTS)
        encode()
        dvc("init -q --no-scm", "add -q vectors")


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
