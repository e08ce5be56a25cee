"""The engine `local`: this process, or several on this machine, one for each GPU where there are any."""

import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from multiprocessing.sharedctypes import Synchronized
from threading import Thread

from pipeline.core.errors import UserError
from pipeline.core.machine import cpus
from pipeline.teacher.encoding.engines.job import Filled, Job, Worker, total
from pipeline.teacher.encoding.store.filling import Advance

THREADS = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")
"""Of torch and of the tokenizers; read when they are loaded."""


def run(job: Job, shards: Sequence[str], advance: Advance) -> Filled:
    """Fill shards; `advance` is told of rows as they are done.

    Raises:
        UserError: a worker's, or a worker died.
    """
    workers = min(job.runtime.workers, len(shards))
    if workers == 1:
        worker = Worker(job)
        worker.announce(shards)
        return total(worker.fill(shard, advance) for shard in shards)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _start, (job, context.Value("i"), max(1, cpus() // workers)))
    parts = []
    try:
        for future in as_completed([pool.submit(_fill, shard) for shard in shards]):
            parts.append(future.result())
            advance(parts[-1].rows)
    except BrokenProcessPool:
        raise UserError(
            f"one of {workers} workers died, maybe for want of memory; lower runtime.workers or "
            "runtime.tokens_per_batch, and run the same command again: what was encoded is kept"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
    return total(parts)


class _Process:
    """What a worker process keeps between its shards."""

    job: Job
    number: int
    worker: Worker | None = None


def _start(job: Job, counter: "Synchronized[int]", threads: int) -> None:
    """Before a worker's first shard; the teacher waits until then, so that its errors reach the parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()
    for variable in THREADS:
        os.environ.setdefault(variable, str(threads))
    with counter.get_lock():
        _Process.number, counter.value = counter.value, counter.value + 1
    _Process.job = job


def _end_with_parent() -> None:
    """A killed parent does not end its workers."""
    parent = multiprocessing.parent_process()
    wait([parent.sentinel] if parent else [])
    os._exit(1)


def _fill(shard: str) -> Filled:
    if _Process.worker is None:
        _Process.worker = Worker(_Process.job, device_of(_Process.number, _Process.job.runtime.device))
    return _Process.worker.fill(shard)


def device_of(number: int, device: str) -> str:
    """The device of a worker: GPUs are dealt out, unless one is named."""
    if device not in ("auto", "cuda"):
        return device
    import torch

    count = torch.cuda.device_count()
    return f"cuda:{number % count}" if count else device
