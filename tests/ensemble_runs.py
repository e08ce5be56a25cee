"""Runs of the stages `members` and `encode` with an ensemble, in the working folder."""

from pathlib import Path

import numpy as np
import polars as pl
from encode_runs import OUT, write_texts
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.data.common import texts
from pipeline.select.members import members
from pipeline.teacher.encoding import encode
from pipeline.vectors.sets import published

FITTED = Path("data/members")
TEXTS = [f"red text {i} of {i % 7} letters and {i * i % 11} words" for i in range(150)]
HASHING = {"teacher": {"kind": "hashing", "dim": 12}, "weight": 3.0}
OTHER = {"teacher": {"kind": "hashing", "dim": 20, "seed": 5}, "weight": 1.0, "view": "cls"}
BERT = {"teacher": {"kind": "transformer", "model": "bert", "pooling": "mean"}, "weight": 2.0}


def write_corpus(lines):
    """corpus.parquet as stage `prepare` writes it; every tenth text is a dev text."""
    write_texts(lines)
    table = pl.read_parquet("corpus.parquet").with_columns(
        pl.lit("mine").alias("source"),
        pl.when(pl.int_range(pl.len()) % 10 == 0)
        .then(pl.lit("dev"))
        .otherwise(pl.lit("train"))
        .alias("split"),
    )
    texts.write(table, texts.CORPUS_SCHEMA, Path("corpus.parquet"))


def run(*ensemble, views=("sentence", "token_mean"), shard_rows=32, **runtime):
    """Both stages; the ids and the vectors of each view."""
    write_params(ensemble, views, shard_rows, **runtime)
    members.main(Path("corpus.parquet"), FITTED)
    encode.main(Path("corpus.parquet"), OUT)
    return published.open_set(OUT)


def write_params(ensemble, views=("sentence", "token_mean"), shard_rows=32, parts=None, **runtime):
    block = {"kind": "ensemble", "members": list(ensemble), "parts": parts}
    write_teacher(block, views, shard_rows, **runtime)


def write_teacher(block, views=("sentence", "token_mean", "cls"), shard_rows=32, **runtime):
    how = {"views": list(views), "shard_rows": shard_rows}
    document = small_params(teacher=block, encode=how, runtime={"device": "cpu", **runtime})
    YAML().dump(document, Path("params.yaml"))


def alone(member, view):
    """A member's own published vectors, (n, d) in float64."""
    write_teacher(member["teacher"])
    encode.main(Path("corpus.parquet"), OUT)
    return published.open_set(OUT).read(view)[1].astype(np.float64)
