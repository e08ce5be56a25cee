"""The one error a user's mistake raises, and the wrapper that turns it into one line and exit code 1."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")


QUIET = {"TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
"""Libraries' own bars and load reports, which drown the one line that matters."""


class UserError(Exception):
    """A mistake in the user's input. The message names the file, row or key, and the fix."""


def report_user_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Print a `UserError` as one message on stderr and exit with 1; every other error keeps its traceback."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        try:
            command(*args, **kwargs)
        except UserError as error:
            sys.stderr.write(f"error: {error}\n")
            sys.exit(1)

    return wrapped
