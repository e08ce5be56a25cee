import numpy as np
import onnx as onnx_library
import pytest
from onnx import helper, numpy_helper
from onnxruntime import InferenceSession

from pipeline.export import int8
from pipeline.export.onnx_folder import IDS, MASK

WIDTH, WORDS = 32, 40


def student(*, shared: bool) -> onnx_library.ModelProto:
    """Two layers over a table one channel of which is far larger; their matrix may be one."""
    generator = np.random.default_rng(0)
    table = generator.standard_normal((WORDS, WIDTH)).astype(np.float32)
    gains = np.where(np.arange(WIDTH) == 5, 200, 1).astype(np.float32)
    first = generator.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 6
    first[5] /= 200
    second = first if shared else generator.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 6
    weights = {"table": table, "gains": gains, "first": first} | ({} if shared else {"second": second})
    nodes = [
        helper.make_node("Gather", ["table", IDS], ["even"]),
        helper.make_node("Mul", ["even", "gains"], ["words"]),
        helper.make_node("MatMul", ["words", "first"], ["one"]),
        helper.make_node("Tanh", ["one"], ["bounded"]),
        helper.make_node("MatMul", ["bounded", "first" if shared else "second"], ["two"]),
    ]
    shape, numbers = ["n", "length"], onnx_library.TensorProto
    graph = helper.make_graph(
        nodes,
        "student",
        [helper.make_tensor_value_info(name, numbers.INT64, shape) for name in (IDS, MASK)],
        [helper.make_tensor_value_info("two", numbers.FLOAT, [*shape, WIDTH])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def run(model: onnx_library.ModelProto, ids: np.ndarray) -> np.ndarray:
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["two"], {IDS: ids, MASK: np.ones_like(ids)})[0]


def inputs(rows: int, fill: int = 0) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(1).integers(1, WORDS, (rows, 9))
    mask = np.ones_like(ids)
    ids[:, 6:], mask[:, 6:] = fill, 0
    return {IDS: ids, MASK: mask}


@pytest.mark.parametrize("shared", [False, True])
def test_a_large_channel_does_not_drown_the_others(shared):
    model = student(shared=shared)
    quantised = int8.quantise(model, [inputs(30)])
    ids = np.random.default_rng(2).integers(1, WORDS, (20, 7))
    wanted, found = run(model, ids), run(quantised, ids)
    off = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert 0 < off < (0.7 if shared else 0.03)
    names = {one.name for one in quantised.graph.initializer}
    assert ("words_int8_evener" in names) == (not shared)
    assert "bounded_int8_evener" not in names


def test_what_fills_texts_up_does_not_count():
    model = student(shared=False)
    batches = [[inputs(8, fill)] for fill in (0, 3)]
    first, second = (int8.quantise(model, one).SerializeToString() for one in batches)
    assert first == second


def test_a_text_does_not_depend_on_its_batch():
    quantised = int8.quantise(student(shared=False), [inputs(30)])
    ids = np.random.default_rng(3).integers(1, WORDS, (6, 7))
    alone = np.concatenate([run(quantised, row[None]) for row in ids])
    np.testing.assert_allclose(run(quantised, ids), alone, atol=1e-5)
