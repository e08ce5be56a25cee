"""A saved sentence-transformers folder in the form that all its versions since 3, and servers, read.

sentence-transformers 6 writes other names than it reads: text-embeddings-inference, infinity and its own
versions up to 5.3 know the old ones alone.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.core import json_text
from pipeline.core.errors import UserError

MODULES = "modules.json"
PREFIX = "sentence_transformers.models."
"""Where every version has its modules, or an alias of them."""
NORMALIZE = f"{PREFIX}Normalize"
TRANSFORMER = "sentence_bert_config.json"
LONGEST = 10**9
"""Above it, a tokenizer's longest text means none."""
POOLING = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
DENSE = ("in_features", "out_features", "bias", "activation_function")
"""What Dense has had from the start; the other settings name the vector it works on."""


def rewrite(folder: Path, *, unit: bool) -> None:
    """Write the settings of a saved folder in the form that all read.

    Args:
        folder: with a modules.json, or without one: then it is no sentence-transformers folder.
        unit: whether the vectors have length 1: `Normalize` is then the last module.
    """
    path = folder / MODULES
    if not path.exists():
        return
    modules = _read(path)
    for module in modules:
        kind = module["type"].rpartition(".")[2]
        module["type"] = PREFIX + kind
        if kind in SETTINGS:
            SETTINGS[kind](folder / module["path"])
    if unit and modules[-1]["type"] != NORMALIZE:
        number = len(modules)
        modules.append({"idx": number, "name": str(number), "path": f"{number}_Normalize", "type": NORMALIZE})
    _write(path, modules)


def is_unit(folder: Path) -> bool:
    """Whether a sentence-transformers folder gives vectors of length 1: its last module is Normalize.

    Raises:
        UserError: modules.json is damaged.
    """
    try:
        return str(_read(folder / MODULES)[-1]["type"]).endswith(".Normalize")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"{folder / MODULES} does not list modules ({error}); make the student again"
        ) from None


def _transformer(place: Path) -> None:
    settings = _read(place / "tokenizer_config.json")
    longest = settings.get("model_max_length") or LONGEST
    cut = None if longest >= LONGEST else longest
    _write(place / TRANSFORMER, {"max_seq_length": cut, "do_lower_case": False})


def _pooling(place: Path) -> None:
    stated = _read(place / "config.json")
    if "pooling_mode" not in stated:
        return
    modes = stated["pooling_mode"]
    chosen = {modes} if isinstance(modes, str) else {*modes}
    told = {"word_embedding_dimension": stated["embedding_dimension"]}
    told |= {old: new in chosen for new, old in POOLING.items()}
    _write(place / "config.json", told | {"include_prompt": stated.get("include_prompt", True)})


def _dense(place: Path) -> None:
    stated = _read(place / "config.json")
    _write(place / "config.json", {key: stated[key] for key in DENSE})


def _word_embeddings(place: Path) -> None:
    path = place / "wordembedding_config.json"
    stated = _read(path)
    stated["tokenizer_class"] = f"{PREFIX}tokenizer.{stated['tokenizer_class'].rpartition('.')[2]}"
    _write(path, stated)


SETTINGS: dict[str, Callable[[Path], None]] = {
    "Transformer": _transformer,
    "Pooling": _pooling,
    "Dense": _dense,
    "WordEmbeddings": _word_embeddings,
}
"""What is written anew for a module, by its kind, in its folder."""


def _read(path: Path) -> Any:  # noqa: ANN401  # whatever the file holds
    return json_text.parse(path.read_text(encoding="utf-8"))


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
