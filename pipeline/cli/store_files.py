"""The files of the cache, for the commands that list and remove them.

What has no name that the pipeline gives is another's: it is neither listed nor removed.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.augment.back_translation import translations
from pipeline.augment.back_translation.ctranslate2 import CONVERTED
from pipeline.core import fingerprint, json_text
from pipeline.core.atomic import PARTIAL, WRITER, is_abandoned, remove_folder
from pipeline.core.resumable import BEFORE, LOCK, OVER, STATE, committed
from pipeline.params.load import Params
from pipeline.teacher.encoding.store.store import FINGERPRINT_LETTERS, HASH_LETTERS, NAME, shared_letters
from pipeline.vectors.sets import published

RECIPE = "recipe.json"
INDEXES = "indexes"
HIDDEN = "hidden"
INPUTS = "inputs"
TASK_TEACHERS = "task_teachers"
MTEB = "mteb"
UNFINISHED, FINISHED = "unfinished run", "finished run"
MTEB_OWNER = "distillation"
"""The owner that we give to our models: mteb keeps results in a folder OWNER__MODEL."""
MTEB_LETTERS = 16
"""How many letters of the model's fingerprint that name holds."""
OWN = re.compile("[0-9a-f]{16}")
"""The name of a folder: the first letters of what decides its content."""
RUN = re.compile(f".+-{OWN.pattern}")
"""The name of what a run keeps, without its suffix."""
ASKING = "task-teacher-"
"""With what the names of a task teacher's trainings and locks begin."""
OF_NO_STUDENT = (ASKING, "finetune-teacher-", "search_speed-")
"""As `ASKING`, of all runs that are of no student."""


@dataclass(frozen=True)
class StoredRecipe:
    """The vectors of one recipe: CACHE/vectors/FINGERPRINT."""

    folder: Path

    @property
    def fingerprint(self) -> str:
        """The first letters of the recipe's fingerprint."""
        return self.folder.name

    @property
    def recipe(self) -> dict[str, Any]:
        """What decides the vectors; empty where recipe.json is missing or damaged."""
        try:
            content = json_text.parse((self.folder / RECIPE).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def bytes(self) -> int:
        """Size of its files, without those that are still being written."""
        return sum(size(file) for file in self.files)

    @property
    def shared(self) -> int:
        """Size of those of its files that have other names beside the store's: hard links."""
        return sum(size(file) for file in self.files if _names(file) > 1)

    def texts(self) -> dict[str, int]:
        """Vectors of each view, without those in files that cannot be opened."""
        found: dict[str, int] = {}
        for file in self.files:
            if file.name != RECIPE:
                view = file.relative_to(self.folder).parts[0]
                found[view] = found.get(view, 0) + _rows(file)
        return found

    @property
    def files(self) -> list[Path]:
        """recipe.json and the files of vectors, without those that are still being written."""
        recipe = self.folder / RECIPE
        return [*([recipe] if recipe.exists() else []), *sorted(self.folder.glob("*/**/[!.]*.parquet"))]

    def is_intact(self, file: Path) -> bool:
        """Whether a file lies where its name says, and has the hash in it (recipe.json: in its folder's)."""
        if file.name == RECIPE:
            return fingerprint.of_json(self.recipe)[:FINGERPRINT_LETTERS] == self.fingerprint
        named = NAME.fullmatch(file.name)
        _, *folders, _ = file.relative_to(self.folder).parts
        if named is None or "".join(folders) not in ("", shared_letters(named[1], named[2])):
            return False
        return fingerprint.of_file(file)[:HASH_LETTERS] == named[3]

    def remove(self) -> None:
        """Remove all of it."""
        remove_folder(self.folder)


class StoredTranslations(StoredRecipe):
    """The translations of one chain of models: CACHE/back_translation/FINGERPRINT."""

    def texts(self) -> dict[str, int]:
        """The texts, without those in files that cannot be opened, by how many chunks they are in."""
        chunks = [file for file in self.files if file.name != RECIPE]
        return {f"{len(chunks)} chunks": sum(map(_rows, chunks))}

    @property
    def files(self) -> list[Path]:
        """recipe.json and the chunks, without those that are still being written."""
        recipe = self.folder / RECIPE
        return [*([recipe] if recipe.exists() else []), *sorted(self.folder.glob("[!.]*.parquet"))]

    def is_intact(self, file: Path) -> bool:
        """Whether a chunk has the hash in its name (recipe.json: in its folder's)."""
        if file.name == RECIPE:
            return fingerprint.of_json(self.recipe)[: translations.FINGERPRINT_LETTERS] == self.fingerprint
        return file.stem.endswith(fingerprint.of_file(file)[: translations.HASH_LETTERS])


def translated(cache: Path) -> list[StoredTranslations]:
    """The recipes of back-translation; converted models lie beside them."""
    folders = _own(cache / translations.FOLDER)
    return [StoredTranslations(folder) for folder in folders if (folder / RECIPE).exists()]


def recipes(cache: Path) -> list[StoredRecipe]:
    """The recipes in the store."""
    return [StoredRecipe(folder) for folder in _own(cache / "vectors")]


def _own(folder: Path) -> list[Path]:
    """The folders of a folder of the cache whose names the pipeline gives."""
    return sorted(path for path in folder.glob("*") if OWN.fullmatch(path.name) and path.is_dir())


def runs(cache: Path) -> dict[str, dict[str, list[Path]]]:
    """What runs keep, by what they are: STAGE-STUDENT-HASH with its states, folder, lock and mark, or some.

    A killed run goes on from that. Of a finished one, which DVC has committed, a next stage removes it.
    """
    found: dict[str, dict[str, list[Path]]] = {UNFINISHED: {}, FINISHED: {}}
    over = {state.stem for state in committed(cache)}
    for path in sorted((cache / "training").glob("[!.]*")):
        name = state_of(path).stem
        if not RUN.fullmatch(name):
            continue
        found[FINISHED if name in over else UNFINISHED].setdefault(name, []).append(path)
    return found


def state_of(path: Path) -> Path:
    """Where the state of an unfinished run lies, or would, of which this is a part."""
    name = path.name
    for suffix in (BEFORE, STATE, LOCK, OVER):
        name = name.removesuffix(suffix)
    return path.with_name(name + STATE)


def indexes(cache: Path) -> list[Path]:
    """The indexes of `pipeline search`: folders."""
    return _own(cache / INDEXES)


def hidden_states(cache: Path) -> list[Path]:
    """The hidden states of teachers: a folder for each, which holds a folder for each shard."""
    return _own(cache / HIDDEN)


def fetched(cache: Path) -> list[Path]:
    """The files of the corpus that were fetched from an address: a folder for each version of one."""
    return _own(cache / INPUTS)


def task_teachers(cache: Path) -> list[Path]:
    """The models that were fine-tuned on classifiers' tasks, each with what it says: a folder of folders."""
    return _own(cache / TASK_TEACHERS)


def asking(teacher: Path) -> list[Path]:
    """The states by whose locks a task teacher is held while it is trained or asked."""
    locks = (teacher.parent.parent / "training").glob(f"{ASKING}*-{teacher.name}{LOCK}")
    return [state_of(lock) for lock in locks]


def is_named(unfinished: str, params: Params) -> bool:
    """Whether params name what the run is of; a task teacher, which classifiers share, goes by name alone."""
    if unfinished.startswith(OF_NO_STUDENT):
        return True
    stage, _, rest = unfinished.partition("-")
    if stage == "classify":
        return rest.rpartition("@")[0] in params.classifiers
    return rest.rpartition("-")[0] in params.students


def sealed(cache: Path) -> list[Path]:
    """What has a seal: of unfinished trainings, indexes, hidden states, task teachers, converted models."""
    kept = [path for of in runs(cache).values() for paths in of.values() for path in paths]
    states = [path for path in kept if path.name.endswith(STATE)]
    inputs = sorted(path for one in kept for path in one.glob("[!.]*") if path.is_dir())
    converted = _own(cache / CONVERTED)
    shards = sorted(path for one in hidden_states(cache) for path in one.glob("[!.]*") if path.is_dir())
    taught = sorted(path for one in task_teachers(cache) for path in one.glob("[!.]*"))
    return [*states, *inputs, *indexes(cache), *shards, *taught, *converted]


def mteb_results(cache: Path) -> list[Path]:
    """The results of `pipeline mteb`: a folder a model and file of tasks, MTEB's own being one."""
    return sorted((cache / MTEB).rglob(f"results/{MTEB_OWNER}__*"))


def mteb_model(results: Path) -> str:
    """The first letters of the fingerprint of the model that such results are of."""
    return results.name.removeprefix(f"{MTEB_OWNER}__")


def abandoned(cache: Path) -> list[Path]:
    """What killed processes left half-written."""
    partial = (
        path
        for kind in (
            "vectors",
            "training",
            "gate",
            INDEXES,
            HIDDEN,
            TASK_TEACHERS,
            CONVERTED,
            translations.FOLDER,
        )
        for path in (cache / kind).rglob(f"{PARTIAL}*")
        if WRITER.fullmatch(path.name)
    )
    return sorted(path for path in partial if is_abandoned(path))


def size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; 0 where it is gone."""
    try:
        return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
    except FileNotFoundError:
        return 0


def _names(path: Path) -> int:
    """How many a file has; 0 where it is gone."""
    try:
        return path.stat().st_nlink
    except FileNotFoundError:
        return 0


def used_by(vectors_folder: Path) -> dict[str, list[str]]:
    """The published sets of each recipe, by the first letters of its fingerprint.

    The sets of an ensemble are its members' too.

    Raises:
        UserError: a manifest is damaged: what it uses is not known.
    """
    users: dict[str, list[str]] = {}
    found = vectors_folder.glob(f"[!.]*/[!.]*/{published.MANIFEST}")
    for path in sorted({manifest.parent.parent for manifest in found}):
        manifests = published.open_set(path).manifests.values()
        recipes = [recipe for manifest in manifests for recipe in published.by_role(manifest).values()]
        recipes += [member["recipe"] for recipe in recipes for member in recipe.get("members", ())]
        for letters in {fingerprint.of_json(recipe)[:FINGERPRINT_LETTERS] for recipe in recipes}:
            users.setdefault(letters, []).append(path.name)
    return users


def _rows(path: Path) -> int:
    try:
        return pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError):
        return 0
