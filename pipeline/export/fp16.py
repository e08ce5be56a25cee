"""float16 of an ONNX student, for GPUs and browsers; its inputs and outputs stay as they are."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onnx import ModelProto


def halve(model: "ModelProto") -> "ModelProto":
    """A copy with float16 weights and activations, but for what overflows or loses too much in them."""
    from onnx import ModelProto, TensorProto, numpy_helper
    from onnxruntime.transformers.float16 import convert_float_to_float16

    copy = ModelProto()
    copy.CopyFrom(model)
    for one in copy.graph.initializer:
        if one.data_type == TensorProto.FLOAT and not one.dims:
            value = float(numpy_helper.to_array(one))
            if 0 < value < LEAST:
                one.CopyFrom(numpy_helper.from_array(np.array(LEAST, np.float32), one.name))
    found: ModelProto = convert_float_to_float16(copy, keep_io_types=True, op_block_list=[*KEPT])
    # The converter casts a value once a reader, each time under one name.
    once = {node.output[0]: node for node in reversed(found.graph.node)}
    nodes = [node for node in found.graph.node if once[node.output[0]] is node]
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    return found


LEAST = 2.0**-14
"""The smallest normal float16: what keeps a length from being 0 may not become 0 itself."""
KEPT = ("Clip", "Div", "LSTM", "Max", "ReduceL2", "ReduceSum")
"""Operations that stay float32: sums over a text, lengths, and an LSTM, which onnxruntime has in no other."""
