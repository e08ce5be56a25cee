"""What the tests need that run a tiny stage as dvc.yaml runs stages."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes the code of a stage `tiny`; gives its folder, the current one from then on."""

    def written(code: str) -> Path:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "tiny.py").write_text(code)
        return tmp_path

    return written


@pytest.fixture
def environment(repository: Path) -> dict[str, str]:
    """Of a process that finds `pipeline`, and the stage in the current folder."""
    return {**os.environ, "PYTHONPATH": str(repository), "PYTHONDONTWRITEBYTECODE": "1"}
