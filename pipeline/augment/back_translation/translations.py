"""Translations so far, by (recipe fingerprint, text_id), outside DVC.

    CACHE/back_translation/FINGERPRINT/recipe.json
    CACHE/back_translation/FINGERPRINT/LOW-HIGH-SHA256.parquet      text_id, text

A file is a chunk that was translated together: there whole or not at all. Its name holds the range of its ids
and the hash of its content, so a damaged file is noticed and two processes that translate the same chunk
write the same file.
"""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.core import fingerprint
from pipeline.core.atomic import PARTIAL, atomic_file, remove_abandoned, write_text
from pipeline.core.progress import say
from pipeline.data.common.files.tables import readable

FOLDER = "back_translation"
SCHEMA = {"text_id": pl.UInt64, "text": pl.String}
HASH_LETTERS = 32
FINGERPRINT_LETTERS = 16


class Translations:
    """What one chain of models has made of texts."""

    def __init__(self, cache: Path, recipe: Mapping[str, Any]) -> None:
        self.folder = cache / FOLDER / fingerprint.of_json(recipe)[:FINGERPRINT_LETTERS]
        self._recipe = recipe

    def load(self) -> pl.DataFrame:
        """All translations, columns `text_id` of the original, ascending, and `text`.

        Damaged files are dropped, and said; what killed processes left half-written is removed.

        Raises:
            UserError: a file cannot be read.
        """
        remove_abandoned(self.folder.glob(f"{PARTIAL}*"))
        parts = [pl.DataFrame(schema=SCHEMA)]
        for path in sorted(self.folder.glob("[!.]*.parquet")):
            with readable(path, "augment@back_translation"):
                content = path.read_bytes()
                if not path.stem.endswith(fingerprint.of_bytes(content)[:HASH_LETTERS]):
                    say(f"{path} is damaged: dropped, its texts are translated again")
                    path.unlink(missing_ok=True)
                    continue
                parts.append(pl.read_parquet(content))
        return pl.concat(parts).unique("text_id", keep="first", maintain_order=True).sort("text_id")

    def add(self, ids: pl.Series, translations: Sequence[str]) -> None:
        """Keep the translations of the texts with these ascending ids (n,), atomically."""
        recipe = self.folder / "recipe.json"
        if not recipe.exists():
            write_text(recipe, json.dumps(self._recipe, indent=2, sort_keys=True) + "\n")
        content = io.BytesIO()
        pl.DataFrame([ids.alias("text_id"), pl.Series("text", translations, pl.String)]).write_parquet(
            content
        )
        digest = fingerprint.of_bytes(content.getbuffer())[:HASH_LETTERS]
        with atomic_file(self.folder / f"{ids[0]:016x}-{ids[-1]:016x}-{digest}.parquet") as temporary:
            temporary.write_bytes(content.getbuffer())
