"""The artifact data/tuned_teacher: the teacher with fine-tuned weights, where teacher.finetune asks for it.

manifest.json is `{}` for a teacher that is not fine-tuned. Else its `model` names the folder beside it that
sentence-transformers loads; null: no dev score rose, and the teacher stays as it was.
"""

from pathlib import Path

from pipeline.core import seal
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError
from pipeline.params.teacher import TransformerTeacher

MANIFEST = "manifest.json"
STAGE = "finetune_teacher"
TUNED = Path("data/tuned_teacher")
"""Where dvc.yaml has it."""


def tuned_name(params: TransformerTeacher) -> str:
    """What the fine-tuned model is called, in its folder's name and in the recipe of its vectors."""
    return f"{Path(params.model).name}-finetuned"


def write_manifest(folder: Path, params: TransformerTeacher | None, *, changed: bool = False) -> None:
    """Write the manifest, which comes last.

    Args:
        folder: data/tuned_teacher.
        params: the block of a teacher that was to be fine-tuned; None: there is nothing to do.
        changed: whether its weights are others than before; they lie in the folder.
    """
    told = {"model": tuned_name(params) if changed else None} if params else {}
    write_text(folder / MANIFEST, seal.to_json(told))


def as_tuned(params: TransformerTeacher, folder: Path) -> TransformerTeacher:
    """The block of the teacher that students learn from: `params`, with the model that fine-tuning gave.

    Args:
        params: its block in params.yaml.
        folder: data/tuned_teacher, read only if the teacher is fine-tuned.

    Raises:
        UserError: it is missing, damaged, or of a teacher that was not fine-tuned.
    """
    if params.finetune is None:
        return params
    told = seal.read_json(folder / MANIFEST, STAGE)
    if "model" not in told:
        raise UserError(
            f"{folder / MANIFEST} is of a teacher without teacher.finetune; run `dvc repro -f {STAGE}`"
        )
    if told["model"] is None:
        return params.model_copy(update={"finetune": None})
    place = folder / told["model"]
    seal.check(place, f"run `dvc repro -f {STAGE}`")
    # The folder has the pooling in its modules.json.
    model = {"model": place.as_posix(), "revision": None, "pooling": None}
    return params.model_copy(update={"finetune": None, **model})
