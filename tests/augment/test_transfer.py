"""The stage `transfer`, on what `prepare` makes of files."""

import json
import random
import shutil
from pathlib import Path

import polars as pl
import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.augment.transfer_set import rows as rows_file
from pipeline.augment.transfer_set import transfer
from pipeline.data.common import texts
from pipeline.data.common.texts import fold
from pipeline.look import look
from pipeline.prepare import prepare
from pipeline.tasks import pairs

WORDS = "red green small old new dog cat bird car tree house sees likes watches the a this in on with".split()
OUTS = ("transfer.parquet", "transfer_rows.parquet", "metrics.json")


def sentences(count, seed):
    chance = random.Random(seed)
    return list(dict.fromkeys(" ".join(chance.choices(WORDS, k=chance.randint(3, 9))) for _ in range(count)))


def write(path, **columns):
    pl.DataFrame(columns).write_csv(path, separator="\t")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files of a task of single texts, one of pairs, and one of graded pairs."""
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join(sentences(60, 0)))
    for part, (count, seed) in {"train": (300, 1), "test": (150, 2)}.items():
        one, two = sentences(count, seed), sentences(count, seed + 10)
        write(f"{part}.tsv", text=one, label=[len(text) % 2 for text in one])
        both = min(len(one), len(two))
        write(
            f"pairs_{part}.tsv",
            sentence1=one[:both],
            sentence2=two[:both],
            label=[i % 2 for i in range(both)],
        )
    phrases = ["dog", "the cat", "red", "in", "a", "this", "with", "on the"]
    write("sts.tsv", sentence1=phrases, sentence2=sentences(8, 5), score=[i % 5 for i in range(8)])
    return tmp_path


def run(settings, nltk_data):
    """Look, prepare and transfer; the names of what the last one writes."""
    params = small_params(
        corpus={"sources": [{"kind": "files", "path": "texts.txt"}], "dev_fraction": 0.1},
        augment={"wordnet": {"enabled": False}, "back_translation": {}, "transfer": settings},
        evaluate={
            "tasks": {
                "graded": {"kind": "sts", "path": "sts.tsv"},
                "single": {"kind": "classification", "train": "train.tsv", "test": "test.tsv"},
                "double": {
                    "kind": "pair_classification",
                    "train": "pairs_train.tsv",
                    "test": "pairs_test.tsv",
                },
            }
        },
    )
    YAML().dump(params, Path("params.yaml"))
    look.main(Path("facts.json"), Path("tokenizer"), Path("readers.json"), Path("cards"))
    outs = {"eval_texts": "eval.parquet", **{name: f"{name}.parquet" for name in PREPARED}}
    prepare.main(
        Path("raw"),
        nltk_data,
        Path("tokenizer"),
        dev=Path("dev"),
        origins=Path("origins.json"),
        metrics=Path("prepare.json"),
        **{name: Path(path) for name, path in outs.items()},
    )
    again(nltk_data)


PREPARED = ("corpus", "provenance", "tasks", "finetune", "triplets")


def again(nltk_data):
    inputs = Path("tasks.parquet"), Path("eval.parquet"), nltk_data, Path("tokenizer")
    transfer.main(*inputs, *map(Path, OUTS))


def test_new_rows_of_both_tasks_without_a_text_that_evaluates(folder, nltk_data):
    run({"tasks": ["single", "double"], "rounds": 6}, nltk_data)
    made, rows = texts.read_labelled(Path(OUTS[0])), rows_file.read(Path(OUTS[1]))
    known = texts.read_labelled(Path("eval.parquet"))
    labelled = pairs.read(Path("tasks.parquet"))
    assert texts.ids(Path(OUTS[0]), None).tolist() == made["text_id"].to_list(), "encode reads it so"
    assert {*rows["left_id"], *rows["right_id"].drop_nulls()} == {*made["text_id"]}

    is_single = rows["task"] == "single"
    assert rows["right_id"].is_null().equals(is_single)
    trained = labelled.filter((pl.col("subset") == "train") & pl.col("label").is_not_null())
    assert rows.join(trained, on=["task", "left_id", "right_id"], nulls_equal=True).is_empty()
    evaluates = labelled.join(trained, on=labelled.columns, how="anti", nulls_equal=True)
    assert {*evaluates["task"]} == {"graded", "single", "double"}
    ids = pl.concat([evaluates["left_id"], evaluates["right_id"]]).drop_nulls()
    held_out = {*fold(known.filter(pl.col("text_id").is_in(ids.implode()))["text"])}
    assert len(held_out) > 100
    assert not held_out & {*fold(made["text"])}

    metrics = json.loads(Path(OUTS[2]).read_text())
    assert metrics["texts"] == len(made)
    for task, counts in metrics["tasks"].items():
        assert counts["rows_in"] == len(trained.filter(task=task))
        assert counts["made"] == 6 * counts["rows_in"]
        assert counts["made"] == counts["rows_out"] + sum(counts["dropped"].values())
        assert counts["rows_out"] == len(rows.filter(task=task))
        assert counts["dropped"]["evaluation_text"] > 0
    assert made["text"].str.contains(metrics["mask"], literal=True).any()


def test_equal_inputs_give_equal_bytes(folder, nltk_data):
    run({"tasks": ["double"], "rounds": 3}, nltk_data)
    first = [Path(name).read_bytes() for name in OUTS]
    again(nltk_data)
    assert [Path(name).read_bytes() for name in OUTS] == first


def test_without_the_block_nothing_is_read_and_the_tables_are_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    YAML().dump(small_params(), Path("params.yaml"))
    again(Path("no_wordnet"))
    assert texts.read_labelled(Path(OUTS[0])).is_empty()
    assert len(texts.ids(Path(OUTS[0]), None)) == 0
    assert rows_file.read(Path(OUTS[1])).is_empty()
    assert json.loads(Path(OUTS[2]).read_text())["tasks"] == {}


def test_what_is_missing_is_named_with_the_stage_that_makes_it(folder, nltk_data):
    run({"tasks": ["single"], "rounds": 1}, nltk_data)
    with refuses("none/corpora/wordnet", "`make setup`"):
        again(Path("none"))
    shutil.rmtree("tokenizer")
    Path("tokenizer").mkdir()
    with refuses("tokenizer", "`dvc repro -f look`"):
        again(nltk_data)
    for name, read in ((OUTS[0], texts.read_labelled), (OUTS[1], rows_file.read)):
        Path(name).unlink()
        with refuses(name, "`dvc repro transfer`"):
            read(Path(name))
