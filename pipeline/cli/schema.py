"""`pipeline schema`: the JSON Schema of params.yaml, which editors read."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.params.load import Params


def schema(
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("params.schema.json"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if the file is stale.")] = False,
) -> None:
    """Write the JSON Schema of params.yaml."""
    wanted = render()
    if check:
        if not out.exists() or out.read_text(encoding="utf-8") != wanted:
            raise UserError(f"{out} is stale; run `pipeline schema --out {out}`")
        return
    write_text(out, wanted)
    say(f"wrote {out}")


def render() -> str:
    """The schema as text: equal params classes give equal text."""
    return json.dumps(Params.model_json_schema(), indent=2, ensure_ascii=False) + "\n"
