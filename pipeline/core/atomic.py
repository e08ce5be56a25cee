"""Files and folders that appear whole or not at all.

Until then they have a partial name, `.partial-[FOLDER-]MACHINE-PROCESS-RANDOM`, which tells who writes them.
"""

import errno
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path

from pipeline.core import fingerprint, parent, seal
from pipeline.core.errors import RUST, Refused, UserError

PARTIAL = ".partial-"
WRITER = re.compile(rf"{re.escape(PARTIAL)}(?:.*-)?([0-9a-f]{{16}})-(\d+)-\w+(?:\..*)?")
WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)
"""Errors that the system gives to a write. A missing file is none of them: the block may also read."""
NO_SYNC = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)
"""What file systems say, of a network for one, that do not sync folders."""
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""How the path of SCHEME://PLACE begins."""
SYNCED_TOGETHER = 16
"""Files of a folder that the disk is waited for at a time: it writes them together."""
UNTOUCHED_SECONDS = 24 * 3600
"""Seconds for which a partial file of another machine is left alone."""


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a full disk, a missing permission and the like into a `UserError` that names `path`."""
    if ADDRESS.fullmatch(path.parts[0] if path.parts else ""):
        raise UserError(f"{path} is an address, where nothing is written; name a file or folder")
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # polars and tokenizers raise no OSError
        if (reason := _told_by_the_system(error)) is None:
            raise
        raise Refused(
            f"{path} cannot be written ({reason}); mend that and run the same command again"
        ) from None


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, else remove it.

    File and rename are synced, so that a crash leaves either the old file or the whole new one. What killed
    processes left beside it, of files of this kind, is removed.

    Raises:
        UserError: the disk is full, or the like; or this is a stage whose parent is gone.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        left = path.parent.glob(f"{PARTIAL}*{path.suffix}")
        remove_abandoned(one for one in left if WRITER.fullmatch(one.name) and one.suffix == path.suffix)
        handle, name = tempfile.mkstemp(prefix=PARTIAL + _writer(), suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o644)
            _sync(temporary)
            parent.check(path)
            temporary.replace(path)
            _sync(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_folder(path: Path, *, sealed: bool = True) -> Iterator[Path]:
    """Yield an empty temporary folder beside `path`; put it in place of `path` if the block succeeds.

    All that it holds is synced before the rename, and all users may read it. What killed processes left of
    the same folder is removed.

    Args:
        path: where the folder appears.
        sealed: whether it gets a seal; a folder whose files have seals of their own needs none.

    Raises:
        UserError: as `atomic_file`.
    """
    with disk_errors(path), scratch_folder(path) as temporary:
        temporary.chmod(0o755)
        yield temporary
        if sealed:
            seal.write_folder(temporary)
        _finish_all(iter(temporary.rglob("*")))
        _sync(temporary)
        parent.check(path)
        while not _put(temporary, path):
            pass
        _sync(path.parent)


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path` that is removed when the block ends.

    What killed processes left of such folders is removed.

    Raises:
        UserError: there is no writing beside `path`.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path.parent.glob(f"{PARTIAL}{path.name}-*"))
        temporary = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{path.name}-{_writer()}", dir=path.parent))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Remove a folder, if it is there, at once: killed half-way, it leaves none that lacks files.

    Raises:
        UserError: it may not be removed.
    """
    with disk_errors(path), scratch_folder(path) as aside, suppress(FileNotFoundError):
        path.replace(aside)


def _put(temporary: Path, path: Path) -> bool:
    """Rename a folder to `path`, what is there aside and then away; False where another came between."""
    aside = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{path.name}-{_writer()}", dir=path.parent))
    try:
        with suppress(FileNotFoundError):
            path.replace(aside)
        temporary.replace(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return True


def _finish_all(written: Iterator[Path]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(SYNCED_TOGETHER) as pool:
        while some := list(islice(written, 16 * SYNCED_TOGETHER)):
            list(pool.map(_finish, some))


def _finish(written: Path) -> None:
    """Let all users read it, for safetensors writes for its user alone, and wait until the disk has it."""
    if not written.is_symlink():  # what it points to is another's
        written.chmod(0o755 if written.is_dir() else 0o644)
        _sync(written)


def _sync(path: Path) -> None:
    """Wait until the disk has a file's content, or a folder's names."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
    finally:
        os.close(opened)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text to `path` atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def is_abandoned(partial: Path) -> bool:
    """Whether nobody writes a partial file or folder any more.

    A process of this machine is looked up: what it writes is abandoned once it is gone, and not before. One
    of another machine that shares the folder over a network cannot be seen: what it writes is abandoned after
    a day without a change, longer than any write pauses.
    """
    named = WRITER.fullmatch(partial.name)
    if named and named[1] == _machine():
        return not _is_running(int(named[2]))
    return is_untouched(partial)


def is_untouched(path: Path) -> bool:
    """Whether nothing in a file or folder has changed for a day."""
    try:
        changed = max(each.stat().st_mtime for each in (path, *path.rglob("*")))
    except OSError:
        return False  # it has just been finished or removed
    return time.time() - changed > UNTOUCHED_SECONDS


def remove_abandoned(partials: Iterable[Path]) -> None:
    """Remove partial files and folders that nobody writes any more, where that is allowed."""
    for partial in partials:
        if is_abandoned(partial):
            if partial.is_dir():
                shutil.rmtree(partial, ignore_errors=True)
            else:
                with suppress(OSError):
                    partial.unlink()


def _told_by_the_system(error: Exception) -> str | None:
    """Why the system refused; None where the error is another one.

    What is written in Rust (polars, safetensors, tokenizers) has exceptions of its own for that.
    """
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if (number := RUST.search(str(error))) and int(number[1]) in WRITE_ERRORS:
        return os.strerror(int(number[1]))
    return (str(error) or type(error).__name__) if isinstance(error, OSError) else None


def _writer() -> str:
    return f"{_machine()}-{os.getpid()}-"


@cache
def _machine() -> str:
    """Where a process number means the same process: this boot of this machine, in this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        known = f"{boot} {os.readlink('/proc/self/ns/pid')} {os.uname().nodename}"
    except OSError:
        return secrets.token_hex(8)  # no Linux: this process knows its own writes alone
    return fingerprint.of_bytes(known.encode())[:16]


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True
