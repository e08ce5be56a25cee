"""The README's links, params and targets; test_repro.py runs its commands."""

import re
from pathlib import Path

from readme import blocks
from ruamel.yaml import YAML

from pipeline.params.load import check

MADE_BY_CI = {"repro", "test"}
"""Targets that .ci/run calls itself: they take minutes."""


def test_the_make_targets_are_run_by_ci(repository):
    said = re.findall(r"^make (\w+)", (repository / "README.md").read_text(), flags=re.MULTILINE)
    assert set(said) == MADE_BY_CI
    assert set(re.findall(r"\bmake (\w+) ", (repository / ".ci/run").read_text())) >= MADE_BY_CI


def test_yaml_snippets_are_valid_params(repository):
    yaml = YAML(typ="safe")
    models = []
    for snippet in map(yaml.load, blocks(repository, "yaml")):
        params = yaml.load(repository / "params.yaml") | snippet
        if params["encode"]["views"] == ["sentence"]:  # as the snippet says
            params["students"]["potion"]["view"] = "sentence"
        models.append(check(params, Path("README.md")).teacher.model)
    assert models[:2] == ["BAAI/bge-small-en-v1.5", "text-embedding-3-small"]
    assert len(models) == 4


def test_linked_files_are_there(repository):
    links = re.findall(r"\]\(([^):]+)\)", (repository / "README.md").read_text())
    assert links
    assert [link for link in links if not (repository / link).exists()] == []
