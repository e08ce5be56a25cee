"""`pipeline check`: is params.yaml in order, and which of its students can the teacher give?"""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli import computing, tabular
from pipeline.cli.needs import NOT_HERE, is_here
from pipeline.core.errors import under
from pipeline.core.progress import say
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.data.teacher_parts import read_config
from pipeline.look.look import check_any, look, verdicts
from pipeline.params.classifiers import Classifier
from pipeline.params.hidden import Hidden
from pipeline.params.layers import CutInit, LayeredInit
from pipeline.params.load import Params, load
from pipeline.params.teacher import TransformerTeacher
from pipeline.tasks.subtasks import spelled_out
from pipeline.train.students.shared.verdict import Possible, Refused

COLUMNS = ("student", "possible", "layers", "dim", "tokens", "MB", "what to do")
BYTES = 4
"""Of a number in float32."""
SCALE_BYTES = 4
"""Of the scale of a token's state, beside a byte for each of its dimensions."""


def check(
    params: Annotated[Path, typer.Option(help="The params file.")] = Path("params.yaml"),
) -> None:
    """Check the params file and tell every fault at once, before DVC reads it.

    Then look at the teacher's config and tokenizer, and tell which students it can give: with which layers
    and dimension, of how long texts, how large before training, and what to do about the others.
    """
    found = spelled_out(load(params))
    if slow := computing.slow_teacher(found.teacher, found.runtime.device):
        say(slow)
    say(f"{params} is in order; students: {', '.join(found.students)}")
    if not is_here(found.teacher):
        say(f"the teacher's students are not checked: {NOT_HERE}")
        return
    facts = look(found)
    if found.encode.hidden:
        say(_room_for(found.encode.hidden, facts))
    judged = verdicts(found, facts)
    rows = [_row(name, one) for name, one in judged.items()]
    if tabular.on_terminal():
        tabular.table(COLUMNS, rows, left=("student", "possible", "layers", "what to do"))
    else:
        tabular.lines([COLUMNS, *rows])
    check_any(judged)
    for name, one in found.classifiers.items():
        student = judged[one.student]
        fate = ", which the teacher cannot give: it is not trained" if isinstance(student, Refused) else ""
        say(f"classifier {name}: {one.task} by {one.student} ({one.start}){fate}")
        if isinstance(student, Possible) and one.kd and one.kd.teacher:
            say(f"its task teacher: {_task_teacher(name, one, student, found, facts)}")


def _room_for(hidden: Hidden, facts: TeacherFacts) -> str:
    """What the teacher's hidden states take on the disk at most."""
    config = read_config(facts.config)
    layers, width = len(hidden.numbered(config.num_hidden_layers)), int(config.hidden_size)
    size = hidden.texts * hidden.max_tokens * layers * (width + SCALE_BYTES)
    return (
        f"encode.hidden: {hidden.texts:,} texts x {hidden.max_tokens} tokens x {layers} layers x {width} "
        f"dimensions take {size:,} bytes at most, in each of data/hidden, .cache and .dvc/cache"
    )


def _task_teacher(
    name: str, block: Classifier, student: Possible, params: Params, facts: TeacherFacts
) -> str:
    """What a model is that is fine-tuned on a classifier's task, and which of its layers are learned from.

    Raises:
        UserError: it cannot be made, or its layers cannot be compared with the student's.
    """
    from pipeline.classifiers.training.tuned import TaskTeacher

    assert block.kd
    assert block.kd.teacher
    model, revision = block.kd.teacher.model, block.kd.teacher.revision
    if not is_here(TransformerTeacher(kind="transformer", model=model, revision=revision)):
        return f"{model}, {NOT_HERE}"
    found = TaskTeacher.of(name, block.kd.teacher, facts, params.runtime)
    told = f"{model}, {found.layers} layers of {found.width} dimensions"
    if not block.kd.patience:
        return told
    with under(f"classifiers.{name}"):
        layers = found.patient_layers(student.block, facts, block.kd.patience.layers)
    return f"{told}; the student learns from its layers {', '.join(map(str, layers))}, counted from 0"


def _row(name: str, judged: Possible | Refused) -> list[str]:
    if isinstance(judged, Refused):
        return [name, "no", "", "", "", "", str(judged).removeprefix(f"students.{name}: ")]
    init = judged.block.init
    kept = init.kept if isinstance(init, LayeredInit) else ()
    layers = "all" if kept is None else ", ".join(map(str, kept))
    longest = str(init.longest) if isinstance(init, CutInit) else "all"
    size = f"{judged.parameters * BYTES / 1e6:.1f}"
    return [name, "yes", layers, str(judged.block.width), longest, size, ""]
