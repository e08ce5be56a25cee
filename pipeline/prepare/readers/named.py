"""Which files a path or a glob names."""

import glob
import os
import re
from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.prepare.readers.hub_datasets import is_hub

_SURROGATE = re.compile("[\ud800-\udfff]")


def named(pattern: str, root: Path = Path()) -> list[Path]:
    """What lies at a path, though it looks like a glob; else all that the glob (`**` included) names, sorted.

    Args:
        pattern: the path.
        root: where a relative one begins.
    """
    if os.path.exists(root / pattern):  # of a folder that may not be read it says no
        return [root / pattern]
    return [root / name for name in sorted(glob.glob(pattern, root_dir=root, recursive=True))]


def expand(pattern: str, key: str, root: Path = Path()) -> list[Path]:
    """The files that a path or a glob (`**` included) names, sorted; a dataset as it is.

    Args:
        pattern: the path.
        key: where params.yaml names it, for messages.
        root: where a relative one begins.

    Raises:
        UserError: there is none, or of a glob one that cannot be read or named.
    """
    if is_hub(pattern):
        return [Path(pattern)]
    try:
        return _files(pattern, key, root)
    except PermissionError as error:
        place = error.filename or pattern
        raise UserError(f"{key}: {place} may not be read; change its permissions, or its folder's") from None


def _files(pattern: str, key: str, root: Path) -> list[Path]:
    whole = root / pattern
    if whole.is_file():
        return [whole]
    if whole.is_dir():
        example = Path(pattern) / "*.txt"
        raise UserError(f"{key}: {pattern} is a folder; name a file or a glob such as {example}")
    if whole.exists():
        raise UserError(f"{key}: {pattern} is a pipe or a device; name a file of the same content")
    _check_folders(pattern, root)
    found = named(pattern, root)
    for path in found:
        if path.is_symlink() and not path.exists():
            raise UserError(f"{key}: {path} is a link to nothing; mend or remove it")
        if _SURROGATE.search(str(path)):
            raise UserError(f"{key}: the name {str(path)!a} is not UTF-8; rename it")
    files = [path for path in found if path.is_file()]
    if not files:
        what = "matches no file" if glob.has_magic(pattern) else "does not exist"
        raise UserError(f"{key}: {pattern} {what}; correct the path (relative to the repository root)")
    return files


def _check_folders(pattern: str, root: Path) -> None:
    """Raise PermissionError where a glob would take a folder that may not be read for an empty one."""
    parts = Path(pattern).parts
    for place in (number for number, part in enumerate(parts) if glob.has_magic(part)):
        above = str(Path(*parts[:place], *(["**"] if parts[place] == "**" else [])))
        for folder in (root / name for name in glob.iglob(above, root_dir=root, recursive=True)):
            if os.path.isdir(folder):
                os.scandir(folder).close()
