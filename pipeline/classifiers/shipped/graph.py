"""A classifier as one ONNX graph: from token ids and their mask to logits.

The texts of a pair are two rows that follow each other: 2n rows (2n, length) give n logits (n, c). Where they
are read together, they are one row, by the tokenizer's template, with the types of its tokens.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch

from pipeline.classifiers.saved.head import Head
from pipeline.export.shared import onnx
from pipeline.export.shared.onnx_folder import SENTENCES, TOKENS

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto
    from sentence_transformers import SentenceTransformer

LOGITS = "logits"


def export(model: "SentenceTransformer", head: Head) -> "ModelProto":
    """The graph of an encoder with the head behind it; outputs `logits` and `sentence_embedding`.

    Raises:
        UserError: one of the encoder's modules has no ONNX form here.
    """
    from onnx import TensorProto, helper, numpy_helper

    proto = onnx.export(model)
    graph = proto.graph
    weights, bias = _folded(head)
    for name, value in (("head_hidden", weights), ("head_hidden_bias", bias)):
        graph.initializer.append(numpy_helper.from_array(value, name))
    for name, parameter in (("head_output", head.output.weight), ("head_output_bias", head.output.bias)):
        graph.initializer.append(numpy_helper.from_array(parameter.detach().numpy(), name))
    features = SENTENCES
    if head.pairs:
        shape = np.array([-1, 2, head.dim], np.int64)
        graph.initializer.append(numpy_helper.from_array(shape, "head_pairs"))
        for name, row in (("head_left", 0), ("head_right", 1)):
            graph.initializer.append(numpy_helper.from_array(np.array(row, np.int64), f"{name}_row"))
        graph.node.extend(_features())
        features = "head_features"
    graph.node.extend(
        [
            helper.make_node("Gemm", [features, "head_hidden", "head_hidden_bias"], ["head_units"], transB=1),
            helper.make_node("Relu", ["head_units"], ["head_active"]),
            helper.make_node("Gemm", ["head_active", "head_output", "head_output_bias"], [LOGITS], transB=1),
        ]
    )
    outputs = {output.name: output for output in graph.output}
    del graph.output[:]
    classes = len(head.output.bias)
    # The texts of a pair are two rows, so the logits have a number of rows of their own.
    rows = "pairs" if head.pairs else outputs[SENTENCES].type.tensor_type.shape.dim[0].dim_param
    graph.output.append(helper.make_tensor_value_info(LOGITS, TensorProto.FLOAT, [rows, classes]))
    graph.output.append(outputs[SENTENCES])
    _drop(proto, TOKENS)
    return proto


def _folded(head: Head) -> tuple[np.ndarray, np.ndarray]:
    """The hidden layer's weights (h, f) and bias (h,) of features that are neither centred nor scaled."""
    with torch.no_grad():
        weights = head.hidden.weight.double() * head.scale.double()
        bias = head.hidden.bias.double() - weights @ head.mean.double()
        return weights.float().numpy(), bias.float().numpy()


def _features() -> "list[NodeProto]":
    """[u, v, |u - v|, u * v] of the vectors of pairs."""
    from onnx import helper

    node = helper.make_node
    return [
        node("Reshape", [SENTENCES, "head_pairs"], ["head_by_pair"]),
        *(
            node("Gather", ["head_by_pair", f"{side}_row"], [side], axis=1)
            for side in ("head_left", "head_right")
        ),
        node("Sub", ["head_left", "head_right"], ["head_difference"]),
        node("Abs", ["head_difference"], ["head_distance"]),
        node("Mul", ["head_left", "head_right"], ["head_product"]),
        node(
            "Concat",
            ["head_left", "head_right", "head_distance", "head_product"],
            ["head_features"],
            axis=1,
        ),
    ]


def _drop(proto: "ModelProto", output: str) -> None:
    """Remove nodes that only `output` needs."""
    kept = {one.name for one in proto.graph.output}
    if output in kept:
        return
    read = kept | {name for node in proto.graph.node for name in node.input}
    dead = [node for node in proto.graph.node if not read & {*node.output}]
    for node in dead:
        proto.graph.node.remove(node)
