"""A teacher's tokenizer and lengths, read as sentence-transformers reads them, without its weights."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.core import json_text
from pipeline.core.errors import UserError
from pipeline.encoders.packed_model import encoder_of
from pipeline.encoders.packing.packing import positions_of
from pipeline.params.teacher import TransformerTeacher
from pipeline.teacher.shared.local.local_model import longest_text

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PretrainedConfig, PreTrainedModel


class Reading(NamedTuple):
    """How a teacher reads a text."""

    tokenizer: str | None
    """In the JSON of the library `tokenizers`; None: it has none here."""
    max_length: int | None
    """Tokens after which a text is cut; None: not known."""
    prompt: str
    """The longest that is put before a text."""


def load_unweighted(folder: Path, params: TransformerTeacher) -> "SentenceTransformer":
    """The first module of a teacher, its model on torch's device `meta`.

    Raises:
        UserError: it cannot be built, or has no fast tokenizer.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from transformers import AutoModel

    class Unweighted(Transformer):
        def _load_model(  # type: ignore[override]
            self, _name: str, _task: str, config: "PretrainedConfig", *_: object, **_options: object
        ) -> "PreTrainedModel":
            with torch.device("meta"):
                return AutoModel.from_config(config, trust_remote_code=params.trust_remote_code)

    try:
        module = Unweighted.load(
            str(folder), subfolder=_first_module(folder), trust_remote_code=params.trust_remote_code
        )
        model = SentenceTransformer(modules=[module], device="meta")
    except (ImportError, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise UserError(
            f"teacher.model: the tokenizer of {params.model} cannot be loaded ({type(error).__name__}: "
            f"{error}); complete its files, or name another model"
        ) from None
    if not model.tokenizer.is_fast:
        raise UserError(
            "teacher.model: its tokenizer has no tokenizer.json (only fast tokenizers are supported)"
        )
    return model


def max_length_of(model: "SentenceTransformer", params: TransformerTeacher) -> int:
    """Tokens after which a teacher cuts texts.

    Raises:
        UserError: params and the model say different lengths, or see `longest_text`.
    """
    own = model.max_seq_length or model.tokenizer.model_max_length
    settings: dict[str, Any] = {**encoder_of(model).processing_kwargs}
    for place in ("common", "text", "chat_template"):
        if stated := settings.get(place, {}).get("max_length"):
            own = stated
            if params.max_length and params.max_length != stated:
                raise UserError(
                    f"teacher.max_length is {params.max_length}, but sentence_bert_config.json of "
                    f"{params.model} sets processing_kwargs.{place}.max_length to {stated}, which counts; "
                    "remove one of the two"
                )
    return longest_text(params, own, positions_of(encoder_of(model).model))


def stated_prompts(folder: Path) -> tuple[dict[str, str | None], str | None]:
    """The prompts of a sentence-transformers model by name, and the name of the default one."""
    try:
        stated = json_text.parse((folder / "config_sentence_transformers.json").read_text(encoding="utf-8"))
        return dict(stated.get("prompts") or {}), stated.get("default_prompt_name")
    except (OSError, ValueError, TypeError, AttributeError):
        return {}, None


def _first_module(folder: Path) -> str:
    listed = folder / "modules.json"
    return json_text.parse(listed.read_text(encoding="utf-8"))[0]["path"] if listed.exists() else ""
