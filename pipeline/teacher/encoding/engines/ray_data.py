"""The engine `ray`: Ray Data deals the names of the shards to a pool of actors; vectors go to the store."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from pipeline.core.errors import UserError
from pipeline.teacher.encoding.engines.job import Filled, Job, Worker, total
from pipeline.teacher.encoding.store.filling import Advance


def run(job: Job, shards: Sequence[str], advance: Advance) -> Filled:
    """Fill shards on the cluster of RAY_ADDRESS, else on this machine; `advance` is told of rows done.

    Raises:
        UserError: Ray is not installed, or an actor's.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise UserError("runtime.engine is ray, which is not installed; `pip install 'ray[data]'`") from None
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    workers = min(job.runtime.workers, len(shards))
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(include_dashboard=False, logging_level=logging.ERROR)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        rows = ray.data.from_items([{"shard": shard} for shard in shards], override_num_blocks=len(shards))
        reports = rows.map(
            cast("Any", Actor),
            fn_constructor_args=(job,),
            compute=ray.data.ActorPoolStrategy(size=workers),
            **shares([node["Resources"] for node in ray.nodes()], workers, job.runtime.device),
        )
        parts, errors = [], []
        for report in reports.iter_rows():  # to its end: Ray does not like to be left midway
            found = json.loads(report["report"])
            if "error" in found:
                errors.append(found["error"])
            else:
                parts.append(Filled(**found))
                advance(parts[-1].rows)
    finally:
        if started_here:
            ray.shutdown()
    if errors:
        raise UserError(errors[0])
    return total(parts)


class Actor:
    """A worker in a process of Ray's, which reports in JSON.

    After an error it does nothing but repeat it, so that the other shards are soon through.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._worker: Worker | None = None
        self._error = ""

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        """Fill the shard that a row names."""
        try:
            if not self._error:
                # Of a node's GPUs an actor sees its own alone, which is the first.
                device = "cuda" if self._job.runtime.device.startswith("cuda") else None
                self._worker = self._worker or Worker(self._job, device)
                return {"report": json.dumps(asdict(self._worker.fill(row["shard"])))}
        except UserError as error:
            self._error = str(error)
        return {"report": json.dumps({"error": self._error})}


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
