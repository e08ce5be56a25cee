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
    here, there = (load(folder, pooling="mean").recipes["text"] for folder in (bert, elsewhere))
    assert here == there
    for recipe, folder in ((here, bert), (there, elsewhere)):
        assert str(folder.parent) not in json.dumps(recipe)
        assert "/" not in json.dumps(recipe)
    assert here["model"] == "bert"


def test_a_packages_recipe_holds_no_path(minilm):
    assert str(minilm.folders[0].parent) not in json.dumps(minilm.recipes["text"])
    assert minilm.recipes["text"]["max_length"] == 256


def test_batches_are_no_part_of_it(load, bert):
    small, large = (
        load(bert, tokens_per_batch=tokens, pooling="mean").recipes["text"] for tokens in (10, 9999)
    )
    assert small == large


@pytest.mark.parametrize(
    "change",
    [
        {"pooling": "cls"},
        {"prompts": {"text": "query: "}},
        {"max_length": 64},
        {"precision": "bfloat16"},
        {"trust_remote_code": True},
    ],
)
def test_it_changes_with_every_setting(load, bert, change):
    before, after = (load(bert, **{"pooling": "mean", **more}).recipes["text"] for more in ({}, change))
    assert of_json(before) != of_json(after)
    wanted = {"prompt": "query: "} if "prompts" in change else change
    assert {key: value for key, value in after.items() if before[key] != value} == wanted


def test_pinning_the_revision_of_the_same_files_changes_nothing(load, bert, tmp_path, monkeypatch):
    folder = tmp_path / "hub" / "models--owner--tiny"
    (folder / "refs").mkdir(parents=True)
    shutil.copytree(bert, folder / "snapshots" / COMMIT)
    (folder / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    newest, pinned = (
        load("owner/tiny", pooling="mean", revision=one).recipes["text"] for one in (None, COMMIT)
    )
    assert newest == pinned


def test_it_changes_with_a_single_weight(load, bert, elsewhere):
    weights = load_file(elsewhere / "model.safetensors")
    weights["encoder.layer.1.output.dense.bias"][0] += 1e-3
    save_file(weights, elsewhere / "model.safetensors", metadata={"format": "pt"})
    before, after = (load(folder, pooling="mean").recipes["text"] for folder in (bert, elsewhere))
    assert [key for key in before if before[key] != after[key]] == ["weights"]
