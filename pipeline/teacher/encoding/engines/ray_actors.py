"""The engine `ray`: actors, to which shards are dealt by name; vectors go to the store that all share."""

import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import UserError
from pipeline.teacher.encoding.engines import ray_cluster
from pipeline.teacher.encoding.engines.dealing import deal
from pipeline.teacher.encoding.engines.job import Filled, Job, Worker, enter
from pipeline.teacher.encoding.store.filling import Advance

SEEN_SECONDS = 10.0
"""Seconds that a file may take to be seen by another machine: NFS remembers folders for some."""
LOOK_SECONDS = 0.1
FROM_DRIVER = "driver"
EXIT = re.compile(r"Worker exit type: [^.]*")
"""What Ray knows of the end of an actor's process."""


def run(job: Job, shards: Sequence[str], advance: Advance) -> Filled:
    """Fill shards on the cluster of RAY_ADDRESS, else on this machine; `advance` is told of rows done.

    Raises:
        UserError: Ray is not installed, its cluster does not answer or wants a token, a node does not see the
            cache, or an actor's; or as `deal`.
    """
    with ray_cluster.connected() as ray:
        workers = min(job.runtime.workers, len(shards))
        part = shares([node["Resources"] for node in ray.nodes()], workers, job.runtime.device)
        with scratch_folder(job.folder / job.runtime.cache / "shared") as meeting:
            (meeting / FROM_DRIVER).touch()
            kind = ray.remote(max_restarts=0, max_task_retries=0, **part)(Actor)
            start = partial(kind.remote, job)
            return deal(job, shards, workers, lambda _: Hired(start, ray.kill, meeting), _why, advance)


class Hired:
    """An actor, as the driver has it."""

    def __init__(self, start: Callable[[], Any], kill: Callable[[object], None], meeting: Path) -> None:
        self._actor, self._kill = start(), kill
        self._meeting, self._name = meeting, secrets.token_hex(8)

    def ready(self) -> Future[str]:
        """Done when the actor has seen the driver's file in the cache and written its own; its node."""
        return self._actor.meet.remote(str(self._meeting), self._name).future()

    def check(self, told: str) -> None:
        """Fail unless the actor's file is seen here."""
        if not is_seen(self._meeting, self._name):
            raise _unshared(self._meeting.parent, f"this machine does not see what node {told} writes there")

    def fill(self, shard: str) -> Future[Filled]:
        """As `Worker.fill`."""
        return self._actor.fill.remote(shard).future()

    def try_texts(self, shard: str, note: Path) -> Future[str]:
        """As `Worker.try_texts`."""
        return self._actor.try_texts.remote(shard, note).future()

    def end(self) -> None:
        """End it at once; pieces that are done are kept."""
        self._kill(self._actor)


class Actor:
    """A worker in a process of Ray's."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._loaded: Worker | None = None

    def meet(self, meeting: str, name: str) -> str:
        """Look for the driver's file in the cache, and write one that is looked for there; the node."""
        node = f"{socket.gethostname()} ({_address()})"
        enter(self._job.folder)
        if not is_seen(Path(meeting), FROM_DRIVER):
            raise _unshared(Path(meeting).parent, f"node {node} does not see what is written there")
        (Path(meeting) / name).touch()
        return node

    def fill(self, shard: str) -> Filled:
        """As `Worker.fill`."""
        return self._worker().fill(shard)

    def try_texts(self, shard: str, note: Path) -> str:
        """As `Worker.try_texts`."""
        return self._worker().try_texts(shard, note)

    def _worker(self) -> Worker:
        if self._loaded is None:
            # Of a node's GPUs an actor sees its own alone, which is the first.
            device = "cuda" if self._job.runtime.device.startswith("cuda") else None
            self._loaded = Worker(self._job, device)
        return self._loaded


def _address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())


def is_seen(folder: Path, name: str) -> bool:
    """Whether a folder holds a file, or comes to hold it soon."""
    until = time.monotonic() + SEEN_SECONDS
    while True:
        with suppress(OSError):
            if name in os.listdir(folder):
                return True
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_SECONDS)


def _unshared(cache: Path, who: str) -> UserError:
    return UserError(f"runtime.cache, {cache}: {who}; it has to be one folder that all nodes share")


def _why(error: BaseException) -> str | None:
    """Why an actor ended, in Ray's words; None where it did not."""
    from ray.exceptions import NodeDiedError, OutOfMemoryError, RayActorError, WorkerCrashedError

    if isinstance(cause := getattr(error, "cause", None), UserError):
        raise cause from None
    if not isinstance(error, (RayActorError, WorkerCrashedError, NodeDiedError, OutOfMemoryError)):
        return None
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\t")]
    return (EXIT.search(lines[-1]) or [lines[-1]])[0].rstrip(".")


def shares(nodes: Sequence[Mapping[str, float]], workers: int, device: str) -> dict[str, float]:
    """The CPUs and GPUs that each of so many workers gets, as Ray's `num_cpus` and `num_gpus`.

    A GPU each, or an equal share of one where there are fewer, for no worker has parts of two; none for a
    device that is no GPU. Then the most CPUs that they can have, none of them on two nodes; 1 at least.

    Args:
        nodes: `CPU` and `GPU` of each.
        workers: actors in all.
        device: of `runtime`.
    """
    gpus = int(sum(node.get("GPU", 0) for node in nodes)) if device.startswith(("auto", "cuda")) else 0
    on_each = -(-workers // gpus) if gpus else 0
    room = [int(node.get("GPU", 0)) * on_each if gpus else workers for node in nodes]
    cores = [node.get("CPU", 0) for node in nodes]
    fitting = [
        cpus
        for cpus in range(1, int(max(cores, default=1)) + 1)
        if sum(min(core // cpus, most) for core, most in zip(cores, room, strict=True)) >= workers
    ]
    finest = 10_000  # parts of a GPU that Ray tells apart
    return {"num_cpus": max(fitting, default=1), "num_gpus": finest // on_each / finest if gpus else 0.0}
