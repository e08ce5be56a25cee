"""int8 of an ONNX student: embedding tables row by row, matrices column by column."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.export.onnx_folder import INPUTS, OnnxFolder
from pipeline.export.quiet import quiet

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

LARGEST = 127
"""Of a table's int8."""


def quantise(student: OnnxFolder) -> OnnxFolder:
    """The same student with int8 weights; activations are quantised as they come (dynamic quantisation).

    Matrices have 7 bits (-64 to 64): without VNNI an x86 processor adds two products of a uint8 activation
    and an int8 weight in 16 bits, which 8 bits overflow and 7 cannot (2 * 255 * 64 < 2**15). So processors
    differ in the rounding of float32 alone (`benchmarks/bench_int8.py`).

    onnxruntime's own quantisation of a table has one scale for all rows, which rare tokens with long vectors
    spoil; here every row has its own.
    """
    from onnx import load
    from onnxruntime.quantization import QuantType, quantize_dynamic

    rows = quantise_tables(student.graph)
    # It is said to prepare the graph first: the exporter's optimiser has done so.
    with quiet(), tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.onnx"
        quantize_dynamic(
            rows,
            path,
            op_types_to_quantize=["MatMul", "LSTM"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            reduce_range=True,
            extra_options={"MatMulConstBOnly": True},
        )
        graph = load(path)
    return replace(student, graph=graph)


def quantise_tables(model: "ModelProto") -> "ModelProto":
    """A copy in which every table that is looked up by token id is int8 with a scale a row."""
    from onnx import ModelProto, TensorProto

    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    tables = {table.name: table for table in graph.initializer if table.data_type == TensorProto.FLOAT}
    nodes: list[NodeProto] = []
    for node in graph.node:
        by_token = node.op_type == "Gather" and node.input[1] == INPUTS[0] and node.input[0] in tables
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


def quantised_rows(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows (V, d) as int8 and their scales (V, 1): the largest value of a row becomes 127."""
    scales = np.abs(table).max(axis=1, keepdims=True).astype(np.float32) / LARGEST
    divisors = np.where(scales == 0, 1, scales)
    return np.rint(table / divisors).astype(np.int8), scales
