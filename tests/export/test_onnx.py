import json
import shutil
from pathlib import Path

import numpy as np
import onnx as onnx_library
import pytest
import torch
from exported_students import BUILDS, HARD, saved, trained_vectors
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, transformer_block
from small_teachers import write_teacher

from pipeline.data.student import student_folder
from pipeline.export import export, int8
from pipeline.export.shared import onnx
from pipeline.export.shared.onnx_folder import GRAPHS, IDS
from pipeline.export.shared.session import OnnxEncoder, load_tokenizer
from pipeline.train.students.kinds import transformer


@pytest.fixture(scope="module")
def exported(parts, tmp_path_factory):
    """Of each kind: the trained folder, and the exported one."""
    made: dict[str, tuple[Path, Path]] = {}

    def of(kind: str) -> tuple[Path, Path]:
        if kind not in made:
            root = tmp_path_factory.mktemp(kind)
            trained, out = saved(kind, parts, root / "trained"), root / "exported"
            model = SentenceTransformer(str(trained), device="cpu")
            export.write(model, trained, ["onnx", "onnx-int8", "onnx-fp16"], out, TEXTS)
            made[kind] = trained, out
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
    trained, folder = exported(kind)
    expected = trained_vectors(trained, HARD)
    np.testing.assert_allclose(OnnxEncoder(folder).encode(HARD, batch_size), expected, atol=2e-6, rtol=1e-4)


def test_onnx_gives_the_first_tokens_state_of_a_student_that_pools_by_it(parts, tmp_path):
    init = {"max_length": 12, "pooling": "cls", "projection": "random"}
    student_folder.write(transformer.build(transformer_block(init=init), parts), "", tmp_path / "trained")
    stated = json.loads((tmp_path / "trained/1_Pooling/config.json").read_text())
    assert [key for key, chosen in stated.items() if chosen is True and "mode" in key] == [
        "pooling_mode_cls_token"
    ]
    model = SentenceTransformer(str(tmp_path / "trained"), device="cpu")
    export.write(model, tmp_path / "trained", ["onnx"], tmp_path / "exported", TEXTS)
    found = OnnxEncoder(tmp_path / "exported").encode(HARD, 5)
    np.testing.assert_allclose(found, trained_vectors(tmp_path / "trained", HARD), atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("kind", BUILDS)
def test_int8_is_near_and_smaller(exported, kind):
    trained, folder = exported(kind)
    expected = trained_vectors(trained, HARD)
    found = OnnxEncoder(folder, graph=GRAPHS["onnx-int8"]).encode(HARD)
    lengths = np.linalg.norm(expected, axis=1)
    there = lengths > 0
    cosines = (expected * found).sum(axis=1)[there] / (lengths * np.linalg.norm(found, axis=1))[there]
    assert cosines.min() > 0.97  # a few units: at real widths errors average out
    assert not np.array_equal(expected, found)
    graph = onnx_library.load(folder / GRAPHS["onnx-int8"]).graph
    assert onnx_library.TensorProto.INT8 in {one.data_type for one in graph.initializer}


@pytest.mark.parametrize("kind", BUILDS)
def test_no_int8_product_overflows_16_bits_on_a_processor_without_vnni(exported, kind):
    graph = onnx_library.load(exported(kind)[1] / GRAPHS["onnx-int8"]).graph
    weights = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    quantised = [node for node in graph.node if node.op_type == "MatMulIntegerToFloat"]
    assert bool(quantised) == (kind in ("transformer", "compact"))
    for node in quantised:
        levels = weights[node.input[1]]
        assert levels.dtype == np.int8
        pairs = levels.astype(int).reshape(-1, 2, levels.shape[1])
        assert 255 * pairs.clip(min=0).sum(axis=1).max() < 2**15
        assert 255 * pairs.clip(max=0).sum(axis=1).min() >= -(2**15)


@pytest.mark.parametrize(("width", "block", "count"), [(16, 32, 1), (64, 32, 2), (64, None, 1)])
def test_a_block_of_a_table_is_off_by_half_a_step_at_most(width, block, count):
    table = np.random.default_rng(0).standard_normal((50, width)).astype(np.float32)
    table[7] = 0
    table[9] *= 1000
    blocks, scales = int8.quantised_blocks(table, block)
    assert blocks.dtype == np.int8
    assert scales.shape == (50, count, 1)
    off = np.abs(blocks.astype(np.float64) * scales - table.reshape(blocks.shape)).max(axis=2)
    assert (off <= np.abs(table.reshape(blocks.shape)).max(axis=2) / 127 / 2 * (1 + 1e-4)).all()
    assert not blocks[7].any()


@pytest.mark.parametrize(("width", "block"), [(16, 32), (64, 32), (64, None)])
def test_a_table_that_is_looked_up_twice_is_kept_once(width, block):
    table = np.random.default_rng(0).standard_normal((50, width)).astype(np.float32)
    helper, floats = onnx_library.helper, onnx_library.TensorProto.FLOAT
    ids = helper.make_tensor_value_info(IDS, onnx_library.TensorProto.INT64, ["n"])
    nodes = [helper.make_node("Gather", ["table", IDS], [out]) for out in ("one", "two")]
    outs = [helper.make_tensor_value_info(out, floats, ["n", width]) for out in ("one", "two")]
    graph = helper.make_graph(
        nodes, "twice", [ids], outs, [onnx_library.numpy_helper.from_array(table, "table")]
    )
    quantised = int8.quantise_tables(helper.make_model(graph), block)
    names = sorted(one.name for one in quantised.graph.initializer)
    assert names == ["table_int8", "table_scales", "table_width"]
    one, two = ReferenceEvaluator(quantised).run(None, {IDS: np.arange(50)})
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, table, atol=np.abs(table).max() / 127)


def test_equal_students_give_equal_bytes_without_paths_of_this_machine(exported, tmp_path, repository):
    trained, folder = exported("transformer")
    model = SentenceTransformer(str(trained), device="cpu")
    export.write(model, trained, [*GRAPHS], tmp_path / "again", TEXTS)
    for name in (*GRAPHS.values(), "tokenizer.json", "config.json"):
        first = (folder / name).read_bytes()
        assert first == (tmp_path / "again" / name).read_bytes()
        for hint in (str(repository), "site-packages", ".py", "/tmp"):
            assert hint.encode() not in first


@pytest.mark.parametrize("kind", BUILDS)
def test_runtimes_find_what_they_ask_for(exported, kind):
    """transformers.js and ONNX backends take outputs by name, fastembed the first; all read these files."""
    _, folder = exported(kind)
    for place in GRAPHS.values():
        model = onnx_library.load(folder / place)
        assert model.ir_version <= 9
        assert {one.domain: one.version for one in model.opset_import}[""] <= 20
        names = [value.name for value in model.graph.input]
        assert names == ["input_ids", "attention_mask"]
        assert [value.name for value in model.graph.output] == ["sentence_embedding", "last_hidden_state"]
        for value in model.graph.input:
            assert all(axis.dim_param for axis in value.type.tensor_type.shape.dim)
        for value in (*model.graph.input, *model.graph.output):
            assert value.type.tensor_type.elem_type in (1, 7)  # float32, int64
    config = json.loads((folder / "config.json").read_text())
    told = json.loads((folder / "tokenizer_config.json").read_text())
    assert isinstance(config["pad_token_id"], int)
    assert 0 < told["model_max_length"] <= 1_000_000
    assert told["pad_token"]
    assert told["tokenizer_class"]


@pytest.mark.parametrize("kind", ["transformer", "compact"])
def test_a_model_that_tells_two_texts_apart_takes_the_tokens_types(exported, kind, tmp_path):
    trained, folder = exported(kind)
    model = SentenceTransformer(str(trained), device="cpu")
    model.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    (tmp_path / "onnx").mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(folder / name, tmp_path)
    made = onnx.export(model)
    assert [value.name for value in made.graph.input][2:] == ["token_type_ids"]
    onnx_library.save(made, tmp_path / GRAPHS["onnx"])
    found = OnnxEncoder(tmp_path).encode(HARD)
    np.testing.assert_allclose(found, trained_vectors(trained, HARD), atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("kind", BUILDS)
def test_float16_is_near_and_holds_its_weights_so(exported, kind):
    trained, folder = exported(kind)
    expected = trained_vectors(trained, HARD)
    found = OnnxEncoder(folder, graph=GRAPHS["onnx-fp16"]).encode(HARD)
    np.testing.assert_allclose(found, expected, atol=0.01)
    graph = onnx_library.load(folder / GRAPHS["onnx-fp16"]).graph
    large = [numpy_helper.to_array(one) for one in graph.initializer if len(one.dims) > 1]
    weights = {array.dtype.name for array in large} - {"int64"}
    assert weights == ({"float16", "float32"} if kind.startswith("bilstm") else {"float16"})


def test_the_tokens_vectors_are_the_encoders(exported):
    from onnxruntime import InferenceSession

    trained, folder = exported("transformer")
    model = SentenceTransformer(str(trained), device="cpu")
    inputs = model.tokenizer(HARD, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        expected = model[0].model(**inputs).last_hidden_state
    session = InferenceSession(folder / GRAPHS["onnx"])
    found = session.run(["last_hidden_state"], {name: value.numpy() for name, value in inputs.items()})[0]
    real = inputs["attention_mask"].bool()
    np.testing.assert_allclose(found[real.numpy()], expected[real].numpy(), atol=1e-5)


def test_a_bilstm_reads_the_first_tokens_alone_whoever_tokenises(exported):
    trained, folder = exported("bilstm")
    tokenizer, text = load_tokenizer(folder), "very long " * 60
    assert len(tokenizer.encode(text).ids) > 12
    found = OnnxEncoder(folder).encode([text])
    np.testing.assert_allclose(found, trained_vectors(trained, [text]), atol=2e-6)


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
            ("config.json", "pad_token_id", "export the student again"),
        ),
        (lambda folder: (folder / "onnx/model.onnx").write_bytes(b"x"), ("'cpu'",)),
        (lambda folder: (folder / "onnx/model.onnx").write_bytes(b""), ("'cpu'",)),
        (lambda folder: (folder / "onnx/model.onnx").unlink(), ("'cpu'",)),
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
    monkeypatch.setattr("pipeline.export.shared.session._providers", lambda *_: 7)
    with pytest.raises(TypeError):
        OnnxEncoder(exported("static")[1])


def test_a_device_that_onnxruntime_lacks(exported):
    with refuses("onnxruntime", "'mps'", "CPUExecutionProvider"):
        OnnxEncoder(exported("static")[1], "mps")


@pytest.mark.parametrize("name", ["deberta-v2", "qwen3"])
def test_int8_of_other_encoders_does_not_depend_on_the_batch(tmp_path, name):
    """Their graphs multiply what is no token too (DeBERTa's relative positions), and gates."""
    teacher = write_teacher(name, tmp_path)
    model = SentenceTransformer(str(teacher), device="cpu")
    export.write(model, teacher, ["onnx", "onnx-int8"], tmp_path / "out", TEXTS)
    expected = trained_vectors(teacher, TEXTS)
    np.testing.assert_allclose(OnnxEncoder(tmp_path / "out").encode(TEXTS), expected, atol=2e-6)
    encoder = OnnxEncoder(tmp_path / "out", graph=GRAPHS["onnx-int8"])
    found = encoder.encode(TEXTS)
    assert 1e-5 < np.abs(found - expected).max() < 0.3 * np.abs(expected).max()
    np.testing.assert_allclose(np.concatenate([encoder.encode([text]) for text in TEXTS]), found, atol=1e-5)


def test_an_encoder_that_torch_cannot_export_is_told_in_a_line(tmp_path):
    model = SentenceTransformer(str(write_teacher("xlnet", tmp_path)), device="cpu")
    with refuses("xlnet", "ONNX", "[sentence-transformers]"):
        onnx.export(model)
