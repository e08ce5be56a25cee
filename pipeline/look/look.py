"""look: which students the teacher can give, by its config and tokenizer, before anything is encoded."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import say
from pipeline.core.registry import implementation
from pipeline.data import teacher_facts
from pipeline.data.teacher_facts import TeacherFacts
from pipeline.params.load import Params, load
from pipeline.train.students.shared.verdict import Possible, Refused, verdict


def main(
    out: Annotated[Path, typer.Option(help="data/teacher_facts.json")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Write what the teacher is, and fail if no student can be made of it.

    The facts are the teacher's alone: an edit of students changes nothing in them.
    """
    params = load(params_file)
    facts = look(params)
    found = verdicts(params, facts)
    check_any(found)
    for refused in found.values():
        if isinstance(refused, Refused):
            say(f"look: the teacher cannot give {refused}")
    teacher_facts.write(facts, out)


def look(params: Params) -> TeacherFacts:
    """The facts of the teacher.

    Raises:
        UserError: there is none, or it cannot be a teacher.
    """
    found: TeacherFacts = implementation("teacher.kinds", params.teacher.kind).look(params.teacher)
    return found


def verdicts(params: Params, facts: TeacherFacts) -> dict[str, Possible | Refused]:
    """What becomes of each student.

    Raises:
        UserError: a model or file that a student's block names is not there.
    """
    found: dict[str, Possible | Refused] = {}
    for name, block in params.students.items():
        try:
            found[name] = verdict(name, block, facts)
        except Refused as refused:
            found[name] = refused
    return found


def check_any(found: Mapping[str, Possible | Refused]) -> None:
    """Fail where nothing would be made.

    Raises:
        UserError: all students are refused; all reasons.
    """
    if all(isinstance(one, Refused) for one in found.values()):
        reasons = "\n".join(map(str, found.values()))
        raise UserError(f"the teacher can give none of the students, change params.yaml:\n{reasons}")


if __name__ == "__main__":
    typer.run(report_user_errors(main))
