"""The licences of what a student is made from, as far as files tell."""

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.core import hub
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.models.locate import PACKAGE, find_model
from pipeline.params.base import without_folders
from pipeline.params.students import StudentBlock
from pipeline.params.teacher import (
    HashingTeacher,
    OpenAiApiTeacher,
    SingleTeacher,
    Teacher,
    single_teachers,
)

CARD = "README.md"
UNKNOWN = "unknown; check it"
METADATA = re.compile(r"\s*---\n(.*?)\n---", re.DOTALL)
"""The head of a model card."""


@dataclass(frozen=True)
class Licence:
    """Of one thing that a student is made from."""

    of: str
    """The teacher, the word vectors, ..."""
    identifier: str | None
    """apache-2.0, mit, ...; None: its card says nothing."""
    said: str
    """What is known, in words."""


def licences(teacher: Teacher, student: StudentBlock) -> list[Licence]:
    """Of the teacher or its members, and of the models and word vectors that the student starts from."""
    found = [licence for one in single_teachers(teacher).values() for licence in _of_teacher(one)]
    init = getattr(student, "init", None)
    if model := getattr(init, "model", None):
        found.append(_of_model(model, getattr(init, "revision", None)))
    if path := getattr(init, "path", None):
        found.append(Licence(f"the word vectors {Path(path).name}", None, UNKNOWN))
    return found


def _of_teacher(teacher: SingleTeacher) -> list[Licence]:
    if isinstance(teacher, HashingTeacher):
        return [Licence("the teacher", None, "none: a hash function of the pipeline, without weights")]
    if isinstance(teacher, OpenAiApiTeacher):
        terms = f"{UNKNOWN} (its vectors came through an API, whose terms apply)"
        return [Licence(f"the teacher {teacher.model}", None, terms), _of_model(teacher.parts, None)]
    return [_of_model(teacher.model, teacher.revision, "the teacher ")]


def _of_model(model: str, revision: str | None, role: str = "") -> Licence:
    name = f"{role}{without_folders(model)}"
    if identifier := _of_card(model, revision):
        return Licence(name, identifier, f"{identifier}, by its model card")
    if stated := _of_package(model):
        return Licence(name, None, f"{stated}, by the Python package that holds it; check it")
    return Licence(name, None, UNKNOWN)


def _of_card(model: str, revision: str | None) -> str | None:
    """`license` in the metadata of a model's README.md."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = _card(model, revision)
    try:
        metadata = METADATA.match(path.read_text(encoding="utf-8")) if path else None
        found = YAML(typ="safe").load(metadata[1]) if metadata else None
    except (UnicodeDecodeError, YAMLError):
        return None
    identifier = found.get("license") if isinstance(found, dict) else None
    return identifier if isinstance(identifier, str) and identifier else None


def _card(model: str, revision: str | None) -> Path | None:
    """A model's README.md, from the hub where it is from there."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    try:
        if model.startswith(PACKAGE) or Path(model).is_dir():
            path = find_model(model, "model") / CARD
        elif isinstance(known := try_to_load_from_cache(model, CARD, revision=revision), str):
            path = Path(known)
        else:
            path = Path(hub.ask(lambda: hf_hub_download(model, CARD, revision=revision)))
    except (hub.OutOfReach, HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError, UserError) as error:
        # Its student is here all the same. A model without a card is no fault.
        if not isinstance(error, EntryNotFoundError) or isinstance(error, LocalEntryNotFoundError):
            reason = " ".join(str(error).strip().splitlines()[:1]) or type(error).__name__
            say(f"the licence of {model} could not be looked up ({reason}): the model card calls it unknown")
        return None
    return path if path.is_file() else None


def _of_package(model: str) -> str | None:
    """The licence that an installed package states for itself."""
    if not model.startswith(PACKAGE):
        return None
    module = model.removeprefix(PACKAGE).partition("/")[0]
    for name in importlib.metadata.packages_distributions().get(module, []):
        stated = importlib.metadata.metadata(name).json
        if found := stated.get("license_expression") or stated.get("license"):
            return str(found)
    return None
