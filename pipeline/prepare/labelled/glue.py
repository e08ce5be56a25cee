"""GLUE's sets as tasks: the rows of their official files, divided as any task with classes."""

from pathlib import Path

from pipeline.params.classes import MnliTask, MrpcTask, QqpTask, Sst2Task
from pipeline.prepare.labelled.classification import divide
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.labelled.labelled import Labelled
from pipeline.prepare.readers.official_glue import GlueSet, read_glue


def glue(keys: Keys, block: Sst2Task | MrpcTask | QqpTask | MnliTask) -> Labelled:
    """The rows of a set.

    Args:
        keys: the task's place in params.
        block: its params.

    Raises:
        UserError: a file is at fault, or the rows make no task: see `classification.divide`.
    """
    found = read_glue(Path(block.path), _set(block))
    parts = {part: rows.table for part, rows in found.items()}
    return divide(
        keys,
        block.split,
        train=parts["train"],
        test=parts["test"],
        dev=parts.get("dev"),
        limit=block.max_train,
        left_out={f"broken_{part}_line": rows.broken for part, rows in found.items() if rows.broken},
    )


def _set(block: Sst2Task | MrpcTask | QqpTask | MnliTask) -> GlueSet:
    if not isinstance(block, MnliTask):
        return block.kind
    return "mnli_mismatched" if block.genres == "mismatched" else "mnli_matched"
