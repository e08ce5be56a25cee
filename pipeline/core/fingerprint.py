"""Identities of content: the same content has the same fingerprint on every machine."""

import hashlib
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def of_json(value: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of a mapping's canonical JSON."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def of_bytes(content: bytes | memoryview) -> str:
    """SHA-256 (hex) of bytes."""
    return hashlib.sha256(content).hexdigest()


def of_file(path: Path) -> str:
    """SHA-256 (hex) of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_folder(path: Path) -> str:
    """SHA-256 (hex) of a folder's files: their relative names and contents, not their dates or modes."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return of_json({file.relative_to(path).as_posix(): of_file(file) for file in files})


def code_digest(family: str, kind: str) -> str:
    """SHA-256 (hex) of the file of a kind ("teacher.kinds", "hashing"), which is not imported."""
    [folder] = importlib.import_module(f"pipeline.{family}").__path__
    return of_file(Path(folder) / f"{kind}.py")


def of_code() -> str:
    """SHA-256 (hex) of the project's modules imported so far, and of the one that this process runs."""
    ours = {
        name: getattr(module, "__file__", None)
        for name, module in sys.modules.items()
        if name.startswith("pipeline.") or name == "__main__"
    }
    return of_json({name: of_file(Path(path)) for name, path in ours.items() if path})
