"""Vectors from an ONNX student: onnxruntime, tokenizers and numpy."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.data.tokens.tokens import Tokens, tokenise
from pipeline.export.shared.onnx_folder import GRAPHS, IDS, MASK, SENTENCES, TOKENIZER, TYPES, pad_id

if TYPE_CHECKING:
    from onnxruntime import NodeArg
    from tokenizers import Tokenizer

CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
TOKENS_AT_A_TIME = 1024
"""Of a batch on a CPU: what a layer makes of more does not fit into a core's cache."""


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
            UserError: the folder is damaged, onnxruntime has no such device, or the graph has no such
                output.
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
        self._most_tokens = TOKENS_AT_A_TIME if providers == [CPU] else None
        self._output, self._group = output, group
        self.dim = _dimension(folder / graph, self._session.get_outputs(), output)

    def encode(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], batch_size: int = 64
    ) -> NDArray[np.float32]:
        """Rows (n, dim) of the output for n texts, groups of them, or pairs that are read together.

        Batches are of similar length. On a CPU they also end at TOKENS_AT_A_TIME, unless one row has more.
        """
        tokens = tokenise(self._tokenizer, texts, special=True)
        if len(texts) == self._group:  # what batches need would take longer than a small student itself
            return self._run(tokens)
        groups = np.arange(len(texts)).reshape(-1, self._group)
        vectors = np.empty((len(groups), self.dim), np.float32)
        longest = tokens.lengths[groups].max(axis=1)
        most_tokens = self._most_tokens and self._most_tokens // self._group
        for rows in in_batches(longest, batch_size, most_tokens):
            vectors[rows] = self._run(tokens.select(groups[rows].ravel()))
        return vectors

    def _run(self, tokens: Tokens) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._session.run(
            [self._output], model_inputs(tokens, self._pad_id, self._inputs)
        )[0]
        return found


def in_batches(
    lengths: NDArray[np.int64], batch_size: int, most_tokens: int | None
) -> Iterator[NDArray[np.intp]]:
    """Rows by rising length, at most `batch_size` at a time, and at most so many tokens.

    Tokens that fill rows up to the longest count too. A row that has more tokens is a batch of its own.
    """
    order = np.argsort(lengths, kind="stable")
    rising, start = lengths[order], 0
    while start < len(order):
        stop = min(start + batch_size, len(order))
        if most_tokens is not None:
            filled = rising[start:stop] * np.arange(1, stop - start + 1)
            stop = start + max(1, int(np.searchsorted(filled, most_tokens, side="right")))
        yield order[start:stop]
        start = stop


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


def _dimension(graph: Path, outputs: "Sequence[NodeArg]", name: str) -> int:
    """The dimension of a graph's output, of this name.

    Raises:
        UserError: the graph does not give it, or not with a dimension: it is of another program.
    """
    fix = "use --runtime torch" if name == SENTENCES else "export it again"
    shapes = {one.name: one.shape for one in outputs}
    if name not in shapes:
        raise UserError(f"{graph} gives no output `{name}`; it has {', '.join(shapes)}; {fix}")
    shape = shapes[name]
    if len(shape) != 2 or not isinstance(shape[1], int):
        raise UserError(f"{graph} gives `{name}` as {shape}, and not as rows of a known dimension; {fix}")
    return shape[1]


def _providers(device: str, available: Sequence[str]) -> list[str | tuple[str, dict[str, str]]]:
    if device == "cpu" or (device == "auto" and CUDA not in available):
        return [CPU]
    if CUDA not in available or not device.startswith(("auto", "cuda")):
        raise UserError(
            f"device {device!r}: onnxruntime offers {', '.join(available)} here; use --device cpu, or "
            "install onnxruntime-gpu"
        )
    return [(CUDA, {"device_id": device.partition(":")[2] or "0"}), CPU]
