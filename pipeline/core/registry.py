"""Implementations by kind, imported on demand: a student's `kind: static` is train/students/kinds/static.py.

The name of the module is the kind, so that dvc.yaml names the file that a kind depends on by the same word.
"""

import importlib
from types import ModuleType


def implementation(family: str, kind: str) -> ModuleType:
    """Import the module of a kind in a package ("train.losses"); params.yaml allows only existing kinds."""
    return importlib.import_module(f"pipeline.{family}.{kind}")
