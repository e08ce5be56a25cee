"""What a local model's files tell without its weights."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.core import json_text
from pipeline.core.errors import UserError
from pipeline.data.models import teacher_facts
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.encoders.packing.packing import positions_of
from pipeline.params.teacher import TransformerTeacher
from pipeline.teacher.shared.local.local_model import (
    check_pooling,
    check_tokenizer,
    longest_text,
)

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

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
    own = _max_seq_length(place) or tokenizer.model_max_length
    window = longest_text(params, own, _positions(config, params))
    width = int(config.get_text_config().hidden_size)
    dims = {"sentence": _sentence_dim(kinds[1:], width, params), "token_mean": width, "cls": width}
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


def _max_seq_length(place: Path) -> int | None:
    """What sentence-transformers cuts texts at, where it is told to."""
    settings = place / "sentence_bert_config.json"
    return (
        json_text.parse(settings.read_text(encoding="utf-8")).get("max_seq_length")
        if settings.exists()
        else None
    )


def _positions(config: "PreTrainedConfig", params: TransformerTeacher) -> int | None:
    import torch
    from transformers import AutoModel

    if params.trust_remote_code:  # what a model's own code makes of its config shows once that code runs
        return getattr(config, "max_position_embeddings", None)
    with torch.device("meta"):
        return positions_of(AutoModel.from_config(config))


def _sentence_dim(modules: list[tuple[str, Path]], width: int, params: TransformerTeacher) -> int | None:
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
    return found


def _pooled_dim(pooling: Mapping[str, Any]) -> int:
    """Dimension of what Pooling gives by its config: each of its modes gives a token's.

    sentence-transformers itself takes a second to load.
    """
    modes = pooling.get("pooling_mode")
    if modes is None:  # as its versions up to 5.3 write it
        modes = [key for key, chosen in pooling.items() if key.startswith("pooling_mode_") and chosen]
    dim = pooling.get("embedding_dimension") or pooling["word_embedding_dimension"]
    return int(dim) * (1 if isinstance(modes, str) else len(modes) or 1)
