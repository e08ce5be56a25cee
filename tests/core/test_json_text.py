"""JSON that nests too deep, in each place that reads some."""

import json
from functools import partial
from pathlib import Path

import pytest
from built_corpus import read_texts
from refusals import refuses

from pipeline.cli import model_folder
from pipeline.core import facts, json_text
from pipeline.data.common.files import metrics
from pipeline.data.models import teacher_facts
from pipeline.data.utf8 import read_json_lines
from pipeline.vectors.sets import published

DEEP = "[" * 100_000
READERS = {
    "metrics": partial(metrics.read, stage="evaluate"),
    "facts": partial(facts.check_facts, found={}, stage="look"),
    "teacher_facts": teacher_facts.read,
    "model_folder": model_folder.read_json,
    "json lines": lambda path: list(read_json_lines(path)),
}


@pytest.mark.parametrize("deep", [DEEP, '{"a":' * 100_000], ids=["lists", "objects"])
def test_it_is_a_value_error(deep):
    with pytest.raises(ValueError, match="deep"):
        json_text.parse(deep)
    assert json_text.parse(b'{"a": [1.5, null]}') == {"a": [1.5, None]}


@pytest.mark.parametrize("name", READERS)
def test_a_file_of_it_is_named(folder, name):
    Path("x.json").write_text(DEEP)
    with refuses("x.json"):
        READERS[name](Path("x.json"))


def test_a_manifest_and_a_users_file_of_it_are_named(folder):
    Path("corpus/sentence").mkdir(parents=True)
    Path("corpus/sentence/manifest.json").write_text(DEEP)
    with refuses("manifest.json"):
        published.open_set(Path("corpus"))
    Path("texts.jsonl").write_text(f"{json.dumps({'text': 'a'})}\n{DEEP}\n")
    with refuses("texts.jsonl", "line 2"):
        read_texts(Path("texts.jsonl"), "text")
