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
    together: bool = False
    """Whether it reads both texts of a pair as one; else each is encoded alone."""

    @property
    def group(self) -> int:
        """Texts that its encoder reads one after the other for a row of logits."""
        return 2 if self.pairs and not self.together else 1


def write(said: Said, folder: Path) -> None:
    """Write it."""
    told = asdict(said)
    if not said.together:
        del told["together"]
    write_text(folder / SETTINGS, json.dumps(told, indent=2, ensure_ascii=False) + "\n")


def read(folder: Path) -> Said:
    """What the classifier in a folder says.

    Raises:
        UserError: there is none, or its settings are damaged.
    """
    path = folder / SETTINGS
    try:
        found = json_text.parse(path.read_text(encoding="utf-8"))
        labels: Sequence[str] = found["labels"]
        pairs, together = bool(found["pairs"]), bool(found.get("together", False))
        return Said(str(found["task"]), tuple(map(str, labels)), pairs, together)
    except FileNotFoundError:
        raise UserError(
            f"{folder} holds no classifier (no {SETTINGS}); run `dvc repro classify@{folder.name}`"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); run `dvc repro -f classify@{folder.name}`") from None
