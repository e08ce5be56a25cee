"""Runs of the stage `finetune_teacher` on a few triplets: in this process, and in processes to be killed."""

from pathlib import Path
from typing import Any

from finetune_runs import DEV, TRIPLETS, ids_of, named_in, slowly, write_dev
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.tasks import pairs
from pipeline.train.teacher_tuning.finetune_teacher import main

TUNED = Path("data/tuned_teacher")


def tuning(**changes: Any) -> dict[str, Any]:
    """A block `teacher.finetune`."""
    return {"data": ["mine"], "epochs": 3, "batch_size": 12, "lr": 0.003, "evaluations": 3, **changes}


def document(model: Path | str, block: dict[str, Any] | None, **teacher: Any) -> dict[str, Any]:
    """Params of a transformer teacher that is fine-tuned by a block."""
    return small_params(
        teacher={"kind": "transformer", "model": str(model), "finetune": block, **teacher},
        evaluate={"tasks": {"alike": {"kind": "sts", "path": "dev.tsv", "split": "dev"}}},
        finetune={"data": {"mine": {"kind": "triplets", "path": "triplets.tsv"}}, "mine": None},
        runtime={"device": "cpu"},
    )


def write_inputs(model: Path | str, block: dict[str, Any] | None, **teacher: Any) -> None:
    """Params, triplets and a dev task in the working folder."""
    YAML().dump(document(model, block, **teacher), Path("params.yaml"))
    columns = ids_of(TRIPLETS) | {"negative_ids": [[text_id(row[2])] for row in TRIPLETS]}
    pairs.write(pairs.make("mine", "train", columns), Path("triplets.parquet"))
    texts.write(named_in(TRIPLETS), texts.LABELLED_SCHEMA, Path("finetune.parquet"))
    columns = ids_of(DEV) | {"score": [row[2] for row in DEV]}
    write_dev(pairs.make("alike", "dev", columns), named_in(DEV))


def tune() -> None:
    """Run the stage in the working folder."""
    main(
        triplets=Path("triplets.parquet"),
        finetune_texts=Path("finetune.parquet"),
        dev=Path("dev"),
        out=TUNED,
        curve=Path("curve.tsv"),
        metrics_file=Path("metrics.json"),
    )


def tune_slowly(folder: Path, log: Path, seconds: float) -> None:
    """In a process of its own: the stage, saving its state after every step, and noting the steps."""
    slowly(tune, folder, log, seconds)
