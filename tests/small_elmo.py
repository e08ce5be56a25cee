"""A tiny ELMo of random weights in AllenNLP's layout, and its vectors by another way: in float64 alone."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

CELL = "RNN_{}/RNN/MultiRNNCell/Cell{}/LSTMCell/"


def options(**changed: dict[str, Any]) -> dict[str, Any]:
    """Its options.json; each block with these changes."""
    said: dict[str, Any] = {
        "char_cnn": {
            "activation": "relu",
            "filters": [[1, 3], [2, 4], [3, 5]],
            "n_highway": 2,
            "embedding": {"dim": 4},
            "n_characters": 262,
            "max_characters_per_token": 12,
        },
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": 8,
            "cell_clip": 0.6,
            "proj_clip": 0.4,
            "dim": 10,
            "n_layers": 2,
        },
    }
    return {block: {**of_block, **changed.get(block, {})} for block, of_block in said.items()}


def arrays(said: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Its weights, of every name, as TensorFlow multiplies by them."""
    cnn, lstm = said["char_cnn"], said["lstm"]
    count, dim, width = sum(n for _, n in cnn["filters"]), lstm["dim"], lstm["projection_dim"]
    shapes = {"char_embed": (261, cnn["embedding"]["dim"])}
    for i, (span, n) in enumerate(cnn["filters"]):
        shapes |= {f"CNN/W_cnn_{i}": (1, span, cnn["embedding"]["dim"], n), f"CNN/b_cnn_{i}": (n,)}
    for k in range(cnn["n_highway"]):
        for gate in ("carry", "transform"):
            place = f"CNN_high_{k}"
            shapes |= {f"{place}/W_{gate}": (count, count), f"{place}/b_{gate}": (count,)}
    shapes |= {"CNN_proj/W_proj": (count, width), "CNN_proj/b_proj": (width,)}
    for cell in (CELL.format(d, layer) for d in (0, 1) for layer in range(lstm["n_layers"])):
        shapes |= {f"{cell}W_0": (2 * width, 4 * dim), f"{cell}B": (4 * dim,), f"{cell}W_P_0": (dim, width)}
    random = np.random.default_rng(seed)
    return {name: random.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}


def write(
    folder: Path, said: dict[str, Any] | None = None, found: dict[str, np.ndarray] | None = None
) -> Path:
    """Write both files into a folder."""
    said = options() if said is None else said
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny_options.json").write_text(json.dumps(said))
    with h5py.File(folder / "tiny_weights.hdf5", "w") as file:
        for name, array in (arrays(said) if found is None else found).items():
            file[name] = array
    return folder


def reference(words: list[str], said: dict[str, Any], found: dict[str, np.ndarray]) -> np.ndarray:
    """Vectors (layers + 1, words + 2, 2 d) of a sentence, the paper's equations one after the other."""
    of = {name: array.astype(np.float64) for name, array in found.items()}
    lstm = said["lstm"]
    ends = [[258, 256, 259], [258, 257, 259]]
    most = said["char_cnn"]["max_characters_per_token"]
    inner = [[258, *word.encode()[: most - 2], 259] for word in words]
    tokens = [_word(ids + [260] * (most - len(ids)), said, of) for ids in (ends[0], *inner, ends[1])]
    layers = [np.array([np.concatenate([token, token]) for token in tokens])]
    ahead, back = tokens, tokens
    for layer in range(lstm["n_layers"]):
        before = ahead, back
        ahead = _run(ahead, CELL.format(0, layer), lstm, of)
        back = _run(back[::-1], CELL.format(1, layer), lstm, of)[::-1]
        if layer > 0 and lstm["use_skip_connections"]:
            ahead = [one + below for one, below in zip(ahead, before[0], strict=True)]
            back = [one + below for one, below in zip(back, before[1], strict=True)]
        layers.append(np.array([np.concatenate(both) for both in zip(ahead, back, strict=True)]))
    return np.array(layers)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _word(ids: list[int], said: dict[str, Any], of: dict[str, np.ndarray]) -> np.ndarray:
    table = of["char_embed"][ids]
    pooled = []
    for i, (span, _) in enumerate(said["char_cnn"]["filters"]):
        kernel, bias = of[f"CNN/W_cnn_{i}"][0], of[f"CNN/b_cnn_{i}"]
        places = [np.einsum("wc,wcn->n", table[at : at + span], kernel) for at in range(len(ids) - span + 1)]
        pooled.append(np.max(places, axis=0) + bias)
    activate = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[said["char_cnn"]["activation"]]
    x = activate(np.concatenate(pooled))
    for k in range(said["char_cnn"]["n_highway"]):
        place = f"CNN_high_{k}"
        gate = _sigmoid(x @ of[f"{place}/W_carry"] + of[f"{place}/b_carry"])
        x = gate * np.maximum(x @ of[f"{place}/W_transform"] + of[f"{place}/b_transform"], 0) + (1 - gate) * x
    return x @ of["CNN_proj/W_proj"] + of["CNN_proj/b_proj"]


def _run(
    inputs: list[np.ndarray], cell: str, lstm: dict[str, Any], of: dict[str, np.ndarray]
) -> list[np.ndarray]:
    state, memory, outputs = np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]), []
    for x in inputs:
        i, j, f, o = np.split(np.concatenate([x, state]) @ of[f"{cell}W_0"] + of[f"{cell}B"], 4)
        memory = _sigmoid(f + 1.0) * memory + _sigmoid(i) * np.tanh(j)
        if lstm["cell_clip"]:
            memory = np.clip(memory, -lstm["cell_clip"], lstm["cell_clip"])
        state = (_sigmoid(o) * np.tanh(memory)) @ of[f"{cell}W_P_0"]
        if lstm["proj_clip"]:
            state = np.clip(state, -lstm["proj_clip"], lstm["proj_clip"])
        outputs.append(state)
    return outputs
