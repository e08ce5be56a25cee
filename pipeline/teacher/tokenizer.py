"""tokenizer: the teacher's tokenizer and window, by which prepare makes passages; empty where no source asks.

A stage of its own, so that another teacher reruns prepare only where passages depend on it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.core.errors import report_user_errors
from pipeline.core.registry import implementation
from pipeline.params.corpus import Documents
from pipeline.params.load import load
from pipeline.prepare import window

if TYPE_CHECKING:
    from pipeline.teacher.shared.unweighted import Reading


def main(
    out: Annotated[Path, typer.Option(help="Folder of the tokenizer")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Write what passages are measured by; no weights are loaded."""
    params = load(params_file)
    if not any(isinstance(one, Documents) and one.split == "passages" for one in params.corpus.sources):
        window.write(None, out)
        return
    reading: Reading = implementation("teacher.kinds", params.teacher.kind).reading(params.teacher)
    tokenizer = reading.tokenizer or window.word_tokenizer()
    window.write(window.Window(tokenizer, reading.max_length, reading.prompt), out)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
