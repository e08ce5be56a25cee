"""A project with stores."""

from pathlib import Path

import pytest
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
