"""Files at an address (s3://, gs://, hf://): fsspec lists and fetches them, each version once."""

from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from pipeline.core import fingerprint
from pipeline.core.atomic import atomic_file
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.params.base import ADDRESSES, scheme_of, without_folders
from pipeline.prepare.readers.named import expand

DIGEST_LETTERS = 16
LOCAL = "file://"


class _NotFetchedError(Exception):
    """Why a file could not be fetched."""


def named_files(place: str, key: str, cache: Path) -> list[tuple[str, Path]]:
    """The files that a path, a glob or an address names, each after the name that others read.

    Args:
        place: the path, glob or address.
        key: where params.yaml names it, for messages.
        cache: `runtime.cache`, where copies of files at an address are kept.

    Raises:
        UserError: there is none, or it cannot be fetched.
    """
    if scheme_of(place) not in (None, "file"):
        return list(fetched(place, key, cache).items())
    return [(without_folders(str(one)), one) for one in expand(place.removeprefix(LOCAL), key)]


def fetched(url: str, key: str, cache: Path) -> dict[str, Path]:
    """Local copies of the files that an address or a glob names, by their addresses, in their order.

    Credentials are those that the scheme's own library finds, as in its own configuration.

    Args:
        url: SCHEME://PLACE.
        key: where params.yaml names it, for messages.
        cache: copies lie in its folder `inputs`, by address and version.

    Raises:
        UserError: the scheme's library is not installed, no file is there, or it may not be read.
    """
    scheme = scheme_of(url)
    if scheme not in ADDRESSES:
        raise UserError(f"{key}: {url}: {scheme}:// is not read; allowed: {', '.join(ADDRESSES)}")
    try:
        files, path = fsspec.url_to_fs(url)
    except ImportError:
        library = ADDRESSES[scheme]
        raise UserError(f"{key}: {url} needs the package {library}; `pip install {library}`") from None
    try:
        found = sorted(files.glob(path)) if fsspec.core.has_magic(path) else [path]
        copies = {files.unstrip_protocol(one): _copy(files, one, cache) for one in found if files.isfile(one)}
    except UserError:
        raise
    except Exception as error:  # each library has errors of its own
        cause = error.__cause__ if isinstance(error, _NotFetchedError) and error.__cause__ else error
        told = str(cause).partition("\n")[0]
        raise UserError(
            f"{key}: {url} cannot be read ({type(cause).__name__}: {told}); run the same command again, "
            f"which fetches the rest, or correct the address, or give {ADDRESSES[scheme]} the credentials or "
            "the endpoint that it asks for"
        ) from None
    if not copies:
        raise UserError(f"{key}: {url} names no file; correct the address")
    return copies


def _copy(files: Any, path: str, cache: Path) -> Path:  # noqa: ANN401 - fsspec has no types
    """The local copy of a file in this version."""
    address = files.unstrip_protocol(path)
    version = fingerprint.of_bytes(f"{address} {files.ukey(path)}".encode())[:DIGEST_LETTERS]
    copy = cache / "inputs" / version / PurePosixPath(path).name
    if not copy.exists():
        with atomic_file(copy) as temporary:
            try:
                files.get_file(path, str(temporary))
            except Exception as error:  # an OSError would be told as one of the copy
                raise _NotFetchedError from error
        say(f"{address}: fetched, {copy.stat().st_size:,} bytes")
    return copy
