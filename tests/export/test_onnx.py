import json
import shutil
from pathlib import Path

import numpy as np
import onnx as onnx_library
import pytest
from exported_students import BUILDS, HARD, saved, trained_vectors
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from refusals import refuses
from sentence_transformers import SentenceTransformer

from pipeline.export import int8, onnx
from pipeline.export.onnx_folder import INPUTS
from pipeline.export.session import OnnxEncoder


@pytest.fixture(scope="module")
def exported(parts, tmp_path_factory):
    """Of each kind: the trained folder, the ONNX folder, the int8 folder."""
    made: dict[str, tuple[Path, Path, Path]] = {}

    def of(kind: str) -> tuple[Path, Path, Path]:
        if kind not in made:
            root = tmp_path_factory.mktemp(kind)
            folders = saved(kind, parts, root / "trained"), root / "onnx", root / "int8"
            graph = onnx.export(SentenceTransformer(str(folders[0]), device="cpu"))
            graph.write(folders[1])
            int8.quantise(graph).write(folders[2], "model_int8.onnx")
            made[kind] = folders
        return made[kind]

    return of


def test_every_kind_is_looked_at(repository):
    kinds = {kind.partition("-")[0] for kind in BUILDS}
    with_build = {
        path.stem
        for path in (repository / "pipeline/train/students/kinds").glob("*.py")
        if "\ndef build(" in path.read_text()
    }
    assert kinds == with_build


@pytest.mark.parametrize("kind", BUILDS)
@pytest.mark.parametrize("batch_size", [1, 5])
def test_onnx_gives_the_students_vectors(exported, kind, batch_size):
    trained, folder, _ = exported(kind)
    expected = trained_vectors(trained, HARD)
    np.testing.assert_allclose(OnnxEncoder(folder).encode(HARD, batch_size), expected, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("kind", BUILDS)
def test_int8_is_near_and_smaller(exported, kind):
    trained, _, quantised = exported(kind)
    expected, found = trained_vectors(trained, HARD), OnnxEncoder(quantised).encode(HARD)
    lengths = np.linalg.norm(expected, axis=1)
    there = lengths > 0
    cosines = (expected * found).sum(axis=1)[there] / (lengths * np.linalg.norm(found, axis=1))[there]
    assert cosines.min() > 0.97  # a few units: at real widths errors average out
    assert not np.array_equal(expected, found)
    graph = onnx_library.load(quantised / "model_int8.onnx").graph
    assert onnx_library.TensorProto.INT8 in {one.data_type for one in graph.initializer}


@pytest.mark.parametrize("kind", BUILDS)
def test_no_int8_product_overflows_16_bits_on_a_processor_without_vnni(exported, kind):
    graph = onnx_library.load(exported(kind)[2] / "model_int8.onnx").graph
    weights = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    quantised = [node for node in graph.node if node.op_type in ("MatMulInteger", "DynamicQuantizeLSTM")]
    assert bool(quantised) == (kind != "static")
    for node in quantised:
        for name in node.input[1 : 3 if node.op_type == "DynamicQuantizeLSTM" else 2]:
            assert weights[name].dtype == np.int8
            assert np.abs(weights[name].astype(int)).max() * 2 * 255 < 2**15


def test_a_row_of_a_table_is_off_by_half_a_step_at_most():
    table = np.random.default_rng(0).standard_normal((50, 16)).astype(np.float32)
    table[7] = 0
    table[9] *= 1000
    rows, scales = int8.quantised_rows(table)
    assert rows.dtype == np.int8
    off = np.abs(rows.astype(np.float64) * scales - table).max(axis=1)
    assert (off <= np.abs(table).max(axis=1) / 127 / 2 * (1 + 1e-4)).all()
    assert not rows[7].any()


def test_a_table_that_is_looked_up_twice_is_kept_once():
    table = np.random.default_rng(0).standard_normal((50, 16)).astype(np.float32)
    helper, floats = onnx_library.helper, onnx_library.TensorProto.FLOAT
    ids = helper.make_tensor_value_info(INPUTS[0], onnx_library.TensorProto.INT64, ["n"])
    nodes = [helper.make_node("Gather", ["table", INPUTS[0]], [out]) for out in ("one", "two")]
    outs = [helper.make_tensor_value_info(out, floats, ["n", 16]) for out in ("one", "two")]
    graph = helper.make_graph(
        nodes, "twice", [ids], outs, [onnx_library.numpy_helper.from_array(table, "table")]
    )
    quantised = int8.quantise_tables(helper.make_model(graph))
    assert sorted(one.name for one in quantised.graph.initializer) == ["table_int8", "table_scales"]
    one, two = ReferenceEvaluator(quantised).run(None, {INPUTS[0]: np.arange(50)})
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, table, atol=np.abs(table).max() / 127)


def test_equal_students_give_equal_bytes_without_paths_of_this_machine(exported, tmp_path, repository):
    trained, folder, _ = exported("transformer")
    onnx.export(SentenceTransformer(str(trained), device="cpu")).write(tmp_path / "again")
    for name in ("model.onnx", "tokenizer.json", "config.json"):
        first = (folder / name).read_bytes()
        assert first == (tmp_path / "again" / name).read_bytes()
        for hint in (str(repository), "site-packages", ".py", "/tmp"):
            assert hint.encode() not in first


def test_batch_and_length_are_free(exported):
    graph = onnx_library.load(exported("bilstm")[1] / "model.onnx").graph
    for value in graph.input:
        assert all(axis.dim_param for axis in value.type.tensor_type.shape.dim)


def test_a_module_without_an_onnx_form_is_named():
    from sentence_transformers.sentence_transformer.modules import BoW

    with refuses("BoW", "ONNX", "`formats`"):
        onnx._step(BoW(["a", "b"]))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            lambda folder: (folder / "config.json").unlink(),
            ("config.json", "No such file", "export the student again"),
        ),
        (
            lambda folder: (folder / "config.json").write_text("{}"),
            ("config.json", "OnnxConfig", "export the student again"),
        ),
        (lambda folder: (folder / "model.onnx").write_bytes(b"x"), ("'cpu'",)),
        (lambda folder: (folder / "model.onnx").write_bytes(b""), ("'cpu'",)),
        (lambda folder: (folder / "model.onnx").unlink(), ("'cpu'",)),
        (
            lambda folder: (folder / "tokenizer.json").unlink(),
            ("tokenizer.json", "No such file", "export the student again"),
        ),
        (
            lambda folder: (folder / "tokenizer.json").write_text("{"),
            ("tokenizer.json", "EOF", "export the student again"),
        ),
    ],
)
def test_a_damaged_folder_ends_with_one_message(exported, tmp_path, change, named):
    folder = shutil.copytree(exported("static")[1], tmp_path / "copy")
    change(folder)
    with refuses(folder, *named):
        OnnxEncoder(folder)


def test_a_mistake_of_ours_keeps_its_traceback(exported, monkeypatch):
    monkeypatch.setattr("pipeline.export.session._providers", lambda *_: 7)
    with pytest.raises(TypeError):
        OnnxEncoder(exported("static")[1])


def test_a_device_that_onnxruntime_lacks(exported):
    with refuses("onnxruntime", "'mps'", "CPUExecutionProvider"):
        OnnxEncoder(exported("static")[1], "mps")


def test_the_config_says_how_a_text_becomes_inputs(exported):
    config = json.loads((exported("compact")[1] / "config.json").read_text())
    assert config["max_length"] == 12
    assert config["special_tokens"] is True
    assert json.loads((exported("static")[1] / "config.json").read_text())["max_length"] is None
