"""Implementations by kind: `kind: static` of a student is `pipeline/students/static.py`, imported on demand.

The name of the module is the kind, so that dvc.yaml names the file that a kind depends on by the same word.
"""

import importlib
from types import ModuleType


def implementation(family: str, kind: str) -> ModuleType:
    """Import the module of `kind` in `family` ("students", ...); params.yaml allows only existing kinds."""
    return importlib.import_module(f"pipeline.{family}.{kind}")
