"""Files and folders that appear whole or not at all.

Until then they have a partial name, `.partial-[FOLDER-]MACHINE-PROCESS-RANDOM`, which tells who writes them.
"""

import errno
import os
import re
import secrets
import shutil
import stat
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
_MASK = os.umask(0o077)
os.umask(_MASK)
FILE_MODE, FOLDER_MODE = 0o666 & ~_MASK, 0o777 & ~_MASK
"""Who may read what is written: as the user's umask says. Temporary files are for their user alone."""
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

    File and rename are synced, so that a crash leaves either the old file or the whole new one, which those
    may read who might read the old one. What killed processes left beside it, of files of this kind, is
    removed.

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
            temporary.chmod(_mode(path))
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

    All that it holds is synced before the rename, and those may read it whom the umask lets. Where `path` is
    a link, the folder that it leads to is replaced. What killed processes left of the same folder is removed.

    Args:
        path: where the folder appears.
        sealed: whether it gets a seal; a folder whose files have seals of their own needs none.

    Raises:
        UserError: as `atomic_file`.
    """
    path = _itself(path)
    with disk_errors(path), scratch_folder(path) as temporary:
        temporary.chmod(FOLDER_MODE)
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
    there = _itself(path)
    with disk_errors(path), scratch_folder(there) as aside, suppress(FileNotFoundError):
        there.replace(aside)
    if there != path:
        path.unlink()


def _itself(path: Path) -> Path:
    """The folder that a link leads to; any other path as it is."""
    return path.resolve() if path.is_symlink() else path


def _mode(path: Path) -> int:
    """That of the file which is replaced, as its user set it; those that DVC caches may not be written."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return FILE_MODE
    return mode & 0o777 if stat.S_ISREG(mode) and mode & stat.S_IWUSR else FILE_MODE


def _put(temporary: Path, path: Path) -> bool:
    """Rename a folder to `path`, and what is there aside: away, or back where that fails.

    False where another folder came between.
    """
    aside = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{path.name}-{_writer()}", dir=path.parent))
    try:
        with suppress(FileNotFoundError):
            path.replace(aside)
        temporary.replace(path)
    except BaseException as error:
        if not path.exists() and any(aside.iterdir()):
            aside.replace(path)
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return True


def _finish_all(written: Iterator[Path]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(SYNCED_TOGETHER) as pool:
        while some := list(islice(written, 16 * SYNCED_TOGETHER)):
            list(pool.map(_finish, some))


def _finish(written: Path) -> None:
    """Let others read it, for safetensors writes for its user alone, and wait until the disk has it."""
    if not written.is_symlink():  # what it points to is another's
        written.chmod(FOLDER_MODE if written.is_dir() else FILE_MODE)
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
