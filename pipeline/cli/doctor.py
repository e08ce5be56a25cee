"""`pipeline doctor`: what is installed, what the params need, and how to get what is missing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli import computing, needs, system, tabular
from pipeline.cli.finding import Finding
from pipeline.core.printable import printable
from pipeline.params.load import load

SIGNS = {True: "ok", False: "missing"}


def doctor(
    params_file: Annotated[Path, typer.Option("--params", help="The params file.")] = Path("params.yaml"),
    nltk_data: Annotated[Path, typer.Option(help="Where WordNet lies.")] = Path("data/raw/nltk_data"),
    curves: Annotated[Path, typer.Option(help="Where the training curves lie.")] = Path("reports/curves"),
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure how fast this machine is in bfloat16.")
    ] = False,
) -> None:
    """Check this machine against the params; exit code 1 if something that they need is missing."""
    params = load(params_file)
    findings = [
        system.python(),
        system.libraries(),
        *needs.teachers(params.teacher),
        *needs.students(params),
        *needs.task_teachers(params),
        needs.wordnet(params, nltk_data),
        *needs.files(params),
        *needs.extras(params),
        *needs.back_translation(params.augment.back_translation),
        system.disk(Path()),
        system.processor(),
        computing.device(params.runtime.device),
        computing.precision(curves, params, measure=measure),
        system.dvc(Path()),
    ]
    _show(findings)
    if any(finding.fix for finding in findings):
        raise typer.Exit(1)


def _show(findings: Sequence[Finding]) -> None:
    """A table on a terminal, tab-separated lines otherwise."""
    if not tabular.on_terminal():
        tabular.lines(
            [
                (SIGNS[not one.fix], one.name, f"{one.found}; {one.fix}" if one.fix else one.found)
                for one in findings
            ]
        )
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        said = Text(printable(finding.found))
        if finding.fix:
            said.append(f"\n{printable(finding.fix)}", style="bold")
        sign = Text(SIGNS[not finding.fix], style="red" if finding.fix else "green")
        table.add_row(sign, finding.name, said)
    Console().print(table)
