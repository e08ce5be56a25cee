"""A text that kills the process that encodes it, and nodes that do not share a cache."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.teacher.encoding.engines import local, ray_actors
from pipeline.teacher.encoding.engines.job import Filled
from pipeline.teacher.kinds.hashing import Hashing

POISON = "a text that kills"
LOG = Path("encoded together")
"""How often a text was in a batch that killed its process, as a file of that many bytes."""
_fill, _try_texts, _encode = local._fill, local._try_texts, Hashing.encode


def _deadly(teacher: Hashing, texts: Sequence[str], *rest: Any, **named: Any) -> dict[str, Any]:
    if POISON in texts:
        with LOG.open("a") as log:
            log.write("." if len(texts) == 1 else "+")
        os.kill(os.getpid(), signal.SIGKILL)
    return _encode(teacher, texts, *rest, **named)


def fill(shard: str) -> Filled:
    """In place of a local worker's."""
    Hashing.encode = _deadly
    return _fill(shard)


def try_texts(shard: str, note: Path) -> str:
    """In place of a local worker's."""
    Hashing.encode = _deadly
    return _try_texts(shard, note)


class Actor(ray_actors.Actor):
    """In place of Ray's."""

    def __init__(self, job: Any) -> None:
        Hashing.encode = _deadly
        super().__init__(job)


class Blind(ray_actors.Actor):
    """On a node that does not see what the driver writes."""

    def meet(self, meeting: str, name: str) -> str:
        """Look elsewhere."""
        ray_actors.SEEN_SECONDS = 0.2
        return super().meet(f"{meeting}/elsewhere", name)


class Mute(ray_actors.Actor):
    """On a node that sees it, but writes to a folder of its own."""

    def meet(self, meeting: str, name: str) -> str:
        """Write elsewhere."""
        own = Path(meeting, "own")
        own.mkdir()
        (own / ray_actors.FROM_DRIVER).touch()
        return super().meet(str(own), name)
