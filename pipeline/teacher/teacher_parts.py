"""teacher_parts: the teacher's tokenizer, layers and vocabulary vectors, from which students start."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import report_user_errors
from pipeline.core.facts import check_facts
from pipeline.data import teacher_parts
from pipeline.params.load import load
from pipeline.params.teacher import EnsembleTeacher, starting_teacher
from pipeline.teacher.shared import fitted_members
from pipeline.teacher.shared.members import load_single, told_of


def main(
    out: Annotated[Path, typer.Option(help="Folder of the parts")],
    facts: Annotated[Path, typer.Option(help="What the teacher is, by `look`, to compare")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
    members: Annotated[Path, typer.Option(help="Of an ensemble: the members' PCAs and code")] = Path(
        "data/members"
    ),
) -> None:
    """Take the teacher apart, once; of an ensemble, the member from which students start."""
    params = load(params_file)
    key, block = starting_teacher(params.teacher)
    teacher = load_single(key, block, params.runtime)
    if isinstance(params.teacher, EnsembleTeacher):
        fitted_members.check_code(members, block.kind, type(teacher))
    with atomic_folder(out) as folder:
        with told_of(key):
            vocabulary = teacher.save_parts(folder)
        rows, dim = vocabulary.shape
        check_facts(facts, {"tokens": rows, "token_dim": dim}, "look")
        teacher_parts.write_vocabulary(vocabulary, folder)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
