"""Files and folders that appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.core.errors import UserError

PARTIAL = ".partial-"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a full disk, a missing permission and the like into a `UserError` that names `path`."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise UserError(
            f"{path} cannot be written ({reason}); mend that and run the same command again"
        ) from None


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, else remove it.

    The file is synced before the rename, so that a crash leaves either the old file or the whole new one.

    Raises:
        UserError: the disk is full, or the like.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=PARTIAL, suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o644)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside `path`; put it in place of `path` if the block succeeds.

    What killed processes left of the same folder is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{path.name}-{os.getpid()}-", dir=path.parent))
    temporary.chmod(0o755)
    try:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text to `path` atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _remove_abandoned(path: Path) -> None:
    for left in path.parent.glob(f"{PARTIAL}{path.name}-*"):
        number = left.name.removeprefix(f"{PARTIAL}{path.name}-").partition("-")[0]
        if number.isdecimal() and not _is_running(int(number)):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True
