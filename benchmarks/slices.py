"""Parts of the shared data, for tasks that are too large whole or that nobody has made."""

import sys
from pathlib import Path

import polars as pl

SLICES = "slices"
"""Their folder under data/raw."""


def write_slices(data: Path, folder: Path, tasks: str) -> None:
    """Those that the tasks name of parts of files that are too large for a look at every kind of task."""
    folder.mkdir(parents=True, exist_ok=True)
    if "slices/sst2" in tasks:
        reviews = _read(data / "classification" / "SST2_train.parquet")
        reviews = reviews.filter(pl.col("text").str.len_chars() > 40)  # the others are parts of sentences
        reviews[:2000].write_parquet(folder / "sst2_train.parquet")
        reviews[2000:3000].write_parquet(folder / "sst2_test.parquet")
    if "slices/entities" in tasks:
        entities = _read(data / "er" / "er_pairs.parquet").filter(split="test")
        entities.group_by("dataset", maintain_order=True).head(400).write_parquet(folder / "entities.parquet")
    if "slices/pairs" in tasks:
        pair_retrieval(_read(data / "pairs" / "positive_pairs.parquet"), folder / "pairs")


def pair_retrieval(pairs: pl.DataFrame, folder: Path) -> None:
    """A retrieval set for selection, in BEIR's layout: find an anchor's positives among 10,000."""
    anchors = pairs["anchor"].unique(maintain_order=True).sample(1000, seed=0)
    relevant = pairs.filter(pl.col("anchor").is_in(anchors.implode()))
    documents = relevant["positive"].unique(maintain_order=True)
    others = pairs["positive"].unique(maintain_order=True)
    others = others.filter(~others.is_in(documents.implode())).sample(10_000 - len(documents), seed=0)
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    numbered = {}
    for name, texts in (("queries", anchors), ("corpus", pl.concat([documents, others]))):
        table = pl.DataFrame({"_id": [f"{name}{row}" for row in range(len(texts))], "text": texts})
        table.write_ndjson(folder / f"{name}.jsonl")
        numbered[name] = table.rename({"_id": name})
    judged = relevant.join(numbered["queries"], left_on="anchor", right_on="text", maintain_order="left")
    judged = judged.join(numbered["corpus"], left_on="positive", right_on="text", maintain_order="left")
    columns = {"query-id": pl.col("queries"), "corpus-id": pl.col("corpus"), "score": 1}
    judged.select(**columns).write_csv(folder / "qrels" / "test.tsv", separator="\t")


def _read(path: Path) -> pl.DataFrame:
    if not path.exists():
        sys.exit(f"{path} is not there, and a task is made of it; --data names the folder that holds it")
    return pl.read_parquet(path)
