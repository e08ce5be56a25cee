"""Libraries that are imported in a third of their time, by putting off what nobody here needs.

Measured (`benchmarks/bench_start.py`) and read, this is what importing transformers' BertModel and
sentence-transformers spends its time on, beside torch:

- Python's garbage collector searches hundreds of thousands of new objects again and again; none is garbage.
- transformers imports scikit-learn, scipy.stats and scipy.optimize for functions of generation, GLUE and
  object detection, sentence-transformers scikit-learn for distances other than the cosine, scipy.sparse for a
  conversion, and datasets, which imports pandas, for its trainers.
- transformers and torch's optimizers import torch's compiler to say what it is to leave alone, and for a
  context manager of masks; transformers imports torch.distributed.tensor for a debugger, accelerate FSDP.
- transformers searches its 2,600 files for the names that they offer, and forgets half before it asks again.
- An embedding without memory (`device="meta"`, as transformers makes them before it reads the weights) is
  filled with random numbers by torch's decompositions. To check a condition they import sympy.
"""

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

LARGE = (
    "altair",
    "datasets",
    "faiss",
    "model2vec",
    "onnxruntime",
    "pandas",
    "polars",
    "scipy",
    "sklearn",
    "torch",
)
"""They are only spared the garbage collector."""
DEFERRING = ("transformers", "sentence_transformers")
"""While a module of these is imported, what follows is put off."""
DEFERRED = (
    "datasets",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.stats",
    "sklearn.metrics",
    "torch._dynamo._trace_wrapped_higher_order_op",
)
"""Of these they take functions and classes by name, which import the module when they are used."""
UNREAD = ("torch.distributed.tensor",)
"""Some versions import it for nothing but to be there; where a name of it is taken, it is imported."""


def install() -> None:
    """Import quickly from here on. For a process that trains, encodes or scores, and compiles nothing.

    Nothing where transformers or sentence-transformers is already there: what they put off later would not
    be what they already hold.
    """
    if not any(name in sys.modules for name in DEFERRING) and not any(
        isinstance(finder, _Finder) for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds what Python finds; what runs a large library's module is changed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        defers = name.partition(".")[0] in DEFERRING
        if not defers and name not in LARGE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec and spec.loader:
            setattr(spec.loader, "exec_module", _within(spec.loader.exec_module, defers=defers))  # noqa: B010
        return spec


def _within(run: Callable[[ModuleType], None], *, defers: bool) -> Callable[[ModuleType], None]:
    def exec_module(module: ModuleType) -> None:
        with _uncollected(), _deferred() if defers else nullcontext():
            run(module)
        if change := CHANGED.get(module.__name__):
            change(module)

    return exec_module


def _remember_all(import_utils: ModuleType) -> None:
    """Keep what each of transformers' folders offers, by the folder, however it is named."""
    of_folder = cache(import_utils.create_import_structure_from_path.__wrapped__)

    def create_import_structure_from_path(path: str) -> object:
        return of_folder(os.path.dirname(path) if os.path.isfile(path) else str(path))

    setattr(import_utils, "create_import_structure_from_path", create_import_structure_from_path)  # noqa: B010


def _save_meta_tensors_work(torch: ModuleType) -> None:
    """Spare embeddings without memory their random numbers, and conditions without symbols sympy."""
    check_with = torch._check_with

    @wraps(check_with)
    def _check_with(error: type[Exception], condition: object, message: Callable[[], str]) -> None:
        if condition is not True:
            check_with(error, condition, message)

    setattr(torch, "_check_with", _check_with)  # noqa: B010
    reset = torch.nn.Embedding.reset_parameters

    @wraps(reset)
    def reset_parameters(self: "nn.Embedding") -> None:
        if not self.weight.is_meta:
            reset(self)

    torch.nn.Embedding.reset_parameters = reset_parameters


CHANGED: Mapping[str, Callable[[ModuleType], None]] = {
    "torch": _save_meta_tensors_work,
    "transformers.utils.import_utils": _remember_all,
}
"""What is done to a module once it is imported."""


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector off, and what is there afterwards out of its sight."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


@contextmanager
def _deferred() -> Iterator[None]:
    """Put placeholders where modules are not yet, and take them away again; stand-ins stay."""
    put: dict[str, ModuleType] = {name: _Deferred(name) for name in DEFERRED if _is_absent(name)}
    put |= {name: _StandIn(name) for name in UNREAD if name not in sys.modules}
    sys.modules.update({name: _StandIn(name) for name in KNOWN if name not in sys.modules} | put)
    try:
        yield
    finally:
        for name, module in put.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def _undecorated(function: Callable[..., object] | None = None, *_: object, **__: object) -> object:
    return function if function is not None else _undecorated


class _Nothing:
    """A class of a module that is not imported: no object is an instance of it."""


KNOWN: Mapping[str, Mapping[str, object]] = {
    "torch._dynamo": {
        "allow_in_graph": _undecorated,
        "disable": _undecorated,
        "eval_frame": SimpleNamespace(OptimizedModule=_Nothing),
        "graph_break": lambda: None,
    },
    "torch.distributed.fsdp.fully_sharded_data_parallel": {"FullyShardedDataParallel": _Nothing},
}
"""What stand-ins for a module answer without it, where nothing is compiled or sharded: they are asked what to
leave alone, and whether a model is theirs."""


def _is_absent(name: str) -> bool:
    """Whether a module is not imported, but could be."""
    return name not in sys.modules and importlib.util.find_spec(name.partition(".")[0]) is not None


class _Deferred(ModuleType):
    """A module that is imported when something of it is used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        if "." not in name:  # transformers asks whether a package is installed by its spec
            self.__spec__ = PathFinder.find_spec(name)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Later(self, name)

    def imported(self) -> ModuleType:
        """The module itself, in the place of this one."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)


class _StandIn(_Deferred):
    """A module until more is asked of it than is known without it."""

    def __getattr__(self, name: str) -> object:
        known, is_imported = KNOWN.get(self.__name__, {}), sys.modules.get(self.__name__) is not self
        if name in known and not is_imported:
            return known[name]
        if name.startswith("__") and name != "__path__":  # asked of every module; __path__ for a submodule
            raise AttributeError(name)
        return getattr(self.imported(), name)

    def __setattr__(self, name: str, value: object) -> None:
        if sys.modules.get(self.__name__) is self:
            super().__setattr__(name, value)
        else:  # a submodule that has been imported by way of this one
            setattr(self.imported(), name, value)


class _Later:
    """A function or class of a deferred module."""

    def __init__(self, module: _Deferred, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._itself()(*args, **kwargs)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._itself())

    def __getattr__(self, name: str) -> object:
        return getattr(self._itself(), name)

    def _itself(self) -> Any:  # noqa: ANN401
        return getattr(self._module.imported(), self._name)
