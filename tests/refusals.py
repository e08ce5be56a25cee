"""A refusal is checked by what it names, in whatever words: file, key, row or value, and the fix."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline.core.errors import UserError


@contextmanager
def refuses(*named: object) -> Iterator[pytest.ExceptionInfo[UserError]]:
    """Expect a `UserError` whose message holds each of `named`, as it stands, in any order."""
    with pytest.raises(UserError) as error:
        yield error
    absent = [name for name in named if str(name) not in str(error.value)]
    assert not absent, f"{absent} not in: {error.value}"
