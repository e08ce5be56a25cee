"""vocabulary_readers: which students and augmenters start from the teacher's vocabulary vectors.

A stage of its own, so that `teacher_parts`, which loads the teacher, runs again only where that changes,
and not after any edit of a student.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from pipeline.core.atomic import write_text
from pipeline.core.errors import report_user_errors
from pipeline.params.load import Params, load


def main(
    out: Annotated[Path, typer.Option(help="JSON: reader -> whether it reads vocabulary vectors")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Write for each kind of student and each method of augmentation whether it reads vocabulary vectors."""
    write_text(out, json.dumps(readers(load(params_file)), indent=2, sort_keys=True) + "\n")


def readers(params: Params) -> dict[str, bool]:
    """Kind of a student or method of augmentation -> whether it reads vocabulary vectors."""
    kinds = {block.kind: block.reads_vocabulary for block in params.students.values()}
    return kinds | {method: getattr(block, "reads_vocabulary", False) for method, block in params.augment}


if __name__ == "__main__":
    typer.run(report_user_errors(main))
