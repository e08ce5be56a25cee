"""Runs of the stage `encode`: in this process, and in processes that are killed or short of disk."""

import hashlib
import json
import os
import resource
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from published_sets import published_files
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.core.errors import report_user_errors
from pipeline.data.common import texts
from pipeline.teacher.encoding.encode import main
from pipeline.teacher.encoding.engines import tried
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.kinds.hashing import Hashing

OUT = Path("vectors/corpus")
SMALL_PIECE = 200
"""Characters, so that a shard is several files of the store."""


def write_texts(lines: Iterable[str]) -> list[str]:
    """corpus.parquet in the working folder; the texts."""
    rows = [(texts.text_id(text), text, "text") for text in lines]
    table = pl.DataFrame(rows, schema=texts.LABELLED_SCHEMA, orient="row")
    texts.write(table, texts.LABELLED_SCHEMA, Path("corpus.parquet"))
    return table["text"].to_list()


def write_params(shard_rows: int = 64, teacher: dict[str, Any] | None = None, **runtime: Any) -> None:
    """params.yaml in the working folder."""
    YAML().dump(
        small_params(
            teacher=teacher or {"kind": "hashing", "dim": 16},
            encode={"views": ["sentence", "cls"], "shard_rows": shard_rows},
            runtime={"device": "cpu", **runtime},
        ),
        Path("params.yaml"),
    )


def encode(**options: Any) -> dict[str, bytes]:
    """Run the stage to its end; the files it publishes."""
    main(texts_file=Path("corpus.parquet"), out=OUT, **options)
    return published()


def published() -> dict[str, bytes]:
    """The files of the published set."""
    return published_files(OUT)


def stored() -> list[Path]:
    """The finished files of vectors in the store."""
    return sorted(path for path in Path(".cache").rglob("*.parquet") if not path.name.startswith("."))


def stored_ids() -> set[int]:
    """The texts of finished pieces, by the view that is kept last."""
    return {row for path in stored() if view_of(path) == "cls" for row in pl.read_parquet(path)["text_id"]}


def view_of(path: Path) -> str:
    """The view that a file of the store holds."""
    return str(pl.read_parquet_schema(path).popitem()[0])


def sensitive(vectors: np.ndarray, together: Sequence[str]) -> np.ndarray:
    """Vectors whose last bits depend on the texts that were encoded together."""
    digest = hashlib.sha256("\n".join(together).encode()).digest()
    return vectors * (1 + int.from_bytes(digest[:1], "big") / 2**14)


def run_slowly(folder: Path, log: Path, seconds: float) -> None:
    """In a process of its own: the stage with small pieces and a slow teacher that notes each of them.

    Stored vectors are not tried again: that is no piece.
    """
    os.chdir(folder)
    filling.PIECE_CHARACTERS = SMALL_PIECE
    tried.TRIED = 0
    quick = Hashing.encode

    def slow(
        self: Hashing, together: Sequence[str], views: Sequence[str], role: str
    ) -> dict[str, np.ndarray]:
        with log.open("a") as file:
            file.write(json.dumps(together) + "\n")
        time.sleep(seconds)
        return {
            view: sensitive(vectors, together) for view, vectors in quick(self, together, views, role).items()
        }

    Hashing.encode = slow
    sys.stderr = (folder / "stderr").open("a")
    report_user_errors(encode)()


def run_short_of_disk(folder: Path, limit: int) -> None:
    """In a process of its own: the stage where no file can grow beyond so many bytes."""
    os.chdir(folder)
    filling.PIECE_CHARACTERS = SMALL_PIECE
    sys.stderr = (folder / "stderr").open("w")
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    report_user_errors(encode)()


def die(_shard: str) -> None:
    """In place of a worker's work."""
    os._exit(1)


def die_before_any_text(_shard: str, _note: Path) -> None:
    """In place of a worker's work at single texts."""
    os._exit(1)
