"""What a classifier says, beside its weights: classifier.json in its folder."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.core import json_text
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError

SETTINGS = "classifier.json"


@dataclass(frozen=True)
class Said:
    """What a classifier says, beside its weights."""

    task: str
    """Whose labels it was trained on."""
    labels: tuple[str, ...]
    """In the order of the logits."""
    pairs: bool
    """Whether it reads pairs of texts."""


def write(said: Said, folder: Path) -> None:
    """Write it."""
    write_text(folder / SETTINGS, json.dumps(asdict(said), indent=2, ensure_ascii=False) + "\n")


def read(folder: Path) -> Said:
    """What the classifier in a folder says.

    Raises:
        UserError: there is none, or its settings are damaged.
    """
    path = folder / SETTINGS
    try:
        found = json_text.parse(path.read_text(encoding="utf-8"))
        labels: Sequence[str] = found["labels"]
        return Said(str(found["task"]), tuple(map(str, labels)), bool(found["pairs"]))
    except FileNotFoundError:
        raise UserError(
            f"{folder} holds no classifier (no {SETTINGS}); run `dvc repro classify@{folder.name}`"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); run `dvc repro -f classify@{folder.name}`") from None
