"""`pipeline schema`: the JSON Schema of params.yaml, which editors read."""

import ast
import inspect
import json
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

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
        try:
            stale = not out.exists() or out.read_bytes() != wanted.encode()
        except OSError as error:
            raise UserError(f"{out} cannot be read ({error.strerror}); name a file") from None
        if stale:
            raise UserError(f"{out} is stale; run `pipeline schema --out {out}`")
        return
    write_text(out, wanted)
    say(f"wrote {out}")


def render() -> str:
    """The schema as text: equal params classes give equal text."""
    made = Params.model_json_schema(schema_generator=_Described)
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


class _Described(GenerateJsonSchema):
    """A key is described by the docstring below it.

    pydantic would read these (`use_attribute_docstrings`) while the classes are imported: in every stage.
    """

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        """The schema of a class of params."""
        made = super().model_schema(schema)
        for name, said in _said(schema["cls"]).items():
            if name in made.get("properties", {}):
                made["properties"][name].setdefault("description", said)
        return made


def _said(params: type[BaseModel]) -> dict[str, str]:
    """The docstring below each attribute, of a class or of the base that annotates it last."""
    said: dict[str, str] = {}
    for one in reversed(params.__mro__):
        if issubclass(one, BaseModel) and one is not BaseModel:
            [defined] = ast.parse(dedent(inspect.getsource(one))).body
            for above, below in pairwise([*getattr(defined, "body", []), None]):
                match above, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                        value=ast.Constant(value=str(text))
                    ):
                        said[name] = inspect.cleandoc(text)
                    case ast.AnnAssign(target=ast.Name(id=name)), _:
                        said.pop(name, None)
    return said
