"""What a student costs to serve: sentence-transformers, onnxruntime, int8, and model2vec for a table.

`python benchmarks/bench_serve.py [--students NAME ...] [--threads N ...] [--rounds N]`, after `make repro`.
CPU time of all threads, in turn: a short text alone, 1,000 short texts, 200 long ones (of the evaluation,
several joined). A table encodes 100,000 texts too, beside model2vec's own `encode`. Each number of threads
runs in a process of its own, in which torch, onnxruntime and tokenizers take so many.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from measuring import report

EXPORTED = Path("data/exported")
ALONE = 50
"""Calls with one text that are timed together."""
JOINED = 12
"""Evaluation texts of a long one."""


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", nargs="+", default=["hpd", "simtde", "sra", "potion"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        name, threads = args.measure
        print(json.dumps(measured(name, int(threads), args.rounds)))
        return
    rows = []
    for name in args.students:
        for threads in args.threads:
            own = [__file__, "--measure", name, str(threads), "--rounds", str(args.rounds)]
            limits = {one: str(threads) for one in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
            done = subprocess.run(
                [sys.executable, *own], env=os.environ | limits, capture_output=True, text=True, check=True
            )
            rows += json.loads(done.stdout.splitlines()[-1])
    report("serve", rows, "python benchmarks/bench_serve.py " + " ".join(sys.argv[1:]))


def measured(name: str, threads: int, rounds: int) -> list[dict[str, object]]:
    """Milliseconds of CPU by runtime, one row each."""
    import onnxruntime
    import torch
    from sentence_transformers import SentenceTransformer

    from pipeline.export.shared import session
    from pipeline.export.shared.onnx_folder import GRAPHS

    torch.set_num_threads(threads)
    options = onnxruntime.SessionOptions

    def limited() -> onnxruntime.SessionOptions:
        made = options()
        made.intra_op_num_threads = threads
        made.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return made

    onnxruntime.SessionOptions = limited
    folder = EXPORTED / name
    content = pl.read_parquet("data/corpus/eval.parquet", columns=["text"])["text"].to_list()
    short = [text for text in content if len(text.split()) <= 12][:1000]
    long = [" ".join(content[start : start + JOINED]) for start in range(0, 200 * 4, 4)]
    model = SentenceTransformer(str(folder), device="cpu")
    ways: dict[str, Callable[[list[str]], object]] = {
        "sentence-transformers": partial(model.encode, show_progress_bar=False),
        "onnx": session.OnnxEncoder(folder).encode,
        "onnx-int8": session.OnnxEncoder(folder, graph=GRAPHS["onnx-int8"]).encode,
    }
    work = {"one short text": short[:1], "1,000 short texts": short, "200 long texts": long}
    if (folder / "config.json").exists() and "model2vec" in (folder / "config.json").read_text():
        from model2vec import StaticModel

        from pipeline.cli.encoders import open_encoders

        ways["model2vec"] = StaticModel.from_pretrained(folder).encode
        ways["pipeline embed"] = open_encoders(folder, "cpu", 64, runtime="torch").texts
        work["100,000 texts"] = [content[row % len(content)] for row in range(100_000)]
    rows: list[dict[str, object]] = [
        {"student": name, "threads": threads, "runtime": way, **dict.fromkeys(work)} for way in ways
    ]
    for what, texts in work.items():
        calls = ALONE if len(texts) == 1 else 1
        taken = np.array([[cpu(way, texts, calls) for way in ways.values()] for _ in range(rounds + 1)])[1:]
        for row, milliseconds in zip(rows, np.median(taken, axis=0), strict=True):
            row[what] = float(milliseconds)
    return rows


def cpu(encode: Callable[[list[str]], object], texts: list[str], calls: int) -> float:
    """Milliseconds of CPU that a call takes, of all threads."""
    began = time.process_time()
    for _ in range(calls):
        encode(texts)
    return 1000 * (time.process_time() - began) / calls


if __name__ == "__main__":
    main()
