"""A graph runs unasked only where `export` wrote it, of the student as it is now."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from exported_students import BUILDS
from onnx import TensorProto, helper
from refusals import refuses
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from small_students import TEXTS

from pipeline.cli import encoders
from pipeline.cli.model_folder import parameters
from pipeline.core import seal
from pipeline.core.atomic import atomic_folder
from pipeline.data.student import student_folder
from pipeline.export import export
from pipeline.export.shared.onnx_folder import IDS, MASK, SENTENCES
from pipeline.export.shared.session import OnnxEncoder

KINDS = ("transformer", "bilstm", "static")
SETTINGS = "config_sentence_transformers.json"


def change(path: Path, **changed: object) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def vectors(folder: Path, runtime: encoders.Runtime = "auto") -> np.ndarray:
    return encoders.open_encoders(folder, "cpu", 8, runtime=runtime).texts(TEXTS)


@pytest.fixture(scope="module")
def made(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's data folder with students fine-tuned and exported, as the stages write them."""
    root = tmp_path_factory.mktemp("data")
    for kind in KINDS:
        finetuned = root / "finetuned" / kind
        student_folder.write(BUILDS[kind](parts), "", finetuned)
        with atomic_folder(root / "exported" / kind) as exported:
            model = SentenceTransformer(str(finetuned), device="cpu")
            export.write(model, finetuned, ["onnx"], exported, TEXTS)
    return root


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return shutil.copytree(made, tmp_path / "data")


@pytest.fixture
def hub(data: Path) -> Path:
    """A model of the hub: a sentence-transformers folder without a seal, and a graph of the student's."""
    folder = shutil.copytree(data / "exported/transformer", data / "hub/model")
    (folder / seal.NAME).unlink()
    return folder


def without_sentences(folder: Path) -> None:
    path = folder / "onnx/model.onnx"
    graph = onnx.load(path)
    kept = [one for one in graph.graph.output if one.name != SENTENCES]
    del graph.graph.output[:]
    graph.graph.output.extend(kept)
    onnx.save(graph, path)


def cut_elsewhere(folder: Path) -> None:
    read = json.loads((folder / "tokenizer.json").read_text())
    change(folder / "tokenizer.json", truncation=read["truncation"] | {"max_length": 4})


def truncate(folder: Path) -> None:
    change(folder / SETTINGS, truncate_dim=4)


def prompt_by_default(folder: Path) -> None:
    change(folder / SETTINGS, prompts={"say": "it rained: "}, default_prompt_name="say")


@pytest.mark.parametrize("other", [without_sentences, cut_elsewhere, truncate, prompt_by_default])
def test_a_graph_of_others_does_not_run_by_itself(hub, other):
    other(hub)
    expected = SentenceTransformer(str(hub), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors(hub), expected, atol=2e-6)


def test_a_graph_that_was_laid_into_a_sealed_student_does_not_run_by_itself(data):
    folder = data / "finetuned/transformer"
    shutil.rmtree(data / "exported")
    (folder / "onnx").mkdir()
    (folder / "onnx/model.onnx").write_bytes(b"another program's")
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors(folder), expected, atol=2e-6)


def test_a_graph_without_the_output_is_told_where_it_is_asked_for(hub):
    without_sentences(hub)
    told = (
        "onnx/model.onnx gives no output `sentence_embedding`; it has last_hidden_state",
        "--runtime torch",
    )
    with refuses(*told):
        vectors(hub, "onnx")
    with refuses(*told):
        OnnxEncoder(hub)


def test_a_graph_whose_output_has_no_known_dimension_is_told(hub):
    path = hub / "onnx/model.onnx"
    ids, mask = (
        helper.make_tensor_value_info(one, TensorProto.INT64, ["n", "length"]) for one in (IDS, MASK)
    )
    given = helper.make_tensor_value_info(SENTENCES, TensorProto.FLOAT, ["n", "length"])
    cast = helper.make_node("Cast", [IDS], [SENTENCES], to=TensorProto.FLOAT)
    graph = helper.make_graph([cast], "other", [ids, mask], [given])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with refuses(path, "known dimension", "--runtime torch"):
        OnnxEncoder(hub)


def test_a_graph_alone_runs(hub):
    expected = SentenceTransformer(str(hub), device="cpu").encode(TEXTS)
    (hub / "modules.json").unlink()
    np.testing.assert_allclose(vectors(hub), expected, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sealed", [True, False])
def test_an_export_of_the_student_is_found(data, kind, sealed):
    """Whatever `complete` has written into it, which differs from kind to kind."""
    folder, exported = data / "finetuned" / kind, data / "exported" / kind
    if not sealed:
        (folder / seal.NAME).unlink()
        (exported / seal.NAME).unlink()
    assert encoders._exported(folder, "onnx", "cpu", "float32", asked=True) == exported
    found = encoders._exported(folder, "onnx", "cpu", "float32", asked=False)
    assert found == (exported if sealed else None)


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    ("kind", "name", "changed"),
    [
        ("transformer", "sentence_bert_config.json", {"max_seq_length": 6}),
        ("transformer", "1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        ("transformer", SETTINGS, {"prompts": {"text": "passage: "}}),
        ("transformer", "config.json", {"num_attention_heads": 1}),
        ("transformer", "tokenizer_config.json", {"model_max_length": 6}),
        ("bilstm", "wordembedding_config.json", {"max_seq_length": 6}),
        ("bilstm", "1_LSTM/lstm_config.json", {"num_layers": 9}),
        ("static", "config.json", {"normalize": "other"}),
        ("static", "modules.json", None),
        ("static", SETTINGS, None),
    ],
)
def test_an_export_with_other_settings_does_not_run(data, kind, name, changed, sealed):
    folder, exported = data / "finetuned" / kind, data / "exported" / kind
    if changed is not None:
        change(folder / name, **changed)
    elif (folder / name).exists():
        (folder / name).write_text("[]")
    else:  # the student had prompts when it was exported
        (exported / name).write_text("{}")
    for place in (folder, exported):
        seal.write_folder(place) if sealed else (place / seal.NAME).unlink()
    assert encoders._exported(folder, "onnx", "cpu", "float32", asked=False) is None
    with refuses("--runtime onnx: there is no such export", f"export@{kind}"):
        encoders._exported(folder, "onnx", "cpu", "float32", asked=True)


def test_a_shorter_student_of_the_same_weights_gives_its_own_vectors(data):
    folder = data / "finetuned/transformer"
    cut_elsewhere(folder)
    change(folder / "tokenizer_config.json", model_max_length=4)
    change(folder / "sentence_bert_config.json", max_seq_length=4)
    seal.write_folder(folder)
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors(folder), expected, atol=2e-6)
    assert np.abs(vectors(data / "exported/transformer") - expected).max() > 0.01


def test_an_export_beside_the_folder_that_one_is_in_is_found(data, monkeypatch):
    monkeypatch.chdir(data / "finetuned/transformer")
    found = encoders._exported(Path(), "onnx", "cpu", "float32", asked=False)
    assert found == data / "exported/transformer"
    monkeypatch.chdir("1_Pooling")
    assert encoders._exported(Path(".."), "onnx", "cpu", "float32", asked=False) == found
    (data / "finetuned/transformer/tokenizer.json").write_text("{}")
    with refuses("tokenizer.json is damaged", "dvc repro -f finetune@transformer"):
        vectors(Path(".."))


def test_a_module_that_this_version_lacks_is_told(data):
    folder = data / "finetuned/transformer"
    (folder / seal.NAME).unlink()
    listed = json.loads((folder / "modules.json").read_text())
    for lacking in ("sentence_transformers.models.Unheard", "sentence_transformers.nowhere.Unheard"):
        listed[1]["type"] = lacking
        (folder / "modules.json").write_text(json.dumps(listed))
        with refuses(folder / "modules.json", f"lists a {lacking},", "install a version"):
            vectors(folder, "torch")


def test_a_package_that_a_module_needs_is_told(data, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ImportError("No module named 'PIL'")

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", fail)
    with refuses("finetuned/transformer cannot be loaded (No module named 'PIL'); install"):
        vectors(data / "finetuned/transformer", "torch")


def test_parameters_are_those_of_the_student_and_not_of_its_teacher(data):
    exported = data / "exported/transformer"
    alone = parameters(exported)
    assert alone == sum(
        one.size for path in exported.rglob("*.safetensors") for one in load_file(path).values()
    )
    router = exported / "router/document_0_Transformer"
    router.mkdir(parents=True)
    (exported / "router/modules.json").write_text("[]")
    save_file({"weight": np.zeros((100, 100), np.float32)}, router / "model.safetensors")
    assert parameters(exported) == alone
