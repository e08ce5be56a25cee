"""A student: a sentence-transformers folder with safetensors weights and a model card."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, get_args

from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError
from pipeline.params.teacher import Similarity

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CARD = "README.md"
SETTINGS = "config_sentence_transformers.json"
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


def write(student: Saveable, card: str, folder: Path, similarity: Similarity = "cosine") -> None:
    """Write a student's folder and its model card, whole or not at all; `similarity` compares its vectors."""
    with atomic_folder(folder) as temporary:
        student.save(temporary)
        if similarity != "cosine":
            settings = temporary / SETTINGS
            stated = json.loads(settings.read_text(encoding="utf-8"))
            content = json.dumps({**stated, "similarity_fn_name": similarity}, indent=2)
            settings.write_text(content + "\n", encoding="utf-8")
        (temporary / CARD).write_text(card + compared_by(similarity), encoding="utf-8")


def similarity(folder: Path) -> Similarity:
    """How the vectors of a sentence-transformers folder, or of an ONNX folder of `export`, are compared.

    Raises:
        UserError: the folder names a function that nobody has.
    """
    for name, key in ((SETTINGS, "similarity_fn_name"), ("config.json", "similarity")):
        if (folder / name).exists():
            found = json.loads((folder / name).read_text(encoding="utf-8")).get(key) or "cosine"
            if found not in get_args(Similarity):
                known = ", ".join(get_args(Similarity))
                raise UserError(f"{folder / name}: {key} is {found!r}; set it to one of {known}")
            return cast("Similarity", found)
    return "cosine"


def compared_by(how: Similarity) -> str:
    """A card's section on how vectors are compared; empty where that is the cosine."""
    return "" if how == "cosine" else f"\n## Similarity\n\nCompare vectors by {WORDS[how]}.\n"


def check(folder: Path, stage: str) -> None:
    """Fail unless there is a student in `folder`, which `stage` writes.

    Raises:
        UserError: there is none.
    """
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
