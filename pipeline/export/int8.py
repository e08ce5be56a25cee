"""int8 of an ONNX student: tables row by row, matrices column by column, activations token by token."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.export.onnx_folder import IDS

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

LARGEST = 127
"""Of a table's int8."""
STEPS = 64
"""Of a matrix's int8: 7 bits."""
CONTRIB = "com.microsoft"
LEAST = 1e-12
"""Of a token's scale: a token of zeros has one too."""
MIDDLE = 128
"""The uint8 that stands for 0, of activations of both signs."""
GELU_ZERO, GELU_LOWEST = 12, 0.17
"""The same of what GELU gives, which is never below -0.17: more of the 256 steps are left above."""


def quantise(model: "ModelProto") -> "ModelProto":
    """A copy with int8 weights, whose activations are quantised as they come, each token by its own scale.

    So a text's vector does not depend on the texts beside it. Matrices have 7 bits (-64 to 64): without VNNI
    an x86 processor adds two products of a uint8 activation and an int8 weight in 16 bits, which 8 bits
    overflow and 7 cannot (2 * 255 * 64 < 2**15). So processors differ in the rounding of float32 alone
    (`benchmarks/bench_int8.py`). Layers that read a text's one vector and LSTMs stay float32: they take
    little time, or none that int8 would save.
    """
    from onnx import helper

    copy = quantise_tables(model)
    graph = copy.graph
    matrices = {one.name: one for one in graph.initializer}
    made = {out: node for node in graph.node for out in node.output}
    nodes: list[NodeProto] = []
    quantised: dict[str, tuple[str, str, int]] = {}
    for node in graph.node:
        matrix = matrices.get(node.input[1]) if node.op_type == "MatMul" else None
        if matrix is None or len(matrix.dims) != 2:
            nodes.append(node)
            continue
        source = node.input[0]
        if source not in quantised:
            by_gelu = source in made and made[source].op_type == "Gelu"
            rows, zero = f"{source}_int8", GELU_ZERO if by_gelu else MIDDLE
            nodes += _by_token(graph, source, rows, matrix.dims[0], zero)
            quantised[source] = rows, f"{rows}_scales", zero
        nodes += _multiplied(graph, node, matrix, *quantised[source])
    if not quantised:
        return copy
    del graph.node[:]
    graph.node.extend([*_of_all_tokens(graph), *nodes])
    copy.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    used = {name for node in graph.node for name in node.input}
    kept = [one for one in graph.initializer if one.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return copy


def _of_all_tokens(graph: "GraphProto") -> Iterable["NodeProto"]:
    """What all products need: the shape of the tokens, and each zero once a token."""
    from onnx import helper

    _constant(graph, "int8_flat", np.array([-1], np.int64))
    yield helper.make_node("Shape", [IDS], ["int8_texts"])
    yield helper.make_node("Concat", ["int8_texts", "int8_flat"], ["int8_shape"], axis=0)
    yield helper.make_node("ReduceProd", ["int8_texts"], ["int8_tokens"], keepdims=1)
    for zero in (MIDDLE, GELU_ZERO):
        _constant(graph, f"int8_zero_{zero}", np.array(zero, np.uint8))
        yield helper.make_node("Expand", [f"int8_zero_{zero}", "int8_tokens"], [f"int8_zeros_{zero}"])


def _by_token(graph: "GraphProto", source: str, rows: str, width: int, zero: int) -> Iterable["NodeProto"]:
    """Activations (n, length, width) as uint8 (tokens, width), and a scale a token (tokens,)."""
    from onnx import helper

    flat, scales = f"{rows}_flat", f"{rows}_scales"
    _constant(graph, f"int8_width_{width}", np.array([-1, width], np.int64))
    _constant(graph, "int8_last", np.array([1], np.int64))
    least = LEAST if zero == MIDDLE else GELU_LOWEST / zero
    _constant(graph, f"int8_least_{zero}", np.array(least, np.float32))
    _constant(graph, f"int8_step_{zero}", np.array(1 / (255 - zero), np.float32))
    yield helper.make_node("Reshape", [source, f"int8_width_{width}"], [flat])
    largest = flat
    if zero == MIDDLE:
        largest = f"{rows}_sizes"
        yield helper.make_node("Abs", [flat], [largest])
    yield helper.make_node("ReduceMax", [largest, "int8_last"], [f"{rows}_most"], keepdims=0)
    yield helper.make_node("Mul", [f"{rows}_most", f"int8_step_{zero}"], [f"{rows}_steps"])
    yield helper.make_node("Max", [f"{rows}_steps", f"int8_least_{zero}"], [scales])
    yield helper.make_node("QuantizeLinear", [flat, scales, f"int8_zeros_{zero}"], [rows], axis=0)
    yield helper.make_node("Unsqueeze", [scales, "int8_last"], [f"{scales}_column"])


def _multiplied(
    graph: "GraphProto", node: "NodeProto", matrix: "TensorProto", rows: str, scales: str, zero: int
) -> Iterable["NodeProto"]:
    """The product of quantised activations with a matrix, which becomes int8 with a scale a column."""
    from onnx import TensorProto, helper, numpy_helper

    out, name = node.output[0], matrix.name
    if all(one.name != f"{name}_int8" for one in graph.initializer):
        columns, factors = quantised_rows(numpy_helper.to_array(matrix).T, STEPS)
        _constant(graph, f"{name}_int8", np.ascontiguousarray(columns.T))
        _constant(graph, f"{name}_scales", factors[:, 0])
    _constant(graph, "int8_one", np.array(1, np.float32))
    inputs = [rows, f"{name}_int8", "int8_one", f"{name}_scales", f"int8_zero_{zero}"]
    yield helper.make_node("MatMulIntegerToFloat", inputs, [f"{out}_columns"], domain=CONTRIB)
    yield helper.make_node("Mul", [f"{out}_columns", f"{scales}_column"], [f"{out}_rows"])
    yield helper.make_node("Reshape", [f"{out}_rows", "int8_shape"], [out])
    # onnxruntime fuses what follows only where it knows the shape.
    shape = ["texts", "length", matrix.dims[1]]
    graph.value_info.append(helper.make_tensor_value_info(out, TensorProto.FLOAT, shape))


def _constant(graph: "GraphProto", name: str, value: NDArray) -> None:
    from onnx import numpy_helper

    if all(one.name != name for one in graph.initializer):
        graph.initializer.append(numpy_helper.from_array(value, name))


def quantise_tables(model: "ModelProto") -> "ModelProto":
    """A copy in which every table that is looked up by token id is int8 with a scale a row."""
    from onnx import ModelProto, TensorProto

    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    tables = {table.name: table for table in graph.initializer if table.data_type == TensorProto.FLOAT}
    nodes: list[NodeProto] = []
    for node in graph.node:
        by_token = node.op_type == "Gather" and node.input[1].startswith(IDS) and node.input[0] in tables
        nodes += _looked_up(graph, node, tables[node.input[0]]) if by_token else [node]
    del graph.node[:]
    graph.node.extend(nodes)
    return copy


def _looked_up(graph: "GraphProto", node: "NodeProto", table: "TensorProto") -> list["NodeProto"]:
    """The nodes that give rows * scales in place of a look-up; the table in `graph` becomes the two."""
    from onnx import TensorProto, helper, numpy_helper

    ids, out = node.input[1], node.output[0]
    rows, scales = f"{table.name}_int8", f"{table.name}_scales"
    if all(initializer.name != rows for initializer in graph.initializer):
        quantised, factors = quantised_rows(numpy_helper.to_array(table))
        graph.initializer.append(numpy_helper.from_array(quantised, rows))
        graph.initializer.append(numpy_helper.from_array(factors, scales))
        graph.initializer.remove(table)
    return [
        helper.make_node("Gather", [rows, ids], [f"{out}_int8"], axis=0),
        helper.make_node("Cast", [f"{out}_int8"], [f"{out}_rows"], to=TensorProto.FLOAT),
        helper.make_node("Gather", [scales, ids], [f"{out}_scales"], axis=0),
        helper.make_node("Mul", [f"{out}_rows", f"{out}_scales"], [out]),
    ]


def quantised_rows(
    table: NDArray[np.float32], largest: int = LARGEST
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows (V, d) as int8 and their scales (V, 1): the largest value of a row becomes `largest`."""
    scales = np.abs(table).max(axis=1, keepdims=True).astype(np.float32) / largest
    divisors = np.where(scales == 0, 1, scales)
    return np.rint(table / divisors).astype(np.int8), scales
