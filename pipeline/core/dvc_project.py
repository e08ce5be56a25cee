"""The checkout as DVC sees it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from dvc.repo import Repo


@contextmanager
def opened(root: Path) -> Iterator["Repo | None"]:
    """DVC's view of the project in a folder; None where that is no checkout of DVC's. Git is not asked.

    Raises:
        UserError: DVC cannot read a file of the project, or another command of DVC's is at work; also of what
            is done within.
    """
    from dvc.config import ConfigError
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.lock import LockError
    from dvc.repo import Repo

    try:
        try:
            repository = Repo(str(root), config={"core": {"no_scm": True}})
        except NotDvcRepoError:
            yield None
            return
        with repository:
            yield repository
    except ConfigError as error:
        raise UserError(f"DVC's settings are damaged, which lie in .dvc/config: {error}; mend them") from None
    except LockError:
        raise UserError("another command of DVC's is at work here; wait until it has ended") from None
    except (DvcException, UnicodeError) as error:
        said = " ".join(str(error).split())
        raise UserError(unread(said)) from None


def unread(said: object) -> str:
    """The message that DVC cannot read a file, with what it says."""
    return f"DVC cannot read the project's files ({said}); mend or remove what it names"
