"""A student: a sentence-transformers folder with safetensors weights and a model card."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

from pipeline.core import json_text, seal
from pipeline.core.atomic import atomic_folder, write_text
from pipeline.core.errors import UserError
from pipeline.data.student import layout
from pipeline.params.teacher import Similarity

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CARD = "README.md"
NO_PROMPTS = {"text": "", "query": "", "document": ""}
SETTINGS = "config_sentence_transformers.json"
REFUSED = "refused.json"
"""Instead of a student: why the teacher cannot give it, and what to do, {"reason", "fix"}."""
WORDS: dict[Similarity, str] = {
    "cosine": "their cosine",
    "dot": "their inner product, lengths included",
    "euclidean": "their Euclidean distance",
    "manhattan": "their Manhattan distance",
}


class Saveable(Protocol):
    """A student that can save itself."""

    def save(self, folder: Path) -> None:
        """Write the folder's files."""
        ...


def write(
    student: Saveable,
    card: str,
    folder: Path,
    prompts: Mapping[str, str] | None = None,
    similarity: Similarity = "cosine",
    *,
    unit: bool = True,
) -> None:
    """Write a student's folder and its model card, whole or not at all.

    Args:
        student: what is saved.
        card: the model card.
        folder: where to.
        prompts: what the student has before the texts of each role; `encode` puts that of `text`.
        similarity: compares its vectors.
        unit: whether its vectors have length 1, so that inner product, cosine and distance agree.
    """
    stated: dict[str, Any] = {}
    if prompts and any(prompts.values()):
        stated["prompts"] = {**NO_PROMPTS, **prompts}
        stated["default_prompt_name"] = "text" if prompts.get("text") else None
    with atomic_folder(folder) as temporary:
        student.save(temporary)
        layout.rewrite(temporary, unit=unit)
        # A student that was loaded says how it was compared before.
        if {similarity, _settings(temporary).get("similarity_fn_name")} - {"cosine", None}:
            stated["similarity_fn_name"] = similarity
        if stated:
            settings = json.dumps(_settings(temporary) | stated, indent=2)
            write_text(temporary / SETTINGS, f"{settings}\n")
        (temporary / CARD).write_text(card + compared_by(similarity), encoding="utf-8")


def similarity(folder: Path) -> Similarity:
    """How the vectors of a sentence-transformers folder, or of an ONNX folder of `export`, are compared.

    Raises:
        UserError: the folder names a function that nobody has.
    """
    for name, key in ((SETTINGS, "similarity_fn_name"), ("config.json", "similarity")):
        if (folder / name).exists():
            found = json_text.parse((folder / name).read_text(encoding="utf-8")).get(key) or "cosine"
            if found not in get_args(Similarity):
                known = ", ".join(get_args(Similarity))
                raise UserError(f"{folder / name}: {key} is {found!r}; set it to one of {known}")
            return cast("Similarity", found)
    return "cosine"


def compared_by(how: Similarity) -> str:
    """A card's section on how vectors are compared; empty where that is the cosine."""
    return "" if how == "cosine" else f"\n## Similarity\n\nCompare vectors by {WORDS[how]}.\n"


def prompts(folder: Path) -> dict[str, str]:
    """What a saved student has before the texts of each role."""
    found = {role: prompt or "" for role, prompt in _settings(folder).get("prompts", {}).items()}
    return found if any(found.values()) else {}


def _settings(folder: Path) -> dict[str, Any]:
    """What sentence-transformers reads of a model as a whole; a table has nothing of the kind."""
    path = folder / SETTINGS
    return json_text.parse(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_refusal(refused: UserError, folder: Path) -> None:
    """Write why there is no student instead of the student."""
    reason, _, fix = str(refused).partition("; ")
    with atomic_folder(folder) as temporary:
        said = json.dumps({"reason": reason, "fix": fix}, indent=1)
        (temporary / REFUSED).write_text(f"{said}\n", encoding="utf-8")


def refusal(folder: Path) -> UserError | None:
    """Why there is no student in `folder`; None where there is nothing of the kind.

    Raises:
        UserError: what says so is damaged.
    """
    if not (folder / REFUSED).exists():
        return None
    seal.check(folder, f"run `dvc repro -f distill@{folder.name}`")
    try:
        said = json_text.parse((folder / REFUSED).read_text(encoding="utf-8"))
        return UserError(f"{said['reason']}; {said['fix']}")
    except (ValueError, KeyError, TypeError) as error:
        return UserError(f"{folder / REFUSED} is damaged ({error}); run `dvc repro -f distill@{folder.name}`")


def check(folder: Path, stage: str) -> None:
    """Fail unless there is a student in `folder`, which `stage` writes.

    Raises:
        UserError: there is none, it is damaged, or the teacher cannot give it.
    """
    if refused := refusal(folder):
        raise refused
    if not (folder / "modules.json").exists():
        raise UserError(f"{folder} is no student (it has no modules.json); run `dvc repro {stage}`")
    seal.check(folder, f"run `dvc repro -f {stage}`")


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


def read_to_train(folder: Path, stage: str) -> "SentenceTransformer":
    """Load a student to go on training: without `Normalize`, which losses do not see.

    Raises:
        UserError: as `read`.
    """
    model = read(folder, stage)
    if layout.is_unit(folder):
        del model[-1]
    return model
