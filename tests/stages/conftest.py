"""A folder in which the stage `encode` runs, and processes that run it there."""

import multiprocessing
import os
import sys
from multiprocessing import forkserver
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def processes() -> multiprocessing.context.ForkServerContext:
    """Starts processes that have imported the stage already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["encode_runs", "distill_runs", "finetune_runs", "augment_runs"])
    with pytest.MonkeyPatch.context() as patch:
        # Python 3.11 does not hand sys.path on to what is preloaded.
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context
