"""`pipeline inspect PATH`: what an artifact is and holds."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from pipeline.commands.describe import Description

KNOWN = (
    "a Parquet file, a metrics .json, a folder of vectors (manifest.json), of teacher parts "
    "(vocabulary.parquet), of a student (modules.json) or of principal components (VIEW.safetensors)"
)

NAMED = 8
"""What a folder holds, that a message names."""


def inspect(
    path: Annotated[Path, typer.Argument(help=f"Any artifact: {KNOWN}.")],
) -> None:
    """Show what an artifact holds: schema, rows, dimension, geometry, recipe, sample rows."""
    described = describer(path)(path)
    width = max((len(name) for name in described.facts), default=0)
    typer.echo(f"{path}: {described.kind}")
    for name, fact in described.facts.items():
        typer.echo(f"  {name:<{width}}  {fact}")
    for line in described.sample:
        typer.echo(line)


def describer(path: Path) -> "Callable[[Path], Description]":
    """The function that describes this kind of artifact.

    Raises:
        UserError: there is nothing at the path, or nothing of a known kind.
    """
    from pipeline.commands import describe

    if not path.exists():
        raise UserError(
            f"{path} does not exist; `dvc repro` makes the artifacts, `dvc status` tells which are missing"
        )
    if path.is_file():
        by_suffix = {".parquet": describe.table, ".json": describe.numbers}
        if path.suffix in by_suffix:
            return by_suffix[path.suffix]
    elif (path / "modules.json").exists() or (path / "vocabulary.parquet").exists():
        return describe.model
    elif any(path.glob("[0-9]*.parquet")) or (path / "manifest.json").exists():
        return describe.vector_set
    elif describe.is_pca(path):
        return describe.pca
    elif inside := [str(child) for child in sorted(path.iterdir()) if _may_be_one(child)]:
        raise UserError(f"{path} is no artifact, but holds some; inspect one of {', '.join(inside[:NAMED])}")
    raise UserError(f"{path} is no artifact; expected {KNOWN}")


def _may_be_one(child: Path) -> bool:
    return not child.name.startswith(".") and (child.is_dir() or child.suffix in (".parquet", ".json"))
