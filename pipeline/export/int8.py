"""int8 of an ONNX student: tables by blocks of rows, matrices by columns, activations by tokens."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.export.calibration import Activations, Inputs, activations
from pipeline.export.rounding import LARGEST, rounded
from pipeline.export.shared.onnx_folder import IDS

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

BLOCK = 32
"""Values of a table's row that have a scale together, where matrices are quantised too."""
SMOOTHING = 0.7
"""Equation 4's alpha: how much of a channel's unevenness goes into its weights."""
UNEVEN = 3.0
"""Activations are evened where the largest channel is this many times the median one."""
TINY = 1e-5
"""What a channel or a row of weights counts as that is all zeros."""
CONTRIB = "com.microsoft"
LEAST = 1e-12
"""Of a token's scale: a token of zeros has one too."""
MIDDLE = 128
"""The uint8 that stands for 0, of activations of both signs."""
GELU_ZERO, GELU_LOWEST = 12, 0.17
"""The same of what GELU gives, which is never below -0.17: more of the 256 steps are left above."""


def quantise(model: "ModelProto", inputs: Iterable[Inputs]) -> "ModelProto":
    """A copy with int8 weights, whose activations are quantised as they come, each token by its own scale.

    So a text's vector does not depend on the texts beside it. No product overflows the 16 bits in which an
    x86 processor without VNNI adds two of them (`rounding`), so processors differ in the rounding of float32
    alone. Channels that are much larger than the others are made smaller, and their weights larger
    (SmoothQuant, Xiao et al. 2023, equation 4). Layers that read a text's one vector and LSTMs stay float32:
    they take little time, or none that int8 would save.

    Args:
        model: a student's graph.
        inputs: of texts, by which weights are rounded.
    """
    from onnx import helper, numpy_helper

    matrices = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type == "MatMul" and _is_matrix(matrices, node)]
    seen = activations(model, [node.input[0] for node in products], inputs) if products else {}
    products = [node for node in products if node.input[0] in seen]
    copy = quantise_tables(model, BLOCK if products else None)
    if not products:
        return copy
    graph = copy.graph
    made = {out: node.op_type for node in graph.node for out in node.output}
    by_gelu = {source for source in seen if made.get(source) == "Gelu"}
    factors = _factors(products, matrices, seen, by_gelu)
    chosen = {node.output[0] for node in products}
    nodes: list[NodeProto] = []
    quantised: set[str] = set()
    for node in graph.node:
        if node.output[0] not in chosen:
            nodes.append(node)
            continue
        source, name = node.input
        rows, zero = f"{source}_int8", GELU_ZERO if source in by_gelu else MIDDLE
        if source not in quantised:
            nodes += _by_token(graph, source, rows, len(matrices[name]), zero, factors.get(source))
            quantised.add(source)
        nodes += _multiplied(graph, node, rows, matrices[name].shape[1], zero)
    for name in dict.fromkeys(node.input[1] for node in products):
        sources = [node.input[0] for node in products if node.input[1] == name]
        factor = factors.get(sources[0], np.ones(len(matrices[name])))
        together = np.mean([seen[source].products for source in sources], axis=0)
        levels, scales = rounded(matrices[name] * factor[:, None], together / np.outer(factor, factor))
        _constant(graph, f"{name}_int8", levels)
        _constant(graph, f"{name}_scales", scales)
    del graph.node[:]
    graph.node.extend([*_of_all_tokens(graph), *nodes])
    copy.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    used = {name for node in graph.node for name in node.input}
    kept = [one for one in graph.initializer if one.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return copy


def _is_matrix(matrices: Mapping[str, NDArray], node: "NodeProto") -> bool:
    return node.input[1] in matrices and matrices[node.input[1]].ndim == 2


def _factors(
    products: Sequence["NodeProto"],
    matrices: Mapping[str, NDArray],
    seen: Mapping[str, Activations],
    by_gelu: set[str],
) -> dict[str, NDArray[np.float64]]:
    """What large channels of uneven activations are divided by, and the rows of their matrices multiplied.

    Small channels stay: one that is small on these texts alone would drown the others where it is not. A
    matrix that several activations share cannot follow two factors; its activations get none.
    """
    uses = Counter(node.input[1] for node in products)
    found = {}
    for source in (one for one in seen if one not in by_gelu):
        names = [node.input[1] for node in products if node.input[0] == source]
        largest = seen[source].largest
        live = largest > 0
        shared = any(uses[name] > 1 for name in names)
        if shared or not live.any() or largest.max() <= UNEVEN * np.median(largest[live]):
            continue
        weights = np.max([np.abs(matrices[name]).max(axis=1) for name in names], axis=0)
        factor = largest.clip(TINY) ** SMOOTHING / weights.clip(TINY) ** (1 - SMOOTHING)
        found[source] = (factor / np.median(factor[live])).clip(min=1)
    return found


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


def _by_token(
    graph: "GraphProto", source: str, rows: str, width: int, zero: int, factor: NDArray[np.float64] | None
) -> Iterable["NodeProto"]:
    """Activations (n, length, width) as uint8 (tokens, width), and a scale a token (tokens,).

    They are divided by factor (width,) where there is one.
    """
    from onnx import helper

    flat, scales = f"{rows}_flat", f"{rows}_scales"
    _constant(graph, f"int8_width_{width}", np.array([-1, width], np.int64))
    _constant(graph, "int8_last", np.array([1], np.int64))
    least = LEAST if zero == MIDDLE else GELU_LOWEST / zero
    _constant(graph, f"int8_least_{zero}", np.array(least, np.float32))
    _constant(graph, f"int8_step_{zero}", np.array(1 / (255 - zero), np.float32))
    yield helper.make_node("Reshape", [source, f"int8_width_{width}"], [flat])
    if factor is not None:
        _constant(graph, f"{rows}_evener", (1 / factor).astype(np.float32))
        yield helper.make_node("Mul", [flat, f"{rows}_evener"], [f"{rows}_even"])
        flat = f"{rows}_even"
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
    graph: "GraphProto", node: "NodeProto", rows: str, width: int, zero: int
) -> Iterable["NodeProto"]:
    """The product of quantised activations with an int8 matrix that has a scale a column, (..., width)."""
    from onnx import TensorProto, helper

    out, name = node.output[0], node.input[1]
    _constant(graph, "int8_one", np.array(1, np.float32))
    inputs = [rows, f"{name}_int8", "int8_one", f"{name}_scales", f"int8_zero_{zero}"]
    yield helper.make_node("MatMulIntegerToFloat", inputs, [f"{out}_columns"], domain=CONTRIB)
    yield helper.make_node("Mul", [f"{out}_columns", f"{rows}_scales_column"], [f"{out}_rows"])
    yield helper.make_node("Reshape", [f"{out}_rows", "int8_shape"], [out])
    # onnxruntime fuses what follows only where it knows the shape.
    shape: list[str | int | None] = ["texts", "length", width]
    graph.value_info.append(helper.make_tensor_value_info(out, TensorProto.FLOAT, shape))


def _constant(graph: "GraphProto", name: str, value: NDArray) -> None:
    from onnx import numpy_helper

    if all(one.name != name for one in graph.initializer):
        graph.initializer.append(numpy_helper.from_array(value, name))


def quantise_tables(model: "ModelProto", block: int | None = None) -> "ModelProto":
    """A copy in which every table that is looked up by token id is int8, by quantised_blocks."""
    from onnx import ModelProto, TensorProto

    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    tables = {table.name: table for table in graph.initializer if table.data_type == TensorProto.FLOAT}
    nodes: list[NodeProto] = []
    for node in graph.node:
        by_token = node.op_type == "Gather" and node.input[1].startswith(IDS) and node.input[0] in tables
        nodes += _looked_up(graph, node, tables[node.input[0]], block) if by_token else [node]
    del graph.node[:]
    graph.node.extend(nodes)
    return copy


def _looked_up(
    graph: "GraphProto", node: "NodeProto", table: "TensorProto", block: int | None
) -> list["NodeProto"]:
    """The nodes that give blocks * scales in place of a look-up; the table in `graph` becomes the two."""
    from onnx import TensorProto, helper, numpy_helper

    ids, out = node.input[1], node.output[0]
    blocks, scales, width = f"{table.name}_int8", f"{table.name}_scales", f"{table.name}_width"
    if all(initializer.name != blocks for initializer in graph.initializer):
        quantised, factors = quantised_blocks(numpy_helper.to_array(table), block)
        graph.initializer.append(numpy_helper.from_array(quantised, blocks))
        graph.initializer.append(numpy_helper.from_array(factors, scales))
        graph.initializer.append(numpy_helper.from_array(np.array(table.dims[1:]), width))
        graph.initializer.remove(table)
    return [
        helper.make_node("Gather", [blocks, ids], [f"{out}_stored"], axis=0),
        helper.make_node("Cast", [f"{out}_stored"], [f"{out}_levels"], to=TensorProto.FLOAT),
        helper.make_node("Gather", [scales, ids], [f"{out}_steps"], axis=0),
        helper.make_node("Mul", [f"{out}_levels", f"{out}_steps"], [f"{out}_blocks"]),
        helper.make_node("Shape", [ids], [f"{out}_texts"]),
        helper.make_node("Concat", [f"{out}_texts", width], [f"{out}_shape"], axis=0),
        helper.make_node("Reshape", [f"{out}_blocks", f"{out}_shape"], [out]),
    ]


def quantised_blocks(
    table: NDArray[np.float32], block: int | None
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows (v, d) as int8 (v, blocks, block) and scales (v, blocks, 1); one block if none fits."""
    width = table.shape[1]
    blocks = table.reshape(len(table), -1, width if not block or width % block else block)
    scales = np.abs(blocks).max(axis=2, keepdims=True).astype(np.float32) / LARGEST
    divisors = np.where(scales == 0, 1, scales)
    return np.rint(blocks / divisors).astype(np.int8), scales
