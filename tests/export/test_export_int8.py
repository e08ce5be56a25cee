import numpy as np
import onnx as onnx_library
import pytest
from onnx import helper, numpy_helper
from onnxruntime import InferenceSession

from pipeline.export import int8
from pipeline.export.shared.onnx_folder import IDS, MASK

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


def run(model: onnx_library.ModelProto, ids: np.ndarray, output: str = "two") -> np.ndarray:
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([output], {IDS: ids, MASK: np.ones_like(ids)})[0]


def off(
    model: onnx_library.ModelProto, quantised: onnx_library.ModelProto, ids: np.ndarray, output: str = "two"
) -> float:
    """How far the quantised student's outputs are from the student's, relative to their size."""
    wanted, found = run(model, ids, output), run(quantised, ids, output)
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def inputs(rows: int, fill: int = 0) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(1).integers(1, WORDS, (rows, 9))
    mask = np.ones_like(ids)
    ids[:, 6:], mask[:, 6:] = fill, 0
    return {IDS: ids, MASK: mask}


def test_a_large_channel_does_not_drown_the_others():
    model = student(shared=False)
    quantised = int8.quantise(model, [inputs(30)])
    ids = np.random.default_rng(2).integers(1, WORDS, (20, 7))
    assert 0 < off(model, quantised, ids) < 0.03
    names = {one.name for one in quantised.graph.initializer}
    assert "words_int8_evener" in names
    assert "bounded_int8_evener" not in names


def test_a_matrix_of_two_activations_follows_neither():
    quantised = int8.quantise(student(shared=True), [inputs(30)])
    assert not [one.name for one in quantised.graph.initializer if one.name.endswith("_evener")]


@pytest.mark.parametrize("silent", [[7], [*range(7, WIDTH)]], ids=["one", "most"])
def test_channels_that_the_texts_seen_do_not_use_drown_no_others_elsewhere(silent):
    """The last word alone has these channels, and is not among the texts by which int8 is rounded."""
    model = student(shared=False)
    [table] = [one for one in model.graph.initializer if one.name == "table"]
    values = numpy_helper.to_array(table).copy()
    values[:, silent] = 0
    values[WORDS - 1, silent[0]] = 2
    table.CopyFrom(numpy_helper.from_array(values, "table"))
    seen = inputs(30)
    seen[IDS] %= WORDS - 1
    quantised = int8.quantise(model, [seen])
    assert "words_int8_evener" in {one.name for one in quantised.graph.initializer}
    assert off(model, quantised, np.array([[WORDS - 1, 3, 5]])) < 0.1


def test_weights_are_rounded_by_what_they_multiply(monkeypatch):
    """Channels that go together: by the texts less is lost than with each channel rounded for itself."""
    model = student(shared=False)
    [table] = [one for one in model.graph.initializer if one.name == "table"]
    generator = np.random.default_rng(5)
    values = generator.standard_normal((WORDS, 4)) @ generator.standard_normal((4, WIDTH))
    table.CopyFrom(numpy_helper.from_array(values.astype(np.float32), "table"))
    ids = np.random.default_rng(2).integers(1, WORDS, (20, 7))

    def lost() -> float:
        quantised = int8.quantise(model, [inputs(30)])
        levels = {one.name: numpy_helper.to_array(one) for one in quantised.graph.initializer}
        evener = levels["words_int8_evener"][:, None]
        rows = values[ids.ravel()] * np.where(np.arange(WIDTH) == 5, 200, 1)
        [first] = [numpy_helper.to_array(one) for one in model.graph.initializer if one.name == "first"]
        found = (levels["first_int8"] * levels["first_scales"]) * evener
        return float(np.square(rows @ found - rows @ first).mean())

    by_texts = lost()
    plain = int8.rounded
    monkeypatch.setattr(int8, "rounded", lambda matrix, products: plain(matrix, np.eye(len(products))))
    assert by_texts < 0.5 * lost()


def test_products_of_no_tokens_stay_as_they_are():
    """A matrix of positions, as DeBERTa has it: (1, positions, width) by (width, width)."""
    model = student(shared=False)
    places = np.random.default_rng(6).standard_normal((1, 64, WIDTH)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(places, "places"))
    model.graph.node.insert(0, helper.make_node("MatMul", ["places", "second"], ["keys"]))
    model.graph.node.insert(1, helper.make_node("ReduceMean", ["keys"], ["key"], keepdims=0))
    model.graph.node.append(helper.make_node("Add", ["two", "key"], ["three"]))
    model.graph.output[0].name = "three"
    quantised = int8.quantise(model, [inputs(30)])
    ids = np.random.default_rng(2).integers(1, WORDS, (20, 7))
    assert off(model, quantised, ids, "three") < 0.03


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
