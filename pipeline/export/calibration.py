"""What the products of an ONNX student multiply, seen on texts: by this their int8 is chosen."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.data.tokens.tokens import tokenise
from pipeline.export.shared.onnx_folder import MASK, pad_id
from pipeline.export.shared.session import CPU, load_tokenizer, model_inputs

if TYPE_CHECKING:
    from onnx import ModelProto

TEXTS = 256
"""How many texts are enough."""
BATCH_SIZE = 8
"""Texts whose activations are in memory together."""

Inputs = Mapping[str, NDArray[np.int64]]
"""A graph's inputs by name, each (n, length)."""


@dataclass(frozen=True)
class Activations:
    """What stands at one place of a graph, over the tokens of all texts; d channels."""

    largest: NDArray[np.float64]
    """Largest absolute value of each channel, (d,)."""
    products: NDArray[np.float64]
    """Mean over the tokens of each two channels' product, (d, d)."""


def batches(folder: Path, texts: Sequence[str], names: set[str]) -> Iterator[Inputs]:
    """The inputs of these names for texts (one or more), by the tokenizer of an exported folder."""
    tokens = tokenise(load_tokenizer(folder), texts, special=True)
    order = np.argsort(tokens.lengths, kind="stable")
    for rows in np.array_split(order, -(-len(order) // BATCH_SIZE)):
        yield model_inputs(tokens.select(rows), pad_id(folder), names)


def activations(
    model: "ModelProto", places: Iterable[str], inputs: Iterable[Inputs]
) -> dict[str, Activations]:
    """What stands at these places of a graph where the mask has tokens.

    Places that do not hold a vector for each token, (n, length, d), are left out: positions, for one.
    """
    import onnxruntime
    from onnx import ModelProto, TensorProto, helper

    asked = list(dict.fromkeys(places))
    copy = ModelProto()
    copy.CopyFrom(model)
    known = {one.name for one in copy.graph.output}
    wanted = [
        helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in asked if one not in known
    ]
    copy.graph.output.extend(wanted)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors, which are raised too
    session = onnxruntime.InferenceSession(copy.SerializeToString(), options, providers=[CPU])
    largest: dict[str, NDArray[np.float64]] = {}
    sums: dict[str, NDArray[np.float64]] = {}
    others: set[str] = set()
    count = 0
    for batch in inputs:
        there = batch[MASK].astype(bool)
        count += int(there.sum())
        for name, found in zip(asked, session.run(asked, dict(batch)), strict=True):
            if found.ndim != there.ndim + 1 or found.shape[:-1] != there.shape:
                others.add(name)
                continue
            rows = found[there].astype(np.float64)
            if name not in sums:
                largest[name], sums[name] = np.zeros(rows.shape[1]), np.zeros((rows.shape[1], rows.shape[1]))
            largest[name] = np.maximum(largest[name], np.abs(rows).max(axis=0, initial=0))
            sums[name] += rows.T @ rows
    return {
        name: Activations(largest[name], sums[name] / max(count, 1)) for name in asked if name not in others
    }
