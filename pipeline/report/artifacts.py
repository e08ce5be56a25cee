"""Rows and digests of the artifacts that the ledger names."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.core import fingerprint
from pipeline.core.errors import UserError
from pipeline.data.common.files import metrics


@dataclass(frozen=True)
class Places:
    """Where the artifacts are."""

    gated: Path
    vectors: Path
    finetuned: Path


def measured(
    places: Places,
    prepared: Mapping[str, Any],
    gated: Mapping[str, int],
    sets: Iterable[str],
    names: Iterable[str],
) -> dict[str, dict[str, Any]]:
    """By artifact: `rows` and `sha256`, or the digests of a set's manifests, which hold those of its shards.

    Args:
        places: of the artifacts.
        prepared: rows and digests of the tables of `prepare`.
        gated: rows that are left of each method of augmentation that is enabled.
        sets: of texts that were encoded.
        names: of the students that were made.

    Raises:
        UserError: one is missing.
    """
    found = {f"data/corpus/{name}": dict(table) for name, table in prepared["tables"].items()}
    for method, rows in gated.items():
        path = places.gated / f"{method}.parquet"
        if not path.exists():
            raise UserError(f"{path} does not exist; run `dvc repro gate@{method}`")
        found[f"data/gated/{method}.parquet"] = {"rows": rows, "sha256": fingerprint.of_file(path)}
    for name in sets:
        manifests = sorted((places.vectors / name).glob("*/manifest.json"))
        if not manifests:
            raise UserError(f"{places.vectors / name} has no manifest.json; run `dvc repro encode@{name}`")
        read = [metrics.read(path, f"encode@{name}") for path in manifests]
        found[f"data/vectors/{name}"] = {
            "rows": max(one["rows"] for one in read),
            "manifest_sha256": {path.parent.name: fingerprint.of_file(path) for path in manifests},
        }
    for name in names:
        if not (folder := places.finetuned / name).is_dir():
            raise UserError(f"{folder} does not exist; run `dvc repro finetune@{name}`")
        found[f"data/finetuned/{name}"] = {"sha256": fingerprint.of_folder(folder)}
    return found


class Weights(NamedTuple):
    """What vectors were made with."""

    model: str | None
    """Its name, which tells a fine-tuned teacher from the one that it was made of."""
    sha256: str | None
    """None: it has no weights here, as one behind an API."""


def teachers_weights(vectors: Path, view: str) -> list[Weights]:
    """The weights of the teacher, or of each member of an ensemble, by the corpus' vectors.

    Raises:
        UserError: there are no such vectors.
    """
    recipe = metrics.read(vectors / "corpus" / view / "manifest.json", "encode@corpus")["recipe"]
    recipe = next(iter(recipe["roles"].values())) if "roles" in recipe else recipe
    recipes = [member["recipe"] for member in recipe["members"]] if "members" in recipe else [recipe]
    return [Weights(one.get("model"), one.get("weights")) for one in recipes]


def as_json(ledger: Mapping[str, Any]) -> str:
    """The ledger's file: equal ledgers give equal bytes."""
    return json.dumps(ledger, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
