"""weights.hdf5 in AllenNLP's layout, as the state of the network here."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.core.errors import UserError
from pipeline.teacher.shared.elmo.options import Options, check_packages
from pipeline.teacher.shared.elmo.words import CHARACTERS

Shape = tuple[int, ...]
Arrays = dict[str, NDArray[np.float32]]
FORGET_BIAS = 1.0
"""TensorFlow adds it when it computes, and keeps a bias without it."""
DIRECTIONS = ("ahead", "back")
"""The network's names of RNN_0 and RNN_1."""


def shapes(options: Options) -> dict[str, Shape]:
    """Name and shape of each array that a model of this shape has."""
    cnn, lstm = options.char_cnn, options.lstm
    found: dict[str, Shape] = {"char_embed": (CHARACTERS, cnn.embedding.dim)}
    for number, (width, count) in enumerate(cnn.filters):
        found[f"CNN/W_cnn_{number}"] = (1, width, cnn.embedding.dim, count)
        found[f"CNN/b_cnn_{number}"] = (count,)
    for number in range(cnn.n_highway):
        for gate in ("carry", "transform"):
            found[f"CNN_high_{number}/W_{gate}"] = (cnn.filtered, cnn.filtered)
            found[f"CNN_high_{number}/b_{gate}"] = (cnn.filtered,)
    found["CNN_proj/W_proj"] = (cnn.filtered, lstm.projection_dim)
    found["CNN_proj/b_proj"] = (lstm.projection_dim,)
    for cell in (_cell(direction, layer) for direction in (0, 1) for layer in range(lstm.n_layers)):
        found[f"{cell}/W_0"] = (2 * lstm.projection_dim, 4 * lstm.dim)
        found[f"{cell}/B"] = (4 * lstm.dim,)
        found[f"{cell}/W_P_0"] = (lstm.dim, lstm.projection_dim)
    return found


def _cell(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def read(path: Path, options: Options) -> dict[str, Tensor]:
    """The state of the network of this shape.

    Raises:
        UserError: h5py is not installed, the file is damaged, or of a model of another shape.
    """
    check_packages()
    import h5py

    arrays: Arrays = {}
    try:
        with h5py.File(path, "r") as file:
            for name, shape in shapes(options).items():
                held = file.get(name)
                if not isinstance(held, h5py.Dataset):
                    raise UserError(
                        f"teacher.model: {path} has no {name}, which its options ask for; take both files "
                        "of one model"
                    )
                if held.shape != shape:
                    raise UserError(
                        f"teacher.model: {path}: {name} is {held.shape}, and its options make it {shape}; "
                        "take both files of one model"
                    )
                arrays[name] = held[...].astype(np.float32)
    except (OSError, RuntimeError) as error:
        raise UserError(f"teacher.model: {path} cannot be read ({error}); obtain it again") from None
    if wrong := next((name for name, array in arrays.items() if not np.isfinite(array).all()), None):
        raise UserError(f"teacher.model: {path}: {wrong} is not finite; obtain it again")
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in _state(arrays, options)}


def _state(arrays: Arrays, options: Options) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Name and value of each parameter of the network: TensorFlow multiplies by the transposed matrices.

    An array is let go once it is taken, so that hardly more than one of them is held twice.
    """
    yield "embedding.weight", arrays.pop("char_embed")
    for number in range(len(options.char_cnn.filters)):
        yield f"filters.{number}.weight", arrays.pop(f"CNN/W_cnn_{number}")[0].transpose(2, 1, 0)
        yield f"filters.{number}.bias", arrays.pop(f"CNN/b_cnn_{number}")
    for number in range(options.char_cnn.n_highway):
        for gate in ("carry", "transform"):
            yield f"highways.{number}.{gate}.weight", arrays.pop(f"CNN_high_{number}/W_{gate}").T
            yield f"highways.{number}.{gate}.bias", arrays.pop(f"CNN_high_{number}/b_{gate}")
    yield "projection.weight", arrays.pop("CNN_proj/W_proj").T
    yield "projection.bias", arrays.pop("CNN_proj/b_proj")
    dim, width = options.lstm.dim, options.lstm.projection_dim
    for number, direction in enumerate(DIRECTIONS):
        for layer in range(options.lstm.n_layers):
            cell, place = _cell(number, layer), f"{direction}.{layer}"
            # Its columns are the gates i, j, f, o, in this order; its rows the input's, then the state's.
            inputs, state = np.split(arrays.pop(f"{cell}/W_0"), [width])
            bias = arrays.pop(f"{cell}/B")
            bias[2 * dim : 3 * dim] += FORGET_BIAS
            yield f"{place}.inputs.weight", inputs.T
            yield f"{place}.inputs.bias", bias
            yield f"{place}.state.weight", state.T
            yield f"{place}.output.weight", arrays.pop(f"{cell}/W_P_0").T
