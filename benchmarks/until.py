"""Run a module until it first calls a function: `python until.py MODULE:FUNCTION RUN [ARGUMENT ...]`.

The process ends where the function would begin, so the CPU seconds that it has used are those of the start;
it fails where the function is never called. FUNCTION may be a method: `CLASS.NAME`.
"""

import os
import runpy
import sys
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from operator import attrgetter
from types import ModuleType


def end_at(place: str) -> None:
    """Put the end of the process in the place of a function, as soon as its module is imported."""
    name, _, path = place.partition(":")
    owner, _, function = path.rpartition(".")
    run = SourceFileLoader.exec_module

    def exec_module(loader: SourceFileLoader, module: ModuleType) -> None:
        run(loader, module)
        if module.__name__ == name:
            holder = attrgetter(owner)(module) if owner else module
            setattr(holder, function, lambda *_, **__: os._exit(0))

    setattr(SourceFileLoader, "exec_module", exec_module)  # noqa: B010


if __name__ == "__main__":
    end_at(sys.argv[1])
    del sys.argv[:2]
    sys.path.insert(0, "")
    with suppress(SystemExit):
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.exit("the function was not called")
