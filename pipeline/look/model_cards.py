"""What the cards of the models that students are made from say: licences and languages."""

import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from pipeline.core import hub, seal
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.models.locate import PACKAGE, find_model
from pipeline.params.load import Params
from pipeline.params.teacher import (
    BorrowingTeacher,
    ElmoTeacher,
    HashingTeacher,
    OpenAiApiTeacher,
    SingleTeacher,
    single_teachers,
)
from pipeline.params.yaml_file import NO_VALUE

CARD = "README.md"
SHARED = "shared.json"
"""The teacher and the models that translate. students/NAME.json has the models of one student alone."""
METADATA = re.compile(r"\s*---\n(.*?)\n---", re.DOTALL)
"""The head of a model card."""
OTHER = "other"
"""What the hub calls a licence that it has no identifier for; `license_name` names it."""
NAMELESS = {OTHER, "unknown"}
NO_WEIGHTS = "none: a hash function of the pipeline, without weights"
API = "unknown; check it (its vectors came through an API, whose terms apply)"
SILENT = "unknown; check it"


class Facts(TypedDict):
    """Of one model. `pipeline/export/shared/ledger` reads it."""

    licences: list[str]
    """Names: apache-2.0, mit, ...; []: unknown, or there is nothing to license."""
    said: str
    """What is known, in words."""
    languages: list[str]
    """ISO 639 codes; []: its card names none."""
    hub_id: str | None
    """OWNER/NAME; None: it is not of the hub, and its card names no such id for it."""


def write(params: Params, folder: Path) -> None:
    """Write the facts of all models that params name, by the key of params.yaml that holds each.

    A student's own models have a file of their own, so that another student's do not change it.
    """
    shared = {key: _of_teacher(teacher) for key, teacher in single_teachers(params.teacher).items()}
    shared |= {
        f"{key}.parts": of_model(one.parts, None)
        for key, one in single_teachers(params.teacher).items()
        if isinstance(one, BorrowingTeacher)
    }
    shared |= {key: of_model(model, revision) for key, model, revision in _translators(params)}
    with atomic_folder(folder, sealed=False) as made:
        (made / "students").mkdir()
        _write(shared, made / SHARED)
        for name, block in params.students.items():
            model, revision = (getattr(block.init, key, None) for key in ("model", "revision"))
            own = {f"students.{name}.init.model": of_model(model, revision)} if model else {}
            _write(own, made / "students" / f"{name}.json")


def _write(facts: dict[str, Facts], path: Path) -> None:
    path.write_text(seal.to_json(facts), encoding="utf-8")


def _translators(params: Params) -> Iterator[tuple[str, str, str | None]]:
    translation = params.augment.back_translation
    for number, pivot in enumerate(translation.pivots if translation.enabled else ()):
        for place, step in enumerate(pivot):
            yield f"augment.back_translation.pivots.{number}.{place}", step.model, step.revision


def _of_teacher(teacher: SingleTeacher) -> Facts:
    if isinstance(teacher, HashingTeacher):
        return {"licences": [], "said": NO_WEIGHTS, "languages": [], "hub_id": None}
    if isinstance(teacher, OpenAiApiTeacher):
        return {"licences": [], "said": API, "languages": [], "hub_id": None}
    if isinstance(teacher, ElmoTeacher):
        return _of_card(_text(Path(teacher.model) / CARD), teacher.model)
    return of_model(teacher.model, teacher.revision)


def of_model(model: str, revision: str | None) -> Facts:
    """What a model's card says, or else the package that holds it."""
    return _of_card(_card(model, revision), model)


def _of_card(card: str, model: str) -> Facts:
    metadata = _metadata(card)
    languages = sorted(filter(_is_language, _texts(metadata.get("language"))))
    named = [name for name in _texts(metadata.get("license")) if name not in NAMELESS]
    if not named and metadata.get("license") == OTHER:
        named = _texts(metadata.get("license_name"))
    said = SILENT
    if named:
        said = f"{' and '.join(named)}, by its model card"
    elif stated := _of_package(model):
        said = f"{stated}, by the Python package that holds it; check it"
    hub_id = _own_id(card) if _is_local(model) else model
    return {"licences": named, "said": said, "languages": languages, "hub_id": hub_id}


def _texts(value: object) -> list[str]:
    """A text or a list of texts of a card's head, each on one line."""
    found = value if isinstance(value, list) else [value]
    return [" ".join(one.split()) for one in found if isinstance(one, str) and one.strip()]


def _is_language(code: str) -> bool:
    return re.fullmatch(r"[a-z]{2,3}", code) is not None


def _own_id(card: str) -> str | None:
    """The hub id of a copy in a folder or a package: by which its card loads the model of its title."""
    titles = re.findall(r"^# +(?:[\w.-]+/)?([\w.-]+) *$", card, flags=re.MULTILINE)
    loaded = re.findall(r"""(?:SentenceTransformer|from_pretrained)\(["']([\w.-]+/[\w.-]+)["']""", card)
    return next((one for one in loaded if one.partition("/")[2] in titles[:1]), None)


def _metadata(card: str) -> dict[str, Any]:
    """The head of a model's card; empty where there is none."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    head = METADATA.match(card)
    try:
        found = YAML(typ="safe").load(head[1]) if head else None
    except (YAMLError, *NO_VALUE):
        return {}
    return found if isinstance(found, dict) else {}


def _card(model: str, revision: str | None) -> str:
    """A model's README.md, from the hub where it is from there; empty where there is none."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    try:
        if _is_local(model):
            path = find_model(model, "model") / CARD
        elif isinstance(known := try_to_load_from_cache(model, CARD, revision=revision), str):
            path = Path(known)
        else:
            path = Path(hub.ask(lambda: hf_hub_download(model, CARD, revision=revision)))
    except (hub.OutOfReach, HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError, UserError) as error:
        # Its student is made all the same. A model without a card is no fault.
        if not isinstance(error, EntryNotFoundError) or isinstance(error, LocalEntryNotFoundError):
            reason = " ".join(str(error).strip().splitlines()[:1]) or type(error).__name__
            say(f"the licence of {model} could not be looked up ({reason}): the model card calls it unknown")
        return ""
    return _text(path)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _is_local(model: str) -> bool:
    return model.startswith(PACKAGE) or Path(model).is_dir()


def _of_package(model: str) -> str | None:
    """The licence that an installed package states for itself."""
    if not model.startswith(PACKAGE):
        return None
    module = model.removeprefix(PACKAGE).partition("/")[0]
    for name in importlib.metadata.packages_distributions().get(module, []):
        stated = importlib.metadata.metadata(name).json
        if found := stated.get("license_expression") or stated.get("license"):
            return next(iter(str(found).strip().splitlines()), None)  # some state the whole text
    return None
