"""Tasks for `pipeline mteb`: those of the library by name, and those of a user's Python file."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from mteb import AbsTask

MODULE = "pipeline_mteb_tasks"
"""The name under which a file of tasks is imported."""


def listed(tasks: str, benchmark: str | None) -> "list[AbsTask]":
    """MTEB's own tasks, named with commas between, and those of a benchmark.

    Raises:
        UserError: mteb does not know one of them; what they raise when their data cannot be read.
    """
    from mteb import get_benchmark, get_tasks

    names = [name.strip() for name in tasks.split(",") if name.strip()]
    try:
        found = list(get_tasks(tasks=names)) if names else []
        found += list(get_benchmark(benchmark).tasks) if benchmark else []
    except KeyError as error:
        reason = str(error.args[0]).removeprefix("KeyError: ")
        raise UserError(f"mteb knows no such task or benchmark: {reason}") from None
    for task in found:
        for part in (task, *getattr(task.metadata, "tasks", ())):  # some are made of others
            part.load_data = _downloading(part)
    return found


def defined(file: Path) -> "list[AbsTask]":
    """One of each task that a Python file defines, in its order; abstract classes are no tasks.

    Raises:
        UserError: the file does not exist, fails, or defines no task; what the tasks raise when their data
            cannot be read.
    """
    from mteb import AbsTask

    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise UserError(f"{file} {what}; name a Python file with subclasses of mteb's AbsTask")
    spec = importlib.util.spec_from_file_location(MODULE, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{file} is no Python file; its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    _run(file, "", spec.loader.exec_module, module)
    classes = [
        one
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, AbsTask) and one.__module__ == MODULE
    ]
    whole = [one for one in classes if not inspect.isabstract(one)]
    if not whole:
        missing = [f"{one.__name__} lacks {', '.join(sorted(one.__abstractmethods__))}" for one in classes]
        why = "; ".join(missing) or "no subclass of mteb's AbsTask"
        raise UserError(f"{file} defines no task: {why}")
    found: list[AbsTask] = [_run(file, f"{one.__name__}: ", one) for one in whole]
    for task in found:
        task.load_data = _reading(file, task)  # type: ignore[method-assign]
    return found


def _downloading(task: "AbsTask") -> Callable[..., None]:
    """A task's own `load_data`, what it fails of being told."""
    load = task.load_data

    def load_data(*args: Any, **options: Any) -> None:  # noqa: ANN401 - any task's own
        from datasets.exceptions import DatasetsError
        from httpx import HTTPError

        try:
            load(*args, **options)
        except (DatasetsError, OSError, HTTPError) as error:
            reason = " ".join(str(error).strip().splitlines()[:1]) or type(error).__name__
            raise UserError(
                f"the data of {task.metadata.name} cannot be read ({reason}); "
                "MTEB's tasks are downloaded from the hub when they are first run"
            ) from None

    return load_data


def _reading(file: Path, task: "AbsTask") -> Callable[..., None]:
    load, where = task.load_data, f"the data of {task.metadata.name} cannot be read: "
    return lambda *args, **options: _run(file, where, load, *args, **options)


def _run(file: Path, what: str, code: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401
    """Call what a user wrote in a file; where that fails is told by the file's last line on the way there."""
    try:
        return code(*args, **options)
    except Exception as error:  # whatever a user's program raises
        way = extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in way if Path(frame.filename) == file.resolve()]
        line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
        where = f"{file}, line {line}" if line else str(file)
        reason = str(error).strip().splitlines()[:1]
        raise UserError(f"{where}: {what}{': '.join([type(error).__name__, *reason])}") from None
