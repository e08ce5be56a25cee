import json
import shutil

import huggingface_hub
import pytest
from safetensors.numpy import load_file, save_file

from pipeline.core.fingerprint import of_json

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def elsewhere(bert, tmp_path):
    """The same model in another place."""
    return shutil.copytree(bert, tmp_path / "deep" / "bert")


def test_a_recipe_knows_the_model_and_not_the_place(load, bert, elsewhere):
    here, there = (load(folder, pooling="mean").recipe for folder in (bert, elsewhere))
    assert here == there
    for recipe, folder in ((here, bert), (there, elsewhere)):
        assert str(folder.parent) not in json.dumps(recipe)
        assert "/" not in json.dumps(recipe)
    assert here["model"] == "bert"


def test_a_packages_recipe_holds_no_path(minilm):
    assert str(minilm.folder.parent) not in json.dumps(minilm.recipe)
    assert minilm.recipe["max_length"] == 256


def test_batches_are_no_part_of_it(load, bert):
    small, large = (load(bert, tokens_per_batch=tokens, pooling="mean").recipe for tokens in (10, 9999))
    assert small == large


@pytest.mark.parametrize(
    "change",
    [
        {"pooling": "cls"},
        {"prompt": "query: "},
        {"max_length": 64},
        {"precision": "bfloat16"},
        {"trust_remote_code": True},
    ],
)
def test_it_changes_with_every_setting(load, bert, change):
    before, after = (load(bert, **{"pooling": "mean", **more}).recipe for more in ({}, change))
    assert of_json(before) != of_json(after)
    assert {key: value for key, value in after.items() if before[key] != value} == change


def test_it_changes_with_the_hubs_revision(load, bert, tmp_path, monkeypatch):
    folder = tmp_path / "hub" / "models--owner--tiny"
    (folder / "refs").mkdir(parents=True)
    shutil.copytree(bert, folder / "snapshots" / COMMIT)
    for revision in ("v1", "v2"):
        (folder / "refs" / revision).write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    one, two = (load("owner/tiny", pooling="mean", revision=revision).recipe for revision in ("v1", "v2"))
    assert [key for key in one if one[key] != two[key]] == ["revision"]


def test_it_changes_with_a_single_weight(load, bert, elsewhere):
    weights = load_file(elsewhere / "model.safetensors")
    weights["encoder.layer.1.output.dense.bias"][0] += 1e-3
    save_file(weights, elsewhere / "model.safetensors", metadata={"format": "pt"})
    before, after = (load(folder, pooling="mean").recipe for folder in (bert, elsewhere))
    assert [key for key in before if before[key] != after[key]] == ["weights"]
