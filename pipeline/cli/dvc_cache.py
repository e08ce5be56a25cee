"""DVC's cache, whose files are named by the digests of their contents: what is damaged, and what mends it.

DVC itself takes a file there for whole if nobody may write it.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.core import dvc_project

if TYPE_CHECKING:
    from dvc.repo import Repo

OBJECT = re.compile(r"[0-9a-f]{30}(\.dir)?")
RUN = re.compile(r"[0-9a-f]{64}")
"""A run: what a stage made of what."""
NOT_IN_A_RUN = ("size", "nfiles")
"""What DVC leaves out of the digest of a run."""


def files() -> dict[Path, str]:
    """The files of this checkout's cache, each with the command that makes it again; none outside a checkout.

    The command is empty for what no result of now needs.
    """
    with dvc_project.opened(Path.cwd()) as repository:
        if repository is None:
            return {}
        places = {Path(store.path) for store in (repository.cache.local, repository.cache.legacy)}
        objects = (path for place in sorted(places) for path in sorted(place.glob("??/*")))
        runs = sorted(Path(repository.stage_cache.cache_dir).glob("??/*/*"))
        needed = _needed(repository)
    found = {path: needed.get(_digest(path), "") for path in objects if OBJECT.fullmatch(path.name)}
    return found | {path: "" for path in runs if RUN.fullmatch(path.name)}


def objects() -> Path | None:
    """Where this checkout's cache has files, by their digests; None outside a checkout."""
    with dvc_project.opened(Path.cwd()) as repository:
        return Path(repository.cache.local.path) if repository else None


def is_intact(path: Path) -> bool:
    """Whether a file of the cache has the digest in its name."""
    if RUN.fullmatch(path.name):
        return path.name == _digest_of_run(path)
    with path.open("rb") as file:
        return _digest(path).removesuffix(".dir") == hashlib.file_digest(file, "md5").hexdigest()


def _digest(path: Path) -> str:
    return path.parent.name + path.name


def _needed(repository: "Repo") -> dict[str, str]:
    """What makes the results of now, by the digest of each and of the files in it."""
    found: dict[str, str] = {}
    for out in repository.index.outs:
        digest = (out.hash_info.value if out.hash_info else None) or ""
        command = f"dvc add {out}" if out.stage.is_data_source else f"dvc repro -f -s {out.stage.addressing}"
        for one in (digest, *_inside(repository, digest)):
            found.setdefault(one, command)
    return found


def _inside(repository: "Repo", digest: str) -> Iterator[str]:
    """The digests of a folder's files; none where its list is damaged, which is told of for itself."""
    if digest.endswith(".dir"):
        try:
            listed = json.loads(Path(repository.cache.local.oid_to_path(digest)).read_bytes())
            yield from [str(one["md5"]) for one in listed]
        except (OSError, ValueError, LookupError, TypeError):
            return


def _digest_of_run(path: Path) -> str | None:
    from dvc.utils import dict_sha256
    from dvc.utils.serialize import ParseError, load_yaml

    try:
        return str(dict_sha256(load_yaml(path), exclude=NOT_IN_A_RUN))
    except (ParseError, AttributeError, TypeError, ValueError):
        return None
