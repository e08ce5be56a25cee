"""An exported student's ONNX graphs, and the files beside them that runtimes read.

A text becomes a graph's inputs by the folder's tokenizer.json alone, which adds special tokens and cuts.
`input_ids`, `attention_mask` and, where the model has types, `token_type_ids` are (n, length) int64, with a
length of 1 at least. `sentence_embedding` is (n, dim) float32, `last_hidden_state` (n, length, d).
"""

import json
import shutil
from pathlib import Path
from typing import Any

from pipeline.core.errors import UserError
from pipeline.params.export import Format

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
SENTENCES, TOKENS = "sentence_embedding", "last_hidden_state"
"""Outputs, in this order: fastembed takes the first."""
GRAPHS: dict[Format, str] = {
    "onnx": "onnx/model.onnx",
    "onnx-int8": "onnx/model_quantized.onnx",
    "onnx-fp16": "onnx/model_fp16.onnx",
}
"""Where they lie: transformers.js and sentence-transformers look there."""
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
CONFIG = "config.json"
UNLIMITED = 1_000_000
"""Tokens of a text for whose length nothing is said: runtimes want a number."""


def is_onnx(folder: Path) -> bool:
    """Whether a folder holds a student's graphs."""
    return any((folder / graph).exists() for graph in GRAPHS.values())


def complete(folder: Path) -> None:
    """Write what ONNX runtimes look for at the root and sentence-transformers has elsewhere, or not at all.

    A BiLSTM's tokenizer lies in its first module's folder, and a table says nothing of padding.
    """
    if not (folder / TOKENIZER).exists():
        place = next(path.parent for path in folder.glob(f"*/{TOKENIZER}"))
        for name in (TOKENIZER, TOKENIZER_CONFIG):
            shutil.copyfile(place / name, folder / name)
    tokenizer = _read(folder / TOKENIZER)
    config = _read(folder / CONFIG) if (folder / CONFIG).exists() else {"model_type": "bilstm"}
    told = _read(folder / TOKENIZER_CONFIG) if (folder / TOKENIZER_CONFIG).exists() else {}
    pad = told.get("pad_token") or next(iter(tokens_of(tokenizer)))
    if config.get("pad_token_id") is None:
        config["pad_token_id"] = tokens_of(tokenizer)[pad]
        _write(folder / CONFIG, config)
    longest = told.get("model_max_length")
    if "pad_token" not in told or not longest or longest > UNLIMITED:
        told.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
        _write(folder / TOKENIZER_CONFIG, told | {"pad_token": pad, "model_max_length": UNLIMITED})


def tokens_of(tokenizer: dict[str, Any]) -> dict[str, int]:
    """The tokens of a tokenizer.json with their ids."""
    vocabulary = tokenizer["model"]["vocab"]
    if isinstance(vocabulary, list):  # Unigram lists its tokens with their scores
        vocabulary = {token: number for number, (token, _) in enumerate(vocabulary)}
    return vocabulary | {added["content"]: added["id"] for added in tokenizer["added_tokens"]}


def pad_id(folder: Path) -> int:
    """The id that fills texts up.

    Raises:
        UserError: config.json is missing or damaged.
    """
    path = folder / CONFIG
    try:
        return int(_read(path)["pad_token_id"])
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); export the student again") from None
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path} has no pad_token_id ({error}); export the student again") from None


def _read(path: Path) -> Any:  # noqa: ANN401  # whatever the file holds
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
