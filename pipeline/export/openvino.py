"""A student in OpenVINO's form: openvino/openvino_model.xml, where sentence-transformers looks for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.data.tokens.tokens import tokenise
from pipeline.export.shared.onnx_folder import SENTENCES, pad_id
from pipeline.export.shared.session import load_tokenizer, model_inputs

MODEL = "openvino/openvino_model.xml"


def write(onnx: Path, folder: Path) -> None:
    """Convert an ONNX graph of float32, whose weights stay float32.

    Raises:
        UserError: openvino is not installed.
    """
    openvino = _library()
    (folder / MODEL).parent.mkdir()
    openvino.save_model(openvino.convert_model(onnx), folder / MODEL, compress_to_fp16=False)


def encode(folder: Path, texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
    """Vectors (n, dim) by OpenVINO on the CPU."""
    precise = {"INFERENCE_PRECISION_HINT": "f32"}
    model = _library().Core().compile_model(str(folder / MODEL), "CPU", precise)
    names = {name for one in model.inputs for name in one.get_names()}
    tokens, fill = tokenise(load_tokenizer(folder), texts, special=True), pad_id(folder)
    order = np.argsort(tokens.lengths, kind="stable")
    parts = np.split(order, range(batch_size, len(order), batch_size))
    found = [model(model_inputs(tokens.select(rows), fill, names))[SENTENCES] for rows in parts]
    vectors: NDArray[np.float32] = np.concatenate(found)[np.argsort(order)]
    return vectors


def _library() -> Any:  # noqa: ANN401  # a module that need not be installed
    try:
        import openvino
    except ImportError:
        raise UserError(
            "export.formats has openvino, which is not installed; `pip install openvino`, or leave it out"
        ) from None
    return openvino
