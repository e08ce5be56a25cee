"""Runs of the stage `augment` with back-translation, in this process and in processes that are killed."""

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import ctranslate2.converters
import nltk.langnames
import polars as pl
import small_translation
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.augment.back_translation import ctranslate2 as back_translation_ctranslate2
from pipeline.augment.back_translation import nlpaug, transformers
from pipeline.augment.method.augment import main
from pipeline.core.errors import report_user_errors
from pipeline.data.common import texts

PRELOADED = (ctranslate2, nltk)
"""What the stage imports when it needs it, loaded here for the processes that are killed."""
OUT = Path("augmented/back_translation.parquet")
ENGINES = {
    "ctranslate2": back_translation_ctranslate2.Translator,
    "nlpaug": nlpaug.Translator,
    "transformers": transformers.Translator,
}


def write_inputs(pivot: list[dict[str, str]], sentences: list[str], **block: Any) -> None:
    """The corpus, and params.yaml in the working folder."""
    rows = [(texts.text_id(text), text, "text", "files", "train") for text in sentences]
    corpus = pl.DataFrame(rows, schema=texts.CORPUS_SCHEMA, orient="row")
    texts.write(corpus, texts.CORPUS_SCHEMA, Path("corpus.parquet"))
    chosen = {"enabled": True, "pivots": [pivot], "max_length": 24, **block}
    params = small_params(
        augment={"wordnet": {"enabled": False}, "back_translation": chosen}, runtime={"device": "cpu"}
    )
    YAML().dump(params, Path("params.yaml"))


def augment() -> bytes:
    """Run the stage to its end; the file it writes."""
    main(
        "back_translation",
        corpus=Path("corpus.parquet"),
        wordnet=Path("none"),
        vocabulary=Path("none"),
        out=OUT,
        metrics=Path("augmented/metrics.json"),
    )
    return OUT.read_bytes()


def run_slowly(folder: Path, log: Path, seconds: float) -> None:
    """In a process of its own: the stage with an engine that notes its chunks and then takes its time."""
    # nlpaug's DataLoader starts a process for every batch, which is not to import torch anew.
    multiprocessing.set_start_method("fork", force=True)
    os.chdir(folder)
    sys.stderr = (folder / "stderr").open("a")
    for engine in ENGINES.values():
        quick = engine.translate

        def slow(self: Any, together: list[str], seed: int, quick: Any = quick) -> list[str]:
            with log.open("a") as file:
                file.write(json.dumps(together) + "\n")
            time.sleep(seconds)
            return list(quick(self, together, seed))

        engine.translate = slow  # type: ignore[method-assign]
    report_user_errors(augment)()


def stored() -> set[int]:
    """The texts of finished chunks."""
    files = Path(".cache/back_translation").glob("*/[!.]*.parquet")
    return {row for path in files for row in pl.read_parquet(path)["text_id"]}


SENTENCES = [
    row["en"]
    for row in small_translation.sentences()
    if row["en"].split()[1] not in small_translation.BACK.values()
]
"""Without those that another comes back as."""
