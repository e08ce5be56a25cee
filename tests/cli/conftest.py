"""Projects with stores."""

import shutil
from pathlib import Path

import pytest
import shared_vectors
from ruamel.yaml import YAML
from small_params import small_params
from stored import keep, publish

from pipeline.teacher.encoding.store.store import VectorStore


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, VectorStore]:
    """One recipe of the params' teacher, one of two published sets, one of nothing."""
    monkeypatch.chdir(tmp_path)
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(teacher={"kind": "hashing", "dim": 16, "seed": 1}), file)
    for name in ("corpus", "eval"):
        publish(name, seed=2)
    return {"params": keep(1), "sets": keep(2), "nothing": keep(3)}


@pytest.fixture(scope="session")
def vectors_written(tmp_path_factory) -> Path:
    """A project with a set of vectors, in the store and in DVC's cache."""
    root = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        shared_vectors.write_project()
    return root


@pytest.fixture
def project_with_vectors(vectors_written, tmp_path, monkeypatch) -> Path:
    """A copy of it, as the working folder."""
    root = shutil.copytree(vectors_written, tmp_path / "project")
    monkeypatch.chdir(root)
    return root
