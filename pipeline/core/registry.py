"""Implementations by kind, imported on demand: a student's `kind: static` is train/students/kinds/static.py.

The name of the module is the kind, so that dvc.yaml names the file that a kind depends on by the same word.
"""

import importlib
from pathlib import Path
from types import ModuleType

from pipeline.core import fingerprint


def implementation(family: str, kind: str) -> ModuleType:
    """Import the module of a kind in a package ("train.losses"); params.yaml allows only existing kinds."""
    return importlib.import_module(f"pipeline.{family}.{kind}")


def code_digest(family: str, kind: str) -> str:
    """SHA-256 of the file that implements a kind, which is not imported."""
    [folder] = importlib.import_module(f"pipeline.{family}").__path__
    return fingerprint.of_file(Path(folder) / f"{kind}.py")
