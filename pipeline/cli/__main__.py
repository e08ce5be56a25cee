"""`pipeline`: what a person calls. The stages are called by DVC.

A command is imported when it is called: `--help` needs none of them.
"""

import gc
import os
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from pipeline.core import quick_imports, streams
from pipeline.core.errors import report_user_errors
from pipeline.core.machine import let_the_cpu_help

COMMANDS = {
    "check": "Check the params file and tell every fault at once, before DVC reads it.",
    "plan": "Tell what a run will take: time, memory, disk and money of every stage, before anything runs.",
    "doctor": "Check this machine against the params; exit code 1 if something that they need is missing.",
    "inspect": "Show what an artifact holds: schema, rows, dimension, geometry, recipe, sample rows.",
    "embed": "Embed texts with a student: a row a text, `text` and `vector` (float32), in the order of the "
    "input.",
    "search": "Find the texts nearest to each query: rank, similarity, text; before them the query, if "
    "several.",
    "classify": "Label texts, or pairs of texts: a row each, `text` (or `left` and `right`), `label`, "
    "`probability`.",
    "compare": "Compare what two students ship, or all students of two reports: B's difference from A, and "
    "B / A.",
    "mteb": "Score models on MTEB's tasks, or on your own: a row a task, a column a model.",
    "schema": "Write the JSON Schema of params.yaml.",
    "cache": "Vectors, indexes, translations, results that are kept.",
}
"""Each with the first line of its own help: the function of this name in pipeline/cli/NAME.py, or its
commands."""

if TYPE_CHECKING:
    from typer._click import Command, Context

SETTINGS: dict[str, Any] = {
    "rich_markup_mode": "markdown",  # joins the lines of a docstring's paragraphs
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "add_completion": False,
}


class Commands(TyperGroup):
    """Commands that are listed by name and imported when they are called."""

    def resolve_command(
        self, ctx: "Context", args: list[str]
    ) -> tuple[str | None, "Command | None", list[str]]:
        """The command that the arguments name, and their rest."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, typer.main.get_command(_load(str(name))), rest


def _load(name: str) -> typer.Typer:
    gc.disable()  # until the command's work begins: nothing that an import makes is garbage
    module = import_module(f"pipeline.cli.{name}")
    found = typer.Typer(**SETTINGS | {"no_args_is_help": hasattr(module, "COMMANDS")})
    for command, function in getattr(module, "COMMANDS", {name: getattr(module, name, None)}).items():
        found.command(command)(_quiet_on_a_closed_pipe(report_user_errors(function)))
    return found


def _quiet_on_a_closed_pipe(command: Callable[..., None]) -> Callable[..., None]:
    """A command that ends well where nobody reads on: `pipeline embed ... | head`."""

    @wraps(command)
    def run(*args: object, **options: object) -> None:
        try:
            command(*args, **options)
            sys.stdout.flush()
        except BrokenPipeError:  # `say` raises none
            # Python writes out what is left once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return run


app = typer.Typer(
    help="Distil sentence-embedding models. `dvc repro` runs it; these look at it and use what it made.",
    cls=Commands,
    **SETTINGS,
)
for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


def main() -> None:
    """Run the command that the arguments name."""
    streams.mend()
    quick_imports.install()
    let_the_cpu_help()
    app()


if __name__ == "__main__":
    main()
