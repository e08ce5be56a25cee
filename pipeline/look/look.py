"""look: which students the teacher can give, by its config and tokenizer, before anything is encoded."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.core import seal
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import say
from pipeline.core.registry import implementation
from pipeline.data.models import teacher_facts
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.look import model_cards
from pipeline.params.corpus import Documents
from pipeline.params.load import Params, load
from pipeline.prepare import window
from pipeline.train.students.shared.verdict import Possible, Refused, verdict

if TYPE_CHECKING:
    from pipeline.teacher.shared.local.unweighted import Reading


def main(
    out: Annotated[Path, typer.Option(help="data/teacher_facts.json")],
    tokenizer: Annotated[Path, typer.Option(help="Folder of the tokenizer, for passages and masks")],
    readers: Annotated[Path, typer.Option(help="JSON: reader of vocabulary vectors -> whether it reads any")],
    cards: Annotated[Path, typer.Option(help="Folder of what the models' cards say of licences")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Write what the teacher is, and fail if no student can be made of it.

    Each file holds little, so that what depends on it runs again for few edits: the facts are the teacher's
    alone, the tokenizer is there only if a source is cut into passages or a transfer set is made, and few
    edits of students change who reads vocabulary vectors. Model cards are read here alone, once.
    """
    params = load(params_file)
    facts = look(params)
    found = verdicts(params, facts)
    check_any(found)
    for refused in found.values():
        if isinstance(refused, Refused):
            say(f"look: the teacher cannot give {refused}")
    teacher_facts.write(facts, out)
    window.write(_window(params), tokenizer)
    write_text(readers, seal.to_json(vocabulary_readers(params)))
    model_cards.write(params, cards)


def look(params: Params) -> TeacherFacts:
    """The facts of the teacher.

    Raises:
        UserError: there is none, or it cannot be a teacher.
    """
    found: TeacherFacts = implementation("teacher.kinds", params.teacher.kind).look(params.teacher)
    return found


def vocabulary_readers(params: Params) -> dict[str, bool]:
    """Kind of a student or method of augmentation -> whether it reads the teacher's vocabulary vectors."""
    found: dict[str, bool] = {}
    for block in params.students.values():
        found[block.kind] = found.get(block.kind, False) or block.reads_vocabulary
    methods = params.augment.methods.items()
    return found | {method: getattr(block, "reads_vocabulary", False) for method, block in methods}


def _window(params: Params) -> window.Window | None:
    """What passages are measured by, and what has the mask token; None where neither is asked for."""
    passages = any(isinstance(one, Documents) and one.split == "passages" for one in params.corpus.sources)
    if not passages and params.augment.transfer is None:
        return None
    reading: Reading = implementation("teacher.kinds", params.teacher.kind).reading(params.teacher)
    return window.Window(reading.tokenizer or window.word_tokenizer(), reading.max_length, reading.prompt)


def verdicts(params: Params, facts: TeacherFacts) -> dict[str, Possible | Refused]:
    """What becomes of each student.

    Raises:
        UserError: a model or file that a student's block names is not there.
    """
    found: dict[str, Possible | Refused] = {}
    for name, block in params.students.items():
        try:
            found[name] = verdict(name, block, facts, params.encode.hidden)
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
