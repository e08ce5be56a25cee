"""An encoder's settings, so that a saved model reads as the very one that was saved."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.core import json_text
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from transformers import PretrainedConfig

FILE = "config.json"
TOKENIZER_CLASSES = {"TokenizersBackend": "PreTrainedTokenizerFast"}
"""transformers 5 writes the one and reads both; transformers 4 knows the other alone."""
HALVED = "sliding_window"
"""Gemma 3 with attention both ways makes w // 2 + 1 of it whenever its settings are read."""


def settings_of(config: "PretrainedConfig") -> dict[str, Any]:
    """Settings that the config's class reads as this config.

    Raises:
        UserError: there are none: the class changes what it reads.
    """
    settings = config.to_dict()
    if _read(config, settings).get(HALVED) != settings.get(HALVED):
        settings[HALVED] = 2 * (settings[HALVED] - 1)
    again = _read(config, settings)
    for key, value in config.to_dict().items():
        if again.get(key) != value:
            raise UserError(
                f"a {config.model_type} model like this one cannot be saved: {key} changes from {value} to "
                f"{again.get(key)}; take the kinds bilstm and static, or name another encoder as init.model"
            )
    return settings


def write_settings(config: "PretrainedConfig", folder: Path) -> None:
    """Make a saved folder's config.json one that reads as this config, if it does not yet."""
    stated, wanted = config.to_dict(), settings_of(config)
    changed = {key: value for key, value in wanted.items() if stated[key] != value}
    if changed:
        file = folder / FILE
        told = {**json_text.parse(file.read_text(encoding="utf-8")), **changed}
        file.write_text(json.dumps(told, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def write_tokenizer_config(folder: Path) -> None:
    """Have a saved folder's tokenizer read as one and the same everywhere.

    Its class is named as all versions of transformers know it. The `max_length` that a teacher's tokenizer
    may have goes: transformers looks at `model_max_length` alone, fastembed cuts at the smaller of the two.
    """
    for file in folder.rglob("tokenizer_config.json"):
        told = json_text.parse(file.read_text(encoding="utf-8"))
        name = told.get("tokenizer_class", "")
        wanted = {key: value for key, value in told.items() if key != "max_length"}
        if name in TOKENIZER_CLASSES:
            wanted["tokenizer_class"] = TOKENIZER_CLASSES[name]
        if wanted != told:
            file.write_text(json.dumps(wanted, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(config: "PretrainedConfig", settings: dict[str, Any]) -> dict[str, Any]:
    return type(config).from_dict(dict(settings)).to_dict()
