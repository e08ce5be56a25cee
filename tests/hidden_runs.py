"""Runs of the stage `hidden` on a small corpus: in this process, and in processes that are killed."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from distill_runs import write_project
from ruamel.yaml import YAML

from pipeline.core import seal
from pipeline.core.errors import report_user_errors
from pipeline.train.hidden import hidden
from pipeline.train.hidden.hidden import Encoder, main

OUT = Path("data/hidden")


def write(
    folder: Path, states: dict[str, Any] | None, student: dict[str, Any] | None = None, **train: Any
) -> None:
    """A project whose teacher is the letter-reading BERT of the parts, with this `encode.hidden`."""
    write_project(folder, student, **train)
    yaml = YAML()
    params = yaml.load(folder / "params.yaml")
    params["teacher"] = {"kind": "transformer", "model": "teacher"}
    params["encode"]["hidden"] = states
    with (folder / "params.yaml").open("w") as file:
        yaml.dump(params, file)


def run() -> dict[str, Any]:
    """Run the stage in the working folder; its metrics."""
    main(Path("data/corpus.parquet"), Path("teacher"), Path("facts.json"), OUT, Path("hidden.json"))
    return seal.read_json(Path("hidden.json"), "hidden")


def made(folder: Path) -> dict[str, bytes]:
    """The files that the stage has made."""
    return {file.name: file.read_bytes() for file in (folder / OUT).iterdir()}


def run_slowly(folder: Path, log: Path, seconds: float) -> None:
    """In a process of its own: the stage, in shards of three texts, noting which texts it encodes."""
    os.chdir(folder)
    torch.set_num_threads(1)
    sys.stderr = (folder / "stderr").open("a")
    hidden.SHARD_TEXTS, encode = 3, Encoder.states_of

    def slow(self: Encoder, shard: list[str], *how: Any) -> Any:
        with log.open("a") as file:
            file.write(f"{json.dumps(shard)}\n")
        time.sleep(seconds)
        return encode(self, shard, *how)

    Encoder.states_of = slow
    report_user_errors(run)()
