"""teacher_parts: the teacher's tokenizer, layers and vocabulary vectors, from which students start."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import report_user_errors
from pipeline.core.facts import check_facts
from pipeline.core.registry import implementation
from pipeline.data import teacher_parts
from pipeline.params.load import load

if TYPE_CHECKING:
    from pipeline.teacher.interface import Teacher


def main(
    out: Annotated[Path, typer.Option(help="Folder of the parts")],
    facts: Annotated[Path, typer.Option(help="What the teacher is, by `look`, to compare")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Take the teacher apart, once."""
    params = load(params_file)
    teacher: Teacher = implementation("teacher.kinds", params.teacher.kind).load(
        params.teacher, params.runtime
    )
    with atomic_folder(out) as folder:
        vocabulary = teacher.save_parts(folder)
        rows, dim = vocabulary.shape
        check_facts(facts, {"tokens": rows, "token_dim": dim}, "look")
        teacher_parts.write_vocabulary(vocabulary, folder)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
