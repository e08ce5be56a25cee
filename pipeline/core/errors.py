"""The one error a user's mistake raises, and the wrapper that turns it into one line and exit code 1."""

import errno
import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from pipeline.core.progress import say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

P = ParamSpec("P")


QUIET = {
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}
"""Libraries' own bars and load reports, which drown the one line that matters."""


MACHINE_ERRORS = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOSPC, errno.EROFS, errno.EDQUOT)
"""Errors of the machine, not of the program: no permission for a file, no space for it."""
ELSEWHERE = "free space there; for temporary files TMPDIR may name another folder"
RUST = re.compile(r"\(os error (\d+)\)")


class UserError(Exception):
    """A mistake in the user's input. The message names the file, row or key, and the fix."""


class Refused(UserError):  # noqa: N818 - the user has made no error
    """The machine has stopped the stage: a full disk, or what started it is gone. What is done is of use."""


class Unfinished(UserError):  # noqa: N818 - what is done is no error
    """A teacher had to stop half-way. The error carries the vectors that were made so far."""

    def __init__(
        self,
        message: str,
        rows: "NDArray[np.int_] | None" = None,
        vectors: "Mapping[str, NDArray[np.float32]] | None" = None,
    ) -> None:
        super().__init__(message)
        self.rows = rows
        """Which of the texts are done, ascending."""
        self.vectors = vectors
        """Their vectors (len(rows), d) by view."""


@contextmanager
def under(key: str) -> Iterator[None]:
    """Begin the message of a `UserError` with the block of params.yaml that its keys are of."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{key}: {error}") from None


def refused_by_the_system(error: Exception) -> str | None:
    """Why the machine refused to read or write; None where the error is another one.

    What is written in Rust (polars, safetensors, tokenizers) has exceptions of its own for that.
    """
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error.strerror):
        return f"{error.strerror}; {ELSEWHERE}"
    told = RUST.search(str(error))
    number = error.errno if isinstance(error, OSError) and error.errno else int(told[1]) if told else None
    if number not in MACHINE_ERRORS:
        return None
    return os.strerror(number) + (f"; {ELSEWHERE}" if number in (errno.ENOSPC, errno.EDQUOT) else "")


def report_user_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Print a `UserError`, or a failing file or disk, as one message on stderr, and exit with 1.

    Every other error keeps its traceback.
    """

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        if not gc.isenabled():  # a quick start ends here
            gc.freeze()
            gc.enable()
        try:
            command(*args, **kwargs)
        except UserError as error:
            say(f"error: {error}")
            sys.exit(1)
        except Exception as error:
            if (reason := refused_by_the_system(error)) is None:
                raise
            place = getattr(error, "filename", None) or "a file"
            say(f"error: {place} cannot be read or written ({reason})")
            sys.exit(1)

    return wrapped
