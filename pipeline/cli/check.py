"""`pipeline check`: is params.yaml in order?"""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli import computing
from pipeline.core.progress import say
from pipeline.params.load import load
from pipeline.prepare.subtasks import spelled_out


def check(
    params: Annotated[Path, typer.Option(help="The params file.")] = Path("params.yaml"),
) -> None:
    """Check the params file and tell every fault at once, before DVC reads it."""
    found = spelled_out(load(params))
    if slow := computing.slow_teacher(found.teacher, found.runtime.device):
        say(slow)
    say(f"{params} is in order; students: {', '.join(found.students)}")
