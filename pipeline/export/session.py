"""Vectors from an ONNX student: onnxruntime, tokenizers and numpy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.data.tokens.tokens import tokenise
from pipeline.export.onnx_folder import INPUTS, OUTPUT, TOKENIZER, read_config

CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"


class OnnxEncoder:
    """An ONNX student, loaded."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        """Load a student from a folder of `export`.

        Args:
            folder: one that `is_onnx` takes for such.
            device: `auto`: the first GPU where onnxruntime can use one, else the CPU; `cpu`; `cuda`,
                `cuda:1`, ...

        Raises:
            UserError: the folder is damaged, or onnxruntime has no such device.
        """
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state
        from tokenizers import Tokenizer

        self._config = read_config(folder)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors, which are raised too
        providers = _providers(device, onnxruntime.get_available_providers())
        # They have no class in common; what its C++ does not name ends as a RuntimeError.
        own = [one for one in vars(state).values() if isinstance(one, type) and issubclass(one, Exception)]
        known: tuple[type[Exception], ...] = (RuntimeError, *own)
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # tokenizers raises no narrower one
            raise UserError(f"{folder / TOKENIZER} is damaged ({error}); export the student again") from None
        try:
            self._session = onnxruntime.InferenceSession(
                str(folder / self._config.model), options, providers=providers
            )
        except known as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{folder} cannot be loaded on device {device!r}: {reason}; "
                "name another device, or export the student again"
            ) from None
        self.dim = self._config.dim

    def encode(self, texts: Sequence[str], batch_size: int = 64) -> NDArray[np.float32]:
        """Vectors (n, dim), computed in batches of similar length."""
        tokens = tokenise(self._tokenizer, texts, special=self._config.special_tokens)
        vectors = np.empty((len(texts), self.dim), np.float32)
        order = np.argsort(tokens.lengths, kind="stable")
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            padded = tokens.select(rows).padded(self._config.pad_id)
            inputs = [array[:, : self._config.max_length] for array in padded]
            vectors[rows] = self._session.run([OUTPUT], dict(zip(INPUTS, inputs, strict=True)))[0]
        return vectors


def _providers(device: str, available: Sequence[str]) -> list[str | tuple[str, dict[str, str]]]:
    if device == "cpu" or (device == "auto" and CUDA not in available):
        return [CPU]
    if CUDA not in available or not device.startswith(("auto", "cuda")):
        raise UserError(
            f"device {device!r}: onnxruntime offers {', '.join(available)} here; use --device cpu, or "
            "install onnxruntime-gpu"
        )
    return [(CUDA, {"device_id": device.partition(":")[2] or "0"}), CPU]
