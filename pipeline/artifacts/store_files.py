"""The files of the cache as a person looks after them: recipes of vectors, and interrupted trainings."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.artifacts import vectors
from pipeline.artifacts.store import FINGERPRINT_LETTERS, HASH_LETTERS
from pipeline.core import fingerprint

RECIPE = "recipe.json"
NAME = re.compile(rf"[0-9a-f]{{16}}-[0-9a-f]{{16}}-([0-9a-f]{{{HASH_LETTERS}}})")


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
            content = json.loads((self.folder / RECIPE).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def bytes(self) -> int:
        """Size of all its files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def texts(self) -> dict[str, int]:
        """Vectors of each view, without those in files that cannot be opened."""
        found: dict[str, int] = {}
        for file in self.files:
            if file.name != RECIPE:
                found[file.parent.name] = found.get(file.parent.name, 0) + _rows(file)
        return found

    @property
    def files(self) -> list[Path]:
        """recipe.json and the files of vectors, without those that are still being written."""
        recipe = self.folder / RECIPE
        return [*([recipe] if recipe.exists() else []), *sorted(self.folder.glob("*/[!.]*.parquet"))]

    def is_intact(self, file: Path) -> bool:
        """Whether the hash of a file's content is the one in its name (recipe.json: in its folder's)."""
        if file.name == RECIPE:
            return fingerprint.of_json(self.recipe)[:FINGERPRINT_LETTERS] == self.fingerprint
        named = NAME.fullmatch(file.stem)
        return named is not None and fingerprint.of_file(file)[:HASH_LETTERS] == named[1]

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.folder)


def recipes(cache: Path) -> list[StoredRecipe]:
    """The recipes in the store."""
    folders = sorted(path for path in (cache / "vectors").glob("*") if path.is_dir())
    return [StoredRecipe(folder) for folder in folders]


def trainings(cache: Path) -> list[Path]:
    """The checkpoints of interrupted trainings."""
    return sorted((cache / "training").glob("[!.]*.safetensors"))


def used_by(vectors_folder: Path) -> dict[str, list[str]]:
    """The published sets of each recipe, by the first letters of its fingerprint.

    Raises:
        UserError: a manifest is damaged: what it uses is not known.
    """
    users: dict[str, list[str]] = {}
    for manifest in sorted(vectors_folder.glob(f"[!.]*/{vectors.MANIFEST}")):
        opened = vectors.open_set(manifest.parent)
        letters = str(opened.manifest["fingerprint"])[:FINGERPRINT_LETTERS]
        users.setdefault(letters, []).append(opened.path.name)
    return users


def _rows(path: Path) -> int:
    try:
        return pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError):
        return 0
