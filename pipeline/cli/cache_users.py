"""Who uses what the cache holds: published sets, the params' teacher, students."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.cli import cache_options as options
from pipeline.cli import store_files
from pipeline.core import fingerprint
from pipeline.params.load import load
from pipeline.params.teacher import SingleTeacher, TransformerTeacher, single_teachers
from pipeline.teacher.shared.local.described.tuned import tuned_name


def of_recipes(folder: Path, params_file: Path, vectors: Path) -> dict[str, list[str]]:
    """What uses each recipe: published sets, and the params file, whose encoding may not be published yet."""
    options.check_vectors(vectors)
    sets = store_files.used_by(vectors)
    teachers = [
        one for block in single_teachers(load(params_file).teacher).values() for one in _made_of(block)
    ]
    return sets | {
        stored.fingerprint: sets.get(stored.fingerprint, [])
        + ([params_file.name] if any(_may_be_of(one, stored.recipe) for one in teachers) else [])
        for stored in store_files.recipes(folder)
    }


def of_mteb(folder: Path, used: Mapping[str, Sequence[str]], students: Path) -> dict[Path, str]:
    """Each model's results of `pipeline mteb`: of which student, of a teacher whose recipe is used, or ''."""
    found = {path: store_files.mteb_model(path) for path in store_files.mteb_results(folder)}
    folders = sorted(path for path in students.glob("[!.]*") if path.is_dir()) if found else []
    known = {fingerprint.of_folder(path)[: store_files.MTEB_LETTERS]: path.name for path in folders}
    known |= {recipe: "teacher" for recipe, users in used.items() if users}
    return {path: known.get(model, "") for path, model in found.items()}


def _made_of(teacher: SingleTeacher) -> list[SingleTeacher]:
    """The teachers whose vectors a block may stand for: itself, and what fine-tuning makes of it."""
    if not isinstance(teacher, TransformerTeacher) or not teacher.finetune:
        return [teacher]
    changed = {"model": tuned_name(teacher), "revision": None, "pooling": None}
    return [teacher, teacher.model_copy(update=changed)]


def _may_be_of(teacher: SingleTeacher, recipe: dict[str, Any]) -> bool:
    """Whether all that params and recipe both say agrees: the weights are not loaded to find out."""
    # A recipe has the digest of the weights, and no revision.
    wanted = teacher.model_dump(mode="json", exclude_none=True, exclude={"revision"})
    if recipe.get("kind") != teacher.kind:
        return False
    # A recipe has a model's name, not this machine's path to it.
    last = {key: str(value).rstrip("/").rpartition("/")[2] for key, value in wanted.items()}
    return all(key not in recipe or last[key] == str(recipe[key]).rpartition("/")[2] for key in wanted)
