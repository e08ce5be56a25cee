"""Runs of the stage `finetune` on a few triplets: in this process, and in processes that are killed."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import torch
from ruamel.yaml import YAML
from small_corpus import DEV as CORPUS_DEV
from small_corpus import SYNONYMS, TRAIN, write_augmented, write_pca, write_texts, write_vectors
from small_params import small_params
from small_students import bilstm_block, compact_block, static_block, transformer_block, write_facts

from pipeline.core.errors import report_user_errors
from pipeline.core.registry import implementation
from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.data.student import student_folder
from pipeline.params.load import load
from pipeline.prepare import dev
from pipeline.tasks import pairs
from pipeline.train.finetuning.finetune import main
from pipeline.train.finetuning.shared.finetuning import Finetuning
from pipeline.train.loop.objective import Step

ANIMALS = ["cat", "dog", "bird", "fish", "horse", "snake"]
TRIPLETS = [(f"a {one} here", f"the {one}s there", f"a small {two}") for one in ANIMALS for two in ANIMALS]
DEV = [(f"my {one}", f"your {two}", float(one == two)) for one in ANIMALS for two in ANIMALS]


BLOCKS = {
    "static": static_block,
    "transformer": transformer_block,
    "compact": compact_block,
    "bilstm": bilstm_block,
}


def finetune_params(**changes: object) -> dict:
    """A student's block."""
    base = {"data": ["mine"], "epochs": 3, "batch_size": 12, "lr": 0.01, "evaluations": 3}
    return {**base, **changes}


def write_inputs(
    kind: str, block: dict | None, parts: Path, mine: dict | None = None, **changes: object
) -> None:
    """Params, triplets, a dev task and a distilled student of a kind in the working folder.

    `block` is its fine-tuning, `mine` that key of `finetune:`, `changes` are other keys of its block.
    """
    distilled = BLOCKS[kind]()
    built = implementation("train.students.kinds", kind).build(distilled, parts)
    write_facts(Path("facts.json"))
    student_folder.write(built, "distilled", Path("distilled"))
    whole = distilled.model_dump(mode="json") | {"finetune": block, **changes}
    tasks = {
        "alike": {"kind": "sts", "path": "dev.tsv", "split": "dev"},
        "reported": {"kind": "sts", "path": "test.tsv"},
    }
    mined = {"data": {"mine": {"kind": "triplets", "path": "triplets.tsv"}}, "mine": mine}
    whole_params = {"students": {"tiny": whole}, "evaluate": {"tasks": tasks}, "finetune": mined}
    params = small_params(**whole_params, runtime={"device": "cpu"})
    YAML().dump(params, Path("params.yaml"))
    columns = ids_of(TRIPLETS) | {"negative_ids": [[text_id(row[2])] for row in TRIPLETS]}
    pairs.write(pairs.make("mine", "train", columns), Path("mined.parquet"))
    texts.write(named_in(TRIPLETS), texts.LABELLED_SCHEMA, Path("finetune.parquet"))
    columns = ids_of(DEV) | {"score": [row[2] for row in DEV]}
    write_dev(pairs.make("alike", "dev", columns), named_in(DEV))


def write_replayed(synonyms: list[str] = SYNONYMS) -> None:
    """A corpus and new texts, with the teacher's vectors and a PCA, where the stage looks for them."""
    corpus, gated, vectors, pca = (Path("data") / name for name in ("corpus", "gated", "vectors", "pca"))
    for folder in (corpus, gated, pca):
        folder.mkdir(parents=True)
    write_texts(corpus, TRAIN, CORPUS_DEV)
    write_augmented(gated, synonyms)
    write_vectors(vectors / "corpus", TRAIN + CORPUS_DEV, recipe="one")
    write_vectors(vectors / "wordnet", synonyms, recipe="one", cuts=())
    write_pca(pca)


def write_dev(table: pl.DataFrame, known: pl.DataFrame) -> None:
    """The dev tasks, as `prepare` writes them by the params in the working folder."""
    dev.write(table, known, load(Path("params.yaml")).evaluate.tasks, Path("dev"))


def ids_of(rows: list[tuple]) -> dict[str, list]:
    """The columns of ids of rows that start with two texts."""
    return {"left_id": [text_id(row[0]) for row in rows], "right_id": [text_id(row[1]) for row in rows]}


def named_in(rows: list[tuple]) -> pl.DataFrame:
    """All texts of rows."""
    named = sorted({text for row in rows for text in row if isinstance(text, str)})
    columns = {"text_id": [text_id(text) for text in named], "text": named, "role": ["text"] * len(named)}
    return pl.DataFrame(columns, schema=texts.LABELLED_SCHEMA)


def finetune(**inputs: Path) -> None:
    """Run the stage in the working folder; `inputs` are others than those that are always there."""
    main(
        "tiny",
        distilled=Path("distilled"),
        facts=Path("facts.json"),
        triplets=Path("mined.parquet"),
        finetune_texts=Path("finetune.parquet"),
        dev=Path("dev"),
        out=Path("out"),
        curve=Path("curve.tsv"),
        metrics_file=Path("metrics.json"),
        **inputs,
    )


def finetune_slowly(folder: Path, log: Path, seconds: float) -> None:
    """In a process of its own: the stage, saving its state after every step, and noting the steps."""
    slowly(finetune, folder, log, seconds)


def slowly(stage: Callable[[], None], folder: Path, log: Path, seconds: float) -> None:
    """Run a stage that fine-tunes: it saves and notes every step, and waits."""
    os.chdir(folder)
    torch.set_num_threads(1)
    sys.stderr = (folder / "stderr").open("a")
    backward, run = Step.backward, Finetuning.run

    def slow_backward(self: Step, rows: object) -> dict[str, float]:
        with log.open("a") as file:
            file.write("step\n")
        time.sleep(seconds)
        return backward(self, rows)

    Step.backward = slow_backward
    Finetuning.run = lambda self, name, score, checkpoint, _seconds, **precision: run(
        self, name, score, checkpoint, 0, **precision
    )
    report_user_errors(stage)()
