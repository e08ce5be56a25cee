"""What a local model's files tell without its weights."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.core import json_text
from pipeline.core.errors import UserError
from pipeline.data.models import teacher_facts
from pipeline.data.models.padding import give_padding
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.params.teacher import TransformerTeacher
from pipeline.teacher.shared.local.local_model import (
    check_pooling,
    check_tokenizer,
    longest_text,
)
from pipeline.teacher.shared.local.unweighted import load_unweighted, max_length_of

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

SAME = ("Normalize", "Dropout", "LayerNorm")
"""Modules that leave the dimension of a sentence vector as it is."""


def facts_of(folder: Path, params: TransformerTeacher) -> TeacherFacts:
    """The facts of the model in a folder.

    Raises:
        UserError: it cannot be a teacher, whatever the students are.
    """
    from transformers import AutoConfig, AutoTokenizer

    if not any((folder / name).exists() for name in ("modules.json", "config.json")):
        raise UserError(
            f"teacher.model: {params.model} has neither modules.json nor config.json; "
            "name a model's own folder"
        )
    check_pooling(folder, params)
    kinds = _modules(folder)
    if kinds[0][0] != "Transformer":
        raise UserError(
            f"teacher.model: {params.model} is no transformer but a {kinds[0][0]}; name another model"
        )
    place, code = kinds[0][1], params.trust_remote_code
    try:
        config = AutoConfig.from_pretrained(place, trust_remote_code=code)
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=code)
    except (OSError, ValueError, ImportError) as error:
        raise UserError(f"teacher.model: {params.model} cannot be loaded: {error}") from None
    check_tokenizer(tokenizer)
    give_padding(tokenizer)
    window = _window(folder, params, place, config, tokenizer)
    width = int(config.get_text_config().hidden_size)
    dims = {"sentence": _sentence_dim(folder, kinds[1:], width, params), "token_mean": width, "cls": width}
    known = {view: dim for view, dim in dims.items() if dim}
    return teacher_facts.of_parts(_as_saved(config), tokenizer, known, width, window)


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each module; a plain transformers model is one."""
    listed = folder / "modules.json"
    if not listed.exists():
        return [("Transformer", folder)]
    try:
        modules = json_text.parse(listed.read_text(encoding="utf-8"))
        return [(module["type"].rpartition(".")[2], folder / module["path"]) for module in modules]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{listed} does not list modules ({error}); correct it, or name another model"
        ) from None


def _as_saved(config: "PreTrainedConfig") -> dict[str, Any]:
    """The config.json that `save_pretrained` writes."""
    with tempfile.TemporaryDirectory() as name:
        config.save_pretrained(name)
        saved: dict[str, Any] = json_text.parse((Path(name) / "config.json").read_text(encoding="utf-8"))
    return saved


def _window(
    folder: Path,
    params: TransformerTeacher,
    place: Path,
    config: "PreTrainedConfig",
    tokenizer: "PreTrainedTokenizerBase",
) -> int:
    """Tokens after which the model cuts texts."""
    if not params.trust_remote_code:
        return max_length_of(load_unweighted(folder, params), params)
    # A model of its own code may not be built without weights.
    settings = place / "sentence_bert_config.json"
    stated = json_text.parse(settings.read_text(encoding="utf-8")) if settings.exists() else {}
    own = stated.get("max_seq_length") or tokenizer.model_max_length
    return longest_text(params, own, getattr(config, "max_position_embeddings", None))


def _sentence_dim(
    folder: Path, modules: list[tuple[str, Path]], width: int, params: TransformerTeacher
) -> int | None:
    """Dimension of the sentence vectors; None where a module decides it that is not known here."""
    found: int | None = width if params.pooling else None
    for kind, place in modules:
        match kind:
            case "Pooling":
                found = _pooled_dim(json_text.parse((place / "config.json").read_text(encoding="utf-8")))
            case "Dense":
                found = json_text.parse((place / "config.json").read_text(encoding="utf-8"))["out_features"]
            case _ if kind not in SAME:
                found = None
    settings = folder / "config_sentence_transformers.json"
    stated = json_text.parse(settings.read_text(encoding="utf-8")) if settings.exists() else {}
    return min(found, stated.get("truncate_dim") or found) if found else None


def _pooled_dim(pooling: Mapping[str, Any]) -> int:
    """Dimension of what Pooling gives by its config: each of its modes gives a token's."""
    modes = pooling.get("pooling_mode")
    if modes is None:  # as its versions up to 5.3 write it
        modes = [key for key, chosen in pooling.items() if key.startswith("pooling_mode_") and chosen]
    dim = pooling.get("embedding_dimension") or pooling["word_embedding_dimension"]
    return int(dim) * (1 if isinstance(modes, str) else len(modes) or 1)
