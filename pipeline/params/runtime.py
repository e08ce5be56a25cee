"""`footprint:`, and `runtime:`, which changes results in their last digits at most."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pipeline.core.memory import DEFAULT, LEAST
from pipeline.params.base import Block, Count, Name, Positive, scheme_of


class Footprint(Block):
    """How size and speed are measured."""

    sentences: Count = 256
    """Texts in a timed batch."""
    rounds: Count = 3
    """How often all models are measured in turn. Medians are reported."""
    single: Count = 30
    """Texts that are encoded one at a time in each round, for the latency."""
    threads: Count = 2
    """Threads of every model."""
    pairs: Name | None = None
    """A test task of graded pairs: in each round all texts of its pairs are encoded one at a time, for the
    time of a pair (SimTDE's table 4). Where a task NAME stands for several, name one of its sets: NAME_stsb
    of kind sts_sets, NAME_men of word_similarity_sets, NAME_bird of pearl. null: they are not."""


class Api(Block):
    """How requests are sent to a teacher behind an API. The caps hold for one run of a stage."""

    tokens_per_request: Count = 50_000
    """Most tokens in a request, estimated as one for 4 bytes of text. OpenAI accepts 300,000."""
    texts_per_request: Count = 32
    """Most texts in a request. TEI accepts 32 by default, OpenAI 2,048."""
    concurrency: Count = 8
    """Requests at the same time."""
    connect_seconds: Positive = 10.0
    """Seconds without a connection before a request is retried."""
    timeout_seconds: Positive = 60.0
    """Seconds without an answer, or without the next part of it, before a request is retried."""
    answer_seconds: Positive = 300.0
    """Seconds that a whole answer may take, from the request to its last byte, before it is retried."""
    give_up_seconds: Positive = 180.0
    """Seconds without a whole answer, all tries of a request taken together, after which it is not retried
    any more. Pauses between tries do not count."""
    retries: Annotated[int, Field(ge=0)] = 6
    """How often a request is retried after a timeout, a lost connection, HTTP 429, 500, 502, 503 or 504."""
    backoff_seconds: Positive = 1.0
    """Seconds before the first retry. They double each time, up to a minute. A server may ask for more."""
    max_requests: Count | None = None
    """Stop before more requests are sent; retries count. null: no cap."""
    max_tokens: Count | None = None
    """Stop before more tokens are sent. The server's own count is used if it gives one, else an estimate.
    null: no cap."""


OF_DVC = ("data", "reports", ".dvc", ".git", "pipeline")
"""Folders that DVC and git write to: what lies under them is removed and restored without a word."""


def _own_folder(cache: str) -> str:
    if scheme := scheme_of(cache):
        fix = "write the path alone" if scheme == "file" else "name one that workers share, as on NFS"
        raise ValueError(f"{cache!r} is an address; the cache is a folder of a file system: {fix}")
    place = Path(cache)
    if not cache.strip() or Path.cwd().is_relative_to(place.resolve()):
        raise ValueError(f"{cache!r} is no folder of its own: the project is in it; name one, such as .cache")
    if place.exists() and not place.is_dir():
        raise ValueError(f"{cache!r} is a file; name a folder, such as .cache")
    if place.parts[0].startswith("~"):
        raise ValueError(f"{cache!r} is not expanded here; write the whole path of your home folder")
    for other in OF_DVC:
        if place.resolve().is_relative_to(Path(other).resolve()):
            raise ValueError(f"{cache!r} lies in {other}/, which others empty; name another, such as .cache")
    return cache


def _enough(gigabytes: float) -> float:
    if gigabytes < LEAST:
        raise ValueError(
            f"{gigabytes:g} GB is less than Python and its libraries take; give {LEAST:g} or more"
        )
    return gigabytes


class Runtime(Block):
    """What changes speed, and results only in their last digits. No stage tracks it."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    """Where the teacher encodes and students train and are scored: `auto`, `cpu`, `mps`, `cuda`, `cuda:1`.
    Their cost is always measured on the CPU."""
    tokens_per_batch: Count = 4096
    """Padded tokens that go through a model at a time."""
    cache: Annotated[str, AfterValidator(_own_folder)] = ".cache"
    """Folder of encoded vectors and unfinished runs. Git and DVC ignore it."""
    memory: Annotated[float, AfterValidator(_enough)] = DEFAULT
    """Gigabytes that a process of a stage shall hold at most. A smaller bound means smaller blocks, and the
    same results. What has to be in memory as a whole may take more, and is told: a model, a training step, an
    index, the vectors of a task with classes or clusters."""
    checkpoint_seconds: Annotated[int, Field(ge=1)] = 30
    """A killed training loses at most this many seconds; so do the vectors that score or whiten a student,
    and what a task teacher tells."""
    engine: Literal["local", "ray"] = "local"
    """Where the teacher's workers run: `local`, on this machine; `ray`, on the cluster of RAY_ADDRESS or else
    this machine (`pip install ray`), with the same files at the same paths."""
    workers: Count = 1
    """Processes that encode. Each loads its own teacher; a GPU takes several, which share it."""
    api: Api = Api()
    """For a teacher of kind `openai_api`."""
