"""`pipeline inspect PATH`: what an artifact is and holds."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.core import seal
from pipeline.core.errors import UserError
from pipeline.core.printable import printable
from pipeline.data.student import student_folder

if TYPE_CHECKING:
    from pipeline.cli.describe import Description

KNOWN = (
    "a Parquet file, a metrics .json, a folder of vectors or of one view of them (manifest.json), of teacher "
    "parts (config.json) or vocabulary (vocabulary.parquet), of a student (modules.json) or of principal "
    "components (VIEW.safetensors)"
)

NAMED = 8
"""What a folder holds, that a message names."""


def inspect(
    path: Annotated[Path, typer.Argument(help=f"Any artifact: {KNOWN}.")],
) -> None:
    """Show what an artifact holds: schema, rows, dimension, geometry, recipe, sample rows."""
    describe = describer(path)
    seal.check(path, "run `dvc repro -f` with the stage that dvc.yaml names for it")
    described = describe(path)
    width = max((len(name) for name in described.facts), default=0)
    typer.echo(printable(f"{path}: {described.kind}"))
    for name, fact in described.facts.items():
        typer.echo(printable(f"  {name:<{width}}  {fact}"))
    for line in described.sample:
        typer.echo(printable(line))


def describer(path: Path) -> "Callable[[Path], Description]":
    """The function that describes this kind of artifact.

    Raises:
        UserError: there is nothing at the path, or nothing of a known kind.
    """
    if not path.exists():
        raise UserError(
            f"{path} does not exist; `dvc repro` makes the artifacts, `dvc status` tells which are missing"
        )
    if found := _known(path):
        return found
    if inside := [
        str(child) for child in _children(path) if _known(child) or any(map(_known, _children(child)))
    ]:
        raise UserError(f"{path} is no artifact, but holds some; inspect one of {', '.join(inside[:NAMED])}")
    raise UserError(f"{path} is no artifact; expected {KNOWN}")


def _known(path: Path) -> "Callable[[Path], Description] | None":
    from pipeline.cli import describe

    if path.is_file():
        return {".parquet": describe.table, ".json": describe.numbers}.get(path.suffix)
    if (path / student_folder.REFUSED).exists():
        return describe.refused
    if (path / "modules.json").exists() or (path / "config.json").exists():
        return describe.model
    if (path / "vocabulary.parquet").exists():
        return describe.vocabulary
    if _is_view(path):
        return describe.view
    if any(map(_is_view, _children(path))):
        return describe.vector_set
    return describe.pca if describe.is_pca(path) else None


def _is_view(path: Path) -> bool:
    return any(path.glob("[0-9]*.parquet")) or (path / "manifest.json").exists()


def _children(path: Path) -> list[Path]:
    return sorted(path.glob("[!.]*")) if path.is_dir() else []
