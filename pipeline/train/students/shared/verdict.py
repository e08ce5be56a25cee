"""Whether a teacher can give a student, and which: by its facts, before anything is encoded."""

from typing import NamedTuple

from pipeline.core.errors import UserError, under
from pipeline.core.registry import implementation
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.params.hidden import Hidden
from pipeline.params.student_faults import student_faults
from pipeline.params.students import Student
from pipeline.train.students.shared.base.target import check_target
from pipeline.train.students.shared.resolve import check_hidden_states, check_places, resolved


class Refused(UserError):  # noqa: N818 - it refuses a student, and no other one
    """This teacher cannot give this student. The message: its block and the reason; the fix."""


class Possible(NamedTuple):
    """A student that a teacher can give."""

    block: Student
    """With numbers for all that params leave to the pipeline."""
    parameters: int
    """Before training; at most, where training texts decide the vocabulary."""


def verdict(name: str, student: Student, teacher: TeacherFacts, hidden: Hidden | None = None) -> Possible:
    """What a student's block makes of this teacher. `build` of its kind follows it.

    Args:
        name: the student's.
        student: its block.
        teacher: the facts.
        hidden: which hidden states of the teacher are kept; None: that is not looked at.

    Raises:
        Refused: the teacher cannot give it.
        UserError: a model or file that the block names is not there.
    """
    with under(f"students.{name}"):
        check_places(student)
    try:
        with under(f"students.{name}"):
            block = resolved(student, teacher)
            if dim := teacher.dims.get(student.view):
                check_target(block, dim)
            if hidden:
                check_hidden_states(block, teacher, hidden)
            parameters = implementation("train.students.kinds", student.kind).weigh(block, teacher)
        _check_faults(name, block)
    except UserError as error:
        raise Refused(str(error)) from None
    return Possible(block, parameters)


def _check_faults(name: str, block: Student) -> None:
    """What params could not tell of a block that had no numbers yet."""
    if faults := student_faults(name, block):
        raise UserError(faults[0])
