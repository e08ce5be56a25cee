"""The engine `ray`: Ray Data deals the names of the shards to a pool of actors; vectors go to the store."""

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

from pipeline.artifacts.encoding import Advance
from pipeline.core.errors import UserError
from pipeline.engines.job import Filled, Job, Worker, total


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
            num_cpus=cpus_of_each([node["Resources"].get("CPU", 0) for node in ray.nodes()], workers),
            num_gpus=gpus_of_each(ray.cluster_resources().get("GPU", 0), workers, job.runtime.device),
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
                self._worker = self._worker or Worker(self._job)
                return {"report": json.dumps(asdict(self._worker.fill(row["shard"])))}
        except UserError as error:
            self._error = str(error)
        return {"report": json.dumps({"error": self._error})}


def cpus_of_each(nodes: Sequence[float], workers: int) -> int:
    """The most CPUs that so many workers can have each, none of them on two nodes; 1 at least."""
    most = int(max(nodes, default=1))
    fitting = [cpus for cpus in range(1, most + 1) if sum(node // cpus for node in nodes) >= workers]
    return max(fitting, default=1)


def gpus_of_each(gpus: float, workers: int, device: str) -> float:
    """A GPU each, or a share of one where there are fewer; none for a device that is no GPU."""
    return min(1.0, gpus / workers) if device in ("auto", "cuda") else 0.0
