"""What a student costs to serve: sentence-transformers, onnxruntime, int8, and model2vec for a table.

`python benchmarks/bench_serve.py [--students NAME ...] [--threads N ...] [--rounds N]`, after `make repro`.
CPU time of all threads, in turn: a short text alone, 1,000 short texts, 200 long ones (of the evaluation,
several joined). A table encodes 100,000 texts too, beside model2vec's own `encode`. Each number of threads
runs in a process of its own, in which torch, onnxruntime and tokenizers take so many. "Products alone" are a
transformer's matrix products of the same texts and nothing else: by torch in float32, and by onnxruntime in
int8, which no int8 graph can be faster than; "tokenising alone" is that of a table.
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
from numpy.typing import NDArray

EXPORTED = Path("data/exported")
ALONE = 50
"""Calls with one text that are timed together."""
MOST_TOKENS = 64 * 512
"""Of a batch."""
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
        tokenise = session.load_tokenizer(folder).encode_batch_fast
        ways["tokenising alone"] = partial(tokenise, add_special_tokens=False)
        ways["pipeline embed"] = open_encoders(folder, "cpu", 64, runtime="torch").texts
        work["100,000 texts"] = [content[row % len(content)] for row in range(100_000)]
    if shapes := matrices(folder / GRAPHS["onnx-int8"]):
        ways |= products(folder, shapes, work)
    rows: list[dict[str, object]] = [
        {"student": name, "threads": threads, "runtime": way, **dict.fromkeys(work)} for way in ways
    ]
    for what, texts in work.items():
        calls = ALONE if len(texts) == 1 else 1
        taken = np.array([[cpu(way, texts, calls) for way in ways.values()] for _ in range(rounds + 1)])[1:]
        for row, milliseconds in zip(rows, np.median(taken, axis=0), strict=True):
            row[what] = float(milliseconds)
    return rows


def matrices(graph: Path) -> list[tuple[int, int]]:
    """Shapes of the int8 matrices that tokens are multiplied with."""
    import onnx

    model = onnx.load(graph)
    shapes = {one.name: tuple(one.dims) for one in model.graph.initializer}
    return [shapes[node.input[1]] for node in model.graph.node if node.op_type == "MatMulIntegerToFloat"]


def batches(folder: Path, texts: list[str], size: int) -> list[int]:
    """Tokens of each batch, those that fill it up too, of texts sorted by length."""
    from pipeline.data.tokens.tokens import tokenise
    from pipeline.export.shared.session import load_tokenizer

    lengths = np.sort(tokenise(load_tokenizer(folder), texts, special=True).lengths)
    parts = (lengths[start : start + size] for start in range(0, len(lengths), size))
    return [int(part.max()) * len(part) for part in parts]


def float32_product(deep: int, wide: int) -> Callable[[int], object]:
    """A product of so many tokens, as sentence-transformers has it."""
    import torch

    tokens, matrix = torch.ones(MOST_TOKENS, deep), torch.ones(wide, deep)

    def multiplied(count: int) -> object:
        with torch.inference_mode():
            return torch.nn.functional.linear(tokens[:count], matrix)

    return multiplied


def int8_product(deep: int, wide: int) -> Callable[[int], object]:
    """A product of so many tokens, as the int8 graph has it."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    constants: dict[str, NDArray] = {"w": np.ones((deep, wide), np.int8), "s": np.ones(wide, np.float32)}
    constants |= {"one": np.array(1, np.float32), "zero": np.array(128, np.uint8)}
    graph = helper.make_graph(
        [
            helper.make_node(
                "MatMulIntegerToFloat", ["a", "w", "one", "s", "zero"], ["y"], domain="com.microsoft"
            )
        ],
        "product",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, ["tokens", deep])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["tokens", wide])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    session = onnxruntime.InferenceSession(
        model, onnxruntime.SessionOptions(), providers=["CPUExecutionProvider"]
    )
    tokens = np.ones((MOST_TOKENS, deep), np.uint8)
    return lambda count: session.run(None, {"a": tokens[:count]})


def products(
    folder: Path, shapes: list[tuple[int, int]], work: dict[str, list[str]]
) -> dict[str, Callable[[list[str]], object]]:
    """The products alone of these works, 32 texts at a time in float32 and 64 in int8."""

    def way(kind: Callable[[int, int], Callable[[int], object]], size: int) -> Callable[[list[str]], object]:
        made = {shape: kind(*shape) for shape in set(shapes)}
        counts = {id(texts): batches(folder, texts, size) for texts in work.values()}
        return lambda texts: [made[shape](count) for count in counts[id(texts)] for shape in shapes]

    return {
        "products alone, float32": way(float32_product, 32),
        "products alone, int8": way(int8_product, 64),
    }


def cpu(encode: Callable[[list[str]], object], texts: list[str], calls: int) -> float:
    """Milliseconds of CPU that a call takes, of all threads."""
    began = time.process_time()
    for _ in range(calls):
        encode(texts)
    taken = time.process_time() - began
    os.environ.pop("TOKENIZERS_PARALLELISM", None)  # model2vec sets it, of many texts, for all that follow
    return 1000 * taken / calls


if __name__ == "__main__":
    main()
