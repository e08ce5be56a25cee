"""A student: a sentence-transformers folder with safetensors weights and a model card."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.core.atomic import atomic_folder, write_text
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CARD = "README.md"
NO_PROMPTS = {"text": "", "query": "", "document": ""}
SETTINGS = "config_sentence_transformers.json"
REFUSED = "refused.json"
"""Instead of a student: why the teacher cannot give it, and what to do, {"reason", "fix"}."""


class Saveable(Protocol):
    """A student that can save itself."""

    def save(self, folder: Path) -> None:
        """Write the folder's files."""
        ...


def write(student: Saveable, card: str, folder: Path, prompts: Mapping[str, str] | None = None) -> None:
    """Write a student's folder and its model card, whole or not at all.

    Args:
        student: what is saved.
        card: the model card.
        folder: where to.
        prompts: what the student has before the texts of each role; `encode` puts that of `text`.
    """
    with atomic_folder(folder) as temporary:
        student.save(temporary)
        if prompts and any(prompts.values()):
            default = "text" if prompts.get("text") else None
            settings = _settings(temporary) | {
                "prompts": {**NO_PROMPTS, **prompts},
                "default_prompt_name": default,
            }
            write_text(temporary / SETTINGS, f"{json.dumps(settings, indent=2)}\n")
        (temporary / CARD).write_text(card, encoding="utf-8")


def prompts(folder: Path) -> dict[str, str]:
    """What a saved student has before the texts of each role."""
    found = {role: prompt or "" for role, prompt in _settings(folder).get("prompts", {}).items()}
    return found if any(found.values()) else {}


def _settings(folder: Path) -> dict[str, Any]:
    """What sentence-transformers reads of a model as a whole; a table has nothing of the kind."""
    path = folder / SETTINGS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_refusal(refused: UserError, folder: Path) -> None:
    """Write why there is no student instead of the student."""
    reason, _, fix = str(refused).partition("; ")
    with atomic_folder(folder) as temporary:
        said = json.dumps({"reason": reason, "fix": fix}, indent=1)
        (temporary / REFUSED).write_text(f"{said}\n", encoding="utf-8")


def refusal(folder: Path) -> UserError | None:
    """Why there is no student in `folder`; None where there is nothing of the kind."""
    if not (folder / REFUSED).exists():
        return None
    try:
        said = json.loads((folder / REFUSED).read_text(encoding="utf-8"))
        return UserError(f"{said['reason']}; {said['fix']}")
    except (ValueError, KeyError, TypeError) as error:
        return UserError(f"{folder / REFUSED} is damaged ({error}); run `dvc repro -f distill@{folder.name}`")


def check(folder: Path, stage: str) -> None:
    """Fail unless there is a student in `folder`, which `stage` writes.

    Raises:
        UserError: there is none, or the teacher cannot give it.
    """
    if refused := refusal(folder):
        raise refused
    if not (folder / "modules.json").exists():
        raise UserError(f"{folder} is no student (it has no modules.json); run `dvc repro {stage}`")


def read(folder: Path, stage: str) -> "SentenceTransformer":
    """Load a student as any user would, on the CPU.

    Raises:
        UserError: there is none, or it is damaged.
    """
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer

    check(folder, stage)
    try:
        return SentenceTransformer(str(folder), device="cpu", model_kwargs={"use_safetensors": True})
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{folder} cannot be loaded ({error}); run `dvc repro -f {stage}`") from None
