"""The engine `local`: this process, or several on this machine, one for each GPU where there are any."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import ParamSpec, TypeVar

from pipeline.core.machine import cpus
from pipeline.params.teacher import single_teachers
from pipeline.teacher.encoding.engines.dealing import deal
from pipeline.teacher.encoding.engines.job import Filled, Job, Worker, total
from pipeline.teacher.encoding.store.filling import Advance

P = ParamSpec("P")
T = TypeVar("T")
THREADS = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")
"""Of torch and of the tokenizers; read when they are loaded."""


def run(job: Job, shards: Sequence[str], advance: Advance) -> Filled:
    """Fill shards; `advance` is told of rows as they are done.

    Raises:
        UserError: a worker's, or a shard's worker died, and those of its retries too.
    """
    workers = min(job.runtime.workers, len(shards))
    asks_api = any(teacher.kind == "openai_api" for teacher in single_teachers(job.teacher).values())
    if workers == 1 and (asks_api or not job.apart):
        worker = Worker(job)
        worker.announce(shards)
        return total(worker.fill(shard, advance) for shard in shards)
    threads = max(1, cpus() // workers)
    return deal(job, shards, workers, lambda number: Process(job, number, threads), _why, advance)


class Process:
    """A worker: a pool of one process, so that it is known whose process has died."""

    def __init__(self, job: Job, number: int, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, context, _start, (job, number, threads))

    def ready(self) -> Future[str]:
        """Done at once: the process starts with its first shard."""
        future = Future[str]()
        future.set_result("")
        return future

    def check(self, told: str) -> None:
        """It sees the same files."""

    def fill(self, shard: str) -> Future[Filled]:
        """As `Worker.fill`."""
        return self._submit(_fill, shard)

    def try_texts(self, shard: str, note: Path) -> Future[str]:
        """As `Worker.try_texts`."""
        return self._submit(_try_texts, shard, note)

    def end(self) -> None:
        """End it after the shard that it is at."""
        self._pool.shutdown(cancel_futures=True)

    def _submit(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> Future[T]:
        """What fails also where the process died while it had nothing to do."""
        try:
            return self._pool.submit(work, *given, **named)
        except BrokenProcessPool as error:
            future = Future[T]()
            future.set_exception(error)
            return future


def _why(error: BaseException) -> str | None:
    return "its process ended" if isinstance(error, BrokenProcessPool) else None


class _State:
    """What a worker process keeps between its shards."""

    job: Job
    number: int
    worker: Worker | None = None


def _start(job: Job, number: int, threads: int) -> None:
    """Before a worker's first shard; the teacher waits until then, so that its errors reach the parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()
    for variable in THREADS:
        os.environ.setdefault(variable, str(threads))
    _State.job, _State.number = job, number


def _end_with_parent() -> None:
    """A killed parent does not end its workers."""
    parent = multiprocessing.parent_process()
    wait([parent.sentinel] if parent else [])
    os._exit(1)


def _worker() -> Worker:
    if _State.worker is None:
        _State.worker = Worker(_State.job, device_of(_State.number, _State.job.runtime.device))
    return _State.worker


def _fill(shard: str) -> Filled:
    return _worker().fill(shard)


def _try_texts(shard: str, note: Path) -> str:
    return _worker().try_texts(shard, note)


def device_of(number: int, device: str) -> str:
    """The device of a worker: GPUs are dealt out, unless one is named."""
    if device not in ("auto", "cuda"):
        return device
    import torch

    count = torch.cuda.device_count()
    return f"cuda:{number % count}" if count else device
