"""Small stores in the working directory's cache, and `pipeline cache` on them."""

from pathlib import Path

import numpy as np
from typer.testing import CliRunner, Result

from pipeline.cli.__main__ import app
from pipeline.params.teacher import HashingTeacher
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.teacher.kinds.hashing import Hashing
from pipeline.vectors.sets import published

IDS = np.array([3, 9, 2**40, 2**63], np.uint64)
TEXTS = ["one", "two", "three", "four"]


def hashing(seed: int) -> Hashing:
    return Hashing(HashingTeacher(kind="hashing", dim=16, seed=seed))


def keep(seed: int) -> VectorStore:
    """A store of two views in two files each."""
    store = VectorStore(Path(".cache"), hashing(seed).recipes["text"])
    found = hashing(seed).encode(TEXTS, ["sentence"])["sentence"].astype(np.float16)
    for rows in (slice(0, 3), slice(3, 4)):
        store.add(IDS[rows], "sentence", found[rows])
    store.add(IDS[:2], "cls", found[:2])
    return store


def publish(name: str, seed: int) -> None:
    published.write_manifest(Path("data/vectors") / name / "sentence", hashing(seed).recipes["text"], 16, {})


def cache(*args: str) -> Result:
    return CliRunner().invoke(app, ["cache", *args])


def left() -> set[str]:
    return {path.name for path in Path(".cache/vectors").iterdir()}


def size(store: VectorStore) -> int:
    return sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file())


def lines(result: Result) -> list[list[str]]:
    return [line.split("\t") for line in result.stdout.splitlines()]
