"""`footprint:`, and `runtime:`, which changes results in their last digits at most."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.params.base import Block, Count, Positive


class Footprint(Block):
    """How size and speed are measured."""

    sentences: Count = 256
    """Texts a timed batch run."""
    rounds: Count = 3
    """Times that all models are measured in turn; medians are reported."""
    single: Count = 30
    """Texts that are encoded one at a time in each round, for the latency."""
    threads: Count = 2
    """Threads of every model."""


class Api(Block):
    """How a teacher behind an API is asked; the caps hold for one run of a stage."""

    tokens_per_request: Count = 50_000
    """Most tokens a request, estimated as one for 4 bytes of text; OpenAI takes 300,000."""
    texts_per_request: Count = 32
    """Most texts a request: TEI takes 32 unless told otherwise, OpenAI 2,048."""
    concurrency: Count = 8
    """Requests under way at the same time."""
    timeout_seconds: Positive = 60.0
    """A server that is silent for so long is asked again."""
    retries: Annotated[int, Field(ge=0)] = 6
    """How often a request is tried again after a timeout, a lost connection, HTTP 429, 500, 502, 503, 504."""
    backoff_seconds: Positive = 1.0
    """The wait before the first retry; it doubles every time, up to a minute. A server may ask for more."""
    max_requests: Count | None = None
    """Stop before sending more requests, retries counted; null: no cap."""
    max_tokens: Count | None = None
    """Stop before sending more tokens, as the server bills them where it says so, else estimated; null: no
    cap."""


class Runtime(Block):
    """What changes speed, and results in their last digits at most; no stage tracks it."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    """Where the teacher encodes and students are trained: `auto`, `cpu`, `mps`, `cuda`, `cuda:1`, ...; what
    they cost is always measured on the CPU."""
    tokens_per_batch: Count = 4096
    """Padded tokens that go through a model at a time."""
    cache: str = ".cache"
    """Folder of encoded vectors and of unfinished trainings; ignored by git and DVC."""
    checkpoint_seconds: Annotated[int, Field(ge=1)] = 30
    """Most seconds of training that a kill costs."""
    engine: Literal["local", "ray"] = "local"
    """Where the teacher's workers run: `local`, on this machine; `ray`, on the cluster of RAY_ADDRESS or else
    this machine (`pip install 'ray[data]'`), with the same files at the same paths."""
    workers: Count = 1
    """Processes that encode, each with a teacher of its own: one for each GPU."""
    api: Api = Api()
    """Of a teacher of kind `openai_api`."""
