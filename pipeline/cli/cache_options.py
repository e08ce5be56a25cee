"""What the commands of `pipeline cache` are told."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.core.errors import UserError
from pipeline.params.load import load

PARAMS = Path("params.yaml")
VECTORS = Path("data/vectors")
STUDENTS = Path("data/finetuned")

ParamsFile = Annotated[Path, typer.Option("--params", help="The params file.")]
Cache = Annotated[Path | None, typer.Option(help="The cache, if not runtime.cache of the params file.")]
Vectors = Annotated[Path, typer.Option(help="The published sets, whose manifests name recipes.")]
Students = Annotated[Path, typer.Option(help="Where students lie, whose results of `mteb` are in use.")]


def cache_folder(cache: Path | None, params_file: Path) -> Path:
    """The cache that is meant.

    Raises:
        UserError: there is none of that name.
    """
    if cache and not cache.is_dir():
        raise UserError(f"there is no folder {cache}; --cache names the one that holds `vectors`")
    return cache or Path(load(params_file).runtime.cache)


def check_vectors(vectors: Path) -> None:
    """Fail if there is no folder of published sets where another than data/vectors is named."""
    if vectors != VECTORS and not vectors.is_dir():
        raise UserError(f"there is no folder {vectors}; --vectors names the one of the published sets")
