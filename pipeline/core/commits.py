"""Whether DVC has committed what a stage has made: dvc.lock has its MD5 then."""

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.core import json_text
from pipeline.core.atomic import write_text

LOCK = Path("dvc.lock")


@dataclass(frozen=True)
class Mark:
    """What a run that is over leaves beside its state until it is committed."""

    out: str
    """A file that DVC commits, and that no other run of the stage writes alike."""
    md5: str
    took: dict[str, float]
    """What the run took, which one that goes on from its end adds to its own."""

    @classmethod
    def of(cls, out: Path, text: str, took: dict[str, float]) -> "Mark":
        """That of the run that writes a text into `out`."""
        return cls(str(out), _md5(text.encode()), took)

    @classmethod
    def read(cls, path: Path) -> "Mark | None":
        """What a file says; None where there is none, or a damaged one."""
        try:
            told = json_text.parse(path.read_text(encoding="utf-8"))
            took = {str(what): float(value) for what, value in told["took"].items()}
            return cls(str(told["out"]), str(told["md5"]), took)
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return None

    def write(self, path: Path) -> None:
        """Write it into a file."""
        write_text(path, json.dumps(asdict(self)))

    def is_committed(self, lock: str) -> bool:
        """Whether the text of dvc.lock has this result."""
        return _in_lock(self.out, lock) == self.md5

    def is_replaced(self, lock: str) -> bool:
        """Whether another result of this checkout is committed, and in its place.

        Of a result that is not committed the file is as the mark says, or DVC has removed it.
        """
        there = Path(self.out)
        return there.exists() and _in_lock(self.out, lock) == _md5(there.read_bytes())


def lock_text() -> str:
    """The text of dvc.lock, which another `dvc repro` may be writing; empty where there is none."""
    try:
        return LOCK.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def are_seen() -> bool:
    """Whether DVC runs this process, and it alone: of those of torchrun the slowest writes `out` last."""
    return "DVC_STAGE" in os.environ and os.environ.get("WORLD_SIZE", "1") == "1"


def _in_lock(out: str, lock: str) -> str:
    """The MD5 of a file that dvc.lock has; empty where it has none."""
    found = re.search(rf"- path: {re.escape(out)}\n(?: +\w+: .*\n)*? +md5: (\w+)\n", lock)
    return found[1] if found else ""


def _md5(content: bytes) -> str:
    """As DVC writes it into dvc.lock."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
