"""Translation models as their folders describe them: found and checked, not loaded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.core import json_text
from pipeline.core.errors import UserError
from pipeline.data.models.locate import find_model, weights_hash
from pipeline.params.augment import BackTranslationAugment, TranslationStep

BLOCK = "augment.back_translation"
EXTRA = "pip install -e '.[back_translation]'"
NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "marian": (("source.spm",), ("target.spm",), ("vocab.json",)),
    "fsmt": (("vocab-src.json",), ("vocab-tgt.json",), ("merges.txt",)),
    "m2m_100": (("sentencepiece.bpe.model", "tokenizer.json"),),
}
"""By the model's type: the files of its tokenizer, of each group one."""
_TARGET = re.compile(r">>(.+)<<")


@dataclass(frozen=True)
class Model:
    """A translation model and the languages it goes between."""

    key: str
    """Where params.yaml names it, for messages."""
    folder: Path
    kind: str
    """A key of NEEDED."""
    source: str | None
    """Language; None where nobody says."""
    target: str | None
    prefix: str
    """What a Marian model of several target languages reads before a text."""
    config: dict[str, Any]

    @cached_property
    def weights(self) -> str:
        """Hash of all that decides what it gives."""
        return weights_hash(self.folder)

    @property
    def identity(self) -> dict[str, str | None]:
        """What decides a translation, without paths of this machine."""
        return {"weights": self.weights, "source": self.source, "target": self.target, "prefix": self.prefix}


def missing_packages(params: BackTranslationAugment) -> list[str]:
    """Packages that the engine and the models' tokenizers need and that are not installed."""
    needed = ["sentencepiece", "sacremoses", *([params.engine] if params.engine != "transformers" else [])]
    return [name for name in needed if not find_spec(name)]


def find_pivots(params: BackTranslationAugment) -> list[list[Model]]:
    """The models of every pivot, which are downloaded where they are on the hub.

    Raises:
        UserError: a model is not there, lacks a file or is of another architecture, or the languages do not
            lead from the corpus's back to it.
    """
    pivots = []
    for number, steps in enumerate(params.pivots):
        keys = [f"{BLOCK}.pivots.{number}.{place}" for place in range(len(steps))]
        folders = [
            find_model(step.model, f"{key}.model", revision=step.revision)
            for key, step in zip(keys, steps, strict=True)
        ]
        found = [
            describe(step, key, folder, params)
            for key, step, folder in zip(keys, steps, folders, strict=True)
        ]
        check_languages(found, params.language)
        pivots.append(found)
    return pivots


def describe(step: TranslationStep, key: str, folder: Path, params: BackTranslationAugment) -> Model:
    """What the folder of a model says of it.

    Raises:
        UserError: it is no translation model known here, lacks a file, does not take so long texts, or needs
            a language to be named.
    """
    config = _read(folder / "config.json", key)
    kind = str(config.get("model_type"))
    if kind not in NEEDED:
        raise UserError(
            f"{key}.model: {step.model} is of type {kind!r}; back-translation takes {', '.join(NEEDED)} "
            "(Marian, FSMT, M2M-100 and NLLB)"
        )
    for names in NEEDED[kind]:
        if not any((folder / name).exists() for name in names):
            raise UserError(f"{key}.model: {step.model} lacks {' or '.join(names)}, which {kind} needs")
    positions = config.get("max_position_embeddings", params.max_length)
    if kind == "marian" and params.max_length > positions:
        raise UserError(
            f"{BLOCK}.max_length is {params.max_length}, but {step.model} takes {positions} tokens; lower it"
        )
    says = _read(folder / "tokenizer_config.json", key) if kind == "marian" else config
    own = (says.get("source_lang"), says.get("target_lang")) if kind == "marian" else says.get("langs")
    source, target = own if own and len(own) == 2 else (None, None)
    return Model(
        key,
        folder,
        kind,
        step.source_language or source,
        step.target_language or target,
        _prefix(step, key, folder) if kind == "marian" else "",
        config,
    )


def check_languages(pivot: Sequence[Model], language: str) -> None:
    """Fail unless each model begins where the one before it ends, the first and the last in `language`.

    A model that does not say its languages fits everywhere.

    Raises:
        UserError: naming the two that differ.
    """
    for model in pivot:
        if model.kind == "m2m_100" and not (model.source and model.target):
            raise UserError(
                f"{model.key}: {model.folder.name} translates between many languages; set source_language "
                "and target_language (M2M-100 writes `en`, NLLB `eng_Latn`)"
            )
    before, whose = language, f"{BLOCK}.language is"
    for model in pivot:
        if model.source and before and base(model.source) != base(before):
            raise UserError(
                f"{model.key} begins in {model.source!r}, where {whose} {before!r}; put the models "
                "in order, or set source_language if the model says it wrongly"
            )
        before, whose = model.target or "", "the model before it ends in"
    if before and base(before) != base(language):
        raise UserError(
            f"{pivot[-1].key} ends in {before!r}, the corpus is in {language!r}; the last model of a pivot "
            f"has to lead back (or set target_language if the model says it wrongly, or {BLOCK}.language)"
        )


def base(code: str) -> str:
    """A language without script and region, in two letters where there are such: eng_Latn, en_XX -> en."""
    from nltk.langnames import iso639short

    first = re.split("[_-]", code.lower())[0]
    return str(iso639short.get(first, first))


def _prefix(step: TranslationStep, key: str, folder: Path) -> str:
    """The token of the target language, for a Marian model that has several."""
    targets = [found[1] for token in _read(folder / "vocab.json", key) if (found := _TARGET.fullmatch(token))]
    if not targets:
        return ""
    if step.target_language not in targets:
        shown = ", ".join(sorted(targets)[:20])
        raise UserError(
            f"{key}.target_language is {step.target_language!r}; {step.model} translates into {shown}"
        )
    return f">>{step.target_language}<< "


def _read(path: Path, key: str) -> dict[str, Any]:
    try:
        found = json_text.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{key}.model: {path} is missing or no JSON ({error})") from None
    if not isinstance(found, dict):
        raise UserError(f"{key}.model: {path} holds no mapping")
    return found
