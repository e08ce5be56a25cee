"""Vectors from an ONNX student: onnxruntime, tokenizers and numpy."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.data.tokens.tokens import Tokens, tokenise
from pipeline.export.shared.onnx_folder import GRAPHS, IDS, MASK, SENTENCES, TOKENIZER, TYPES, pad_id

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"


class OnnxEncoder:
    """An ONNX student, loaded."""

    def __init__(
        self,
        folder: Path,
        device: str = "cpu",
        graph: str = GRAPHS["onnx"],
        output: str = SENTENCES,
        group: int = 1,
    ) -> None:
        """Load a student from a folder of `export`.

        Args:
            folder: one that `is_onnx` takes for such.
            device: `auto`: the first GPU where onnxruntime can use one, else the CPU; `cpu`; `cuda`,
                `cuda:1`, ...
            graph: the graph's file in the folder.
            output: the graph's output, a row for each text.
            group: texts that follow each other and have a row together; 2 for a classifier of pairs.

        Raises:
            UserError: the folder is damaged, or onnxruntime has no such device.
        """
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors, which are raised too
        providers = _providers(device, onnxruntime.get_available_providers())
        # They have no class in common; what its C++ does not name ends as a RuntimeError.
        own = [one for one in vars(state).values() if isinstance(one, type) and issubclass(one, Exception)]
        known: tuple[type[Exception], ...] = (RuntimeError, *own)
        self._tokenizer = load_tokenizer(folder)
        self._pad_id = pad_id(folder)
        try:
            self._session = onnxruntime.InferenceSession(str(folder / graph), options, providers=providers)
        except known as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{folder / graph} cannot be loaded on device {device!r}: {reason}; "
                "name another device, or export the student again"
            ) from None
        self._inputs = {one.name for one in self._session.get_inputs()}
        self._output, self._group = output, group
        self.dim = next(int(one.shape[1]) for one in self._session.get_outputs() if one.name == output)

    def encode(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], batch_size: int = 64
    ) -> NDArray[np.float32]:
        """Rows (n, dim) of the output for n texts, groups of them, or pairs that are read together.

        Batches are of similar length.
        """
        tokens = tokenise(self._tokenizer, texts, special=True)
        groups = np.arange(len(texts)).reshape(-1, self._group)
        vectors = np.empty((len(groups), self.dim), np.float32)
        order = np.argsort(tokens.lengths[groups].max(axis=1), kind="stable")
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            inputs = model_inputs(tokens.select(groups[rows].ravel()), self._pad_id, self._inputs)
            vectors[rows] = self._session.run([self._output], inputs)[0]
        return vectors


def load_tokenizer(folder: Path) -> "Tokenizer":
    """The tokenizer of an exported folder, which cuts but does not fill up.

    Raises:
        UserError: it is damaged.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    except Exception as error:  # tokenizers raises no narrower one
        raise UserError(f"{folder / TOKENIZER} is damaged ({error}); export the student again") from None
    tokenizer.no_padding()
    return tokenizer


def model_inputs(tokens: Tokens, fill: int, names: set[str]) -> dict[str, NDArray[np.int64]]:
    """A graph's inputs of these names, each (n, longest)."""
    ids, mask = tokens.padded(fill)
    inputs = {IDS: ids, MASK: mask}
    return inputs | {TYPES: tokens.padded_types()} if TYPES in names else inputs


def _providers(device: str, available: Sequence[str]) -> list[str | tuple[str, dict[str, str]]]:
    if device == "cpu" or (device == "auto" and CUDA not in available):
        return [CPU]
    if CUDA not in available or not device.startswith(("auto", "cuda")):
        raise UserError(
            f"device {device!r}: onnxruntime offers {', '.join(available)} here; use --device cpu, or "
            "install onnxruntime-gpu"
        )
    return [(CUDA, {"device_id": device.partition(":")[2] or "0"}), CPU]
