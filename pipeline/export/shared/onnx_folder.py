"""An exported student's ONNX graphs, and the files beside them that runtimes read.

A text becomes a graph's inputs by the folder's tokenizer.json alone, which adds special tokens and cuts.
`input_ids`, `attention_mask` and, where the model has types, `token_type_ids` are (n, length) int64, with a
length of 1 at least. `sentence_embedding` is (n, dim) float32, `last_hidden_state` (n, length, d).
"""

import json
from pathlib import Path
from typing import Any

from pipeline.core import json_text
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
SPECIAL = "special_tokens_map.json"
"""fastembed asks for it, though tokenizer_config.json says the same."""
WORDS = "wordembedding_config.json"
UNLIMITED = 1_000_000
"""Tokens of a text for whose length nothing is said: runtimes want a number."""


def is_onnx(folder: Path, name: Format = "onnx") -> bool:
    """Whether a folder holds a student's graph of this format."""
    return (folder / GRAPHS[name]).exists()


def complete(folder: Path) -> None:
    """Write what ONNX runtimes look for at the root and sentence-transformers has elsewhere, or not at all.

    A table says nothing of padding, and a BiLSTM's tokenizer cuts elsewhere than the BiLSTM.
    """
    tokenizer = _read(folder / TOKENIZER)
    config = _read(folder / CONFIG) if (folder / CONFIG).exists() else {}
    told = _read(folder / TOKENIZER_CONFIG) if (folder / TOKENIZER_CONFIG).exists() else {}
    pad = told.get("pad_token") or next(iter(tokens_of(tokenizer)))
    if config.get("pad_token_id") is None:
        config["pad_token_id"] = tokens_of(tokenizer)[pad]
        _write(folder / CONFIG, config)
    longest = told.get("model_max_length")
    if (folder / WORDS).exists():  # the graph cuts, and not where a tokenizer would
        longest = None
    if "pad_token" not in told or not longest or longest > UNLIMITED:
        told.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
        told |= {"pad_token": pad, "model_max_length": UNLIMITED}
        _write(folder / TOKENIZER_CONFIG, told)
    special = {key: token for key, token in told.items() if key.endswith("_token") and isinstance(token, str)}
    _write(folder / SPECIAL, special)


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
    return json_text.parse(path.read_text(encoding="utf-8"))


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
