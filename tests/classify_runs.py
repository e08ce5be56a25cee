"""Runs of the stage `classify` on a few texts, or pairs of texts, with labels."""

import os
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import torch
from published_sets import write_set
from ruamel.yaml import YAML
from small_params import small_params
from small_students import bilstm_block, static_block, teacher, transformer_block, write_facts, write_parts
from small_tokenizers import TYPED, wordpiece
from transformers import BertConfig, BertModel

from pipeline.augment.transfer_set import rows as transfer_rows
from pipeline.classifiers.training import joint
from pipeline.classifiers.training.classify import main
from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.data.student import student_folder
from pipeline.params.students import TransformerStudent
from pipeline.tasks import pairs
from pipeline.train.students.kinds import bilstm, static, transformer

GOOD, BAD = ("fine", "lovely", "great", "superb"), ("awful", "dull", "poor", "grim")
THINGS = ("film", "song", "meal", "book", "play", "game", "room", "trip", "walk", "show", "tale", "cake")
BERT_WIDTH = 16


def write_bert(folder: Path, layers: int = 4, width: int = BERT_WIDTH) -> Path:
    """A plain transformers folder: a BERT of these words, with token types and a template for pairs."""
    tokenizer = wordpiece(["a", "the", "is", *GOOD, *BAD, *THINGS], **TYPED)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.3,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def bert_block(folder: Path, layers: tuple[int, ...] | None = (0, 1)) -> TransformerStudent:
    """A student of the first layers of such a folder, whose vector is its first token's."""
    init = {"model": str(folder), "pooling": "cls", "projection": "none", "layers": layers, "max_length": 64}
    return transformer_block(dim=BERT_WIDTH, init=init)


KINDS = {
    "static": (static, static_block),
    "transformer": (transformer, transformer_block),
    "bilstm": (bilstm, bilstm_block),
}


def single_rows() -> list[tuple[str, None, str, str]]:
    """Left, right, label, subset: texts that say "1" of a thing, or "0"."""
    found = []
    for number, thing in enumerate(THINGS):
        subset = "test" if number % 4 == 3 else "dev" if number % 4 == 2 else "train"
        for label, words in (("1", GOOD), ("0", BAD)):
            found += [(f"a {word} {thing}", None, label, subset) for word in words]
    return found


def pair_rows() -> list[tuple[str, str, str, str]]:
    """Pairs of texts that say the same of a thing, "1", or not, "0"."""
    found = []
    for number, thing in enumerate(THINGS):
        subset = "test" if number % 4 == 3 else "dev" if number % 4 == 2 else "train"
        for words, others in ((GOOD, BAD), (BAD, GOOD)):
            for at, word in enumerate(words):
                left = f"a {word} {thing}"
                found.append((left, f"the {thing} is {words[at - 1]}", "1", subset))
                found.append((left, f"the {thing} is {others[at]}", "0", subset))
    return found


def write_inputs(
    folder: Path, kind: str, rows: list[tuple], made: list[tuple] = (), prompt: str = "", **block: object
) -> None:
    """A student of a kind, with a prompt for texts, and a task of these rows, in a folder."""
    parts = folder / "parts"
    parts.mkdir(parents=True)
    if kind == "bert":
        module, student = transformer, bert_block(write_bert(folder / "bert"))
    else:
        module, make = KINDS[kind]
        student = make()
    write_parts(parts)
    write_facts(folder / "facts.json")
    student_folder.write(module.build(student, parts), "start", folder / "start/tiny", {"text": prompt})
    pair = rows[0][1] is not None
    task = {"kind": "pair_classification" if pair else "classification", "train": "a.tsv", "test": "b.tsv"}
    given = {"student": "tiny", "start": "finetuned", "task": "said", "train": {"lr": [0.01]}, **block}
    params = small_params(
        students={"tiny": student.model_dump(mode="json")},
        evaluate={"tasks": {"said": task}},
        classifiers={"one": given},
        augment={
            "wordnet": {"enabled": False},
            "back_translation": {},
            "transfer": {"tasks": ["said"]} if given.get("transfer") else None,
        },
        runtime={"device": "cpu", "cache": str(folder / "cache")},
    )
    YAML().dump(params, folder / "params.yaml")
    columns = {
        "left_id": [text_id(row[0]) for row in rows],
        "right_id": [text_id(row[1]) if pair else None for row in rows],
        "label": [row[2] for row in rows],
        "subset": [row[3] for row in rows],
    }
    pairs.write(pairs.make("said", "test", columns), folder / "tasks.parquet")
    table = named([text for row in rows for text in row[:2] if text])
    texts.write(table, texts.LABELLED_SCHEMA, folder / "eval.parquet")
    write_vectors(table, folder / "eval")
    new = named([text for row in made for text in row if text])
    texts.write(new, texts.LABELLED_SCHEMA, folder / "transfer.parquet")
    ids = {
        "task": ["said"] * len(made),
        "left_id": [text_id(row[0]) for row in made],
        "right_id": [text_id(row[1]) if pair else None for row in made],
    }
    transfer_rows.write(pl.DataFrame(ids, schema=transfer_rows.SCHEMA), folder / "transfer_rows.parquet")
    write_vectors(new, folder / "transfer")


def named(found: list[str]) -> pl.DataFrame:
    """A text set of these texts."""
    distinct = sorted({*found}, key=text_id)
    columns = {
        "text_id": [text_id(text) for text in distinct],
        "text": distinct,
        "role": ["text"] * len(distinct),
    }
    return pl.DataFrame(columns, schema=texts.LABELLED_SCHEMA)


def write_vectors(table: pl.DataFrame, folder: Path) -> None:
    """The hashing teacher's vectors of a text set."""
    vectors = np.empty((0, 32), np.float16)
    if len(table):
        vectors = teacher().encode(table["text"].to_list(), ("sentence",))["sentence"].astype(np.float16)
    write_set(folder, table["text_id"].to_numpy(), {"sentence": vectors})


def die(folder: Path, steps: int) -> None:
    """Run the stage, telling its steps; the process ends before it does more than this many."""
    loss, done = joint.loss, count()

    def told(*given: object) -> object:
        if next(done) == steps:
            os._exit(9)
        print("step", flush=True)  # noqa: T201
        return loss(*given)

    joint.loss = told
    classify(folder)


def classify(folder: Path) -> None:
    """Run the stage."""
    main(
        "one",
        start=folder / "start/tiny",
        tasks=folder / "tasks.parquet",
        eval_texts=folder / "eval.parquet",
        eval_vectors=folder / "eval",
        transfer_texts=folder / "transfer.parquet",
        transfer_rows=folder / "transfer_rows.parquet",
        transfer_vectors=folder / "transfer",
        teacher_view="sentence",
        facts=folder / "facts.json",
        out=folder / "out",
        curve=folder / "curve.tsv",
        metrics_file=folder / "metrics.json",
        params_file=folder / "params.yaml",
    )


def change(folder: Path, **block: object) -> None:
    """Change the classifier's block."""
    yaml = YAML()
    params = yaml.load(folder / "params.yaml")
    params["classifiers"]["one"].update(block)
    yaml.dump(params, folder / "params.yaml")
