"""Parts of the shared data: small tasks, a task that nobody has made, corpora of some sources."""

import gzip
import sys
from pathlib import Path

import polars as pl

SLICES = "slices"
"""Their folder under data/raw."""

WITHOUT = {
    "novels": ("classic_books_md", "english_novels_100"),
    "captions": ("flickr30k_captions", "flickr8k_captions", "nli_sentences"),
}
"""Sources that a corpus is without. Of NLI's sentences many are captions, or were written about some."""


def write_slices(data: Path, folder: Path, params: str) -> None:
    """Those that the params name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, sources in WITHOUT.items():
        if f"slices/without_{name}" in params:
            sentences_without(data / "unlabelled", sources, folder / f"without_{name}.txt")
    if "slices/sst2_t" in params:
        reviews = _read(data / "classification" / "SST2_train.parquet")
        reviews = reviews.filter(pl.col("text").str.len_chars() > 40)  # the others are parts of sentences
        reviews[:2000].write_parquet(folder / "sst2_train.parquet")
        reviews[2000:3000].write_parquet(folder / "sst2_test.parquet")
    if "slices/sst2_phrases" in params:
        sst2_phrases(_read(data / "classification" / "SST2_train.parquet"), folder)
    if "slices/entities" in params:
        entities = _read(data / "er" / "er_pairs.parquet").filter(split="test")
        entities.group_by("dataset", maintain_order=True).head(400).write_parquet(folder / "entities.parquet")
    if "slices/pairs" in params:
        pair_retrieval(_read(data / "pairs" / "positive_pairs.parquet"), folder / "pairs")


def sst2_phrases(reviews: pl.DataFrame, folder: Path) -> None:
    """1,000 sentences to test, and phrases to train on: none is a part of a test sentence, or holds one."""
    reviews = reviews.unique("text", maintain_order=True)
    test = reviews.filter(pl.col("text").str.split(" ").list.len() >= 15).sample(1000, seed=0)
    whole = "\n".join(test["text"])
    inner = pl.Series([text in whole for text in reviews["text"]])
    outer = pl.col("text").str.contains_any(test["text"].implode())
    test.write_parquet(folder / "sst2_phrases_test.parquet")
    reviews.filter(~inner & ~outer).write_parquet(folder / "sst2_phrases_train.parquet")


def sentences_without(unlabelled: Path, sources: tuple[str, ...], out: Path) -> None:
    """Sentences of all sources but these, in the shared file's order, which is random."""
    paths = [unlabelled / "sentences.txt.gz", unlabelled / "sources.txt.gz"]
    for path in paths:
        _check(path)
    with gzip.open(paths[1], "rt") as lines:
        tags = lines.read().split()
    if absent := sorted(set(sources) - set(tags)):
        sys.exit(f"{paths[1]} has no source {absent[0]}, which a slice is without")
    with gzip.open(paths[0], "rt") as texts, out.open("w") as kept:
        kept.writelines(text for text, tag in zip(texts, tags, strict=True) if tag not in sources)


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
    columns = [
        pl.col("queries").alias("query-id"),
        pl.col("corpus").alias("corpus-id"),
        pl.lit(1).alias("score"),
    ]
    judged.select(columns).write_csv(folder / "qrels" / "test.tsv", separator="\t")


def _read(path: Path) -> pl.DataFrame:
    _check(path)
    return pl.read_parquet(path)


def _check(path: Path) -> None:
    if not path.exists():
        sys.exit(f"{path} is not there, and a slice is made of it; --data names the folder that holds it")
