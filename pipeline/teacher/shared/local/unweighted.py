"""A teacher's tokenizer and lengths, read as sentence-transformers reads them, without its weights."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.core import json_text
from pipeline.core.errors import UserError
from pipeline.params.teacher import TransformerTeacher

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
