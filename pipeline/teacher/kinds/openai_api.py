"""A teacher behind an OpenAI-compatible `/v1/embeddings` endpoint: vLLM, TEI, OpenAI, Cohere and others."""

from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import Unfinished, UserError
from pipeline.core.progress import say
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.params.base import ROLES, Role
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import OpenAiApiTeacher, Similarity
from pipeline.teacher.shared import halves
from pipeline.teacher.shared.borrowed_parts import borrowed_facts, save_borrowed
from pipeline.teacher.shared.endpoint import BEGINNING, Endpoint, Stopped, estimate_tokens
from pipeline.teacher.shared.local.unweighted import Reading
from pipeline.teacher.shared.local.vocabulary import Vocabulary

RECIPE_VERSION = 1
VIEW = "sentence"
EMPTY = " "
"""Sent for an empty text, which many servers reject."""
SHARED_TOKENS = 256
"""Requests are not made smaller than that to have more of them under way."""


def load(params: OpenAiApiTeacher, runtime: Runtime) -> "OpenAiApi":
    """The teacher behind the endpoint of these params; nothing is asked for yet."""
    return OpenAiApi(params, runtime)


def look(params: OpenAiApiTeacher) -> TeacherFacts:
    """The facts of `teacher.parts`; the endpoint is not asked.

    Raises:
        UserError: the local model is missing, or students cannot start from it.
    """
    return borrowed_facts(params, {VIEW: params.dimensions} if params.dimensions else {})


def reading(params: OpenAiApiTeacher) -> Reading:
    """An API says neither how it tokenises nor where it cuts."""
    return Reading(None, None, max((params.prompts.given(role) or "" for role in ROLES), key=len))


class OpenAiApi:
    """Vectors by length-sorted requests, several at a time; students start from a local model's parts."""

    similarity: Similarity = "cosine"
    module = None
    folders = ()

    def __init__(self, params: OpenAiApiTeacher, runtime: Runtime) -> None:
        self.params = params
        recipe = {
            "version": RECIPE_VERSION,
            "kind": params.kind,
            "url": params.url.rstrip("/"),
            "model": params.model,
            "dimensions": params.dimensions,
        }
        self.recipes: dict[str, dict[str, Any]] = {
            role: {**recipe, "prompt": params.prompts.given(role) or ""} for role in ROLES
        }
        self._runtime = runtime

    @cached_property
    def dims(self) -> dict[str, int]:
        """The only view's dimension: `teacher.dimensions`, or what one request gives."""
        return {VIEW: self.params.dimensions or self.endpoint.embed(["dimension"], Event()).shape[1]}

    @cached_property
    def endpoint(self) -> Endpoint:
        """The server; made when it is needed, so that `teacher_parts` runs without a key."""
        return Endpoint(self.params, self._runtime.api)

    def encode(
        self, texts: Sequence[str], views: Sequence[str], role: Role = "text"
    ) -> dict[str, NDArray[np.float32]]:
        """Vectors (n, d) of the view `sentence`, in the order of the texts.

        Raises:
            UserError: another view is asked for.
            Unfinished: a request failed for good, or a cap is reached; it holds what the others gave.
        """
        if others := [view for view in views if view != VIEW]:
            raise UserError(f"encode.views has {others[0]!r}; an API gives `{VIEW}` alone")
        limits = self._runtime.api
        inputs, batches = self._plan(texts, role)
        found = np.empty((len(texts), self.dims[VIEW]), np.float32)
        stop = Event()
        with ThreadPoolExecutor(limits.concurrency) as pool:
            # The endpoint is made by this thread: it counts for all of them.
            ask = partial(self._request, self.endpoint, stop)
            requests = [
                pool.submit(ask, [inputs[row] for row in batch], [texts[row] for row in batch])
                for batch in batches
            ]
            try:
                wait(requests, return_when=FIRST_EXCEPTION)
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)
        done = np.zeros(len(texts), dtype=bool)
        for batch, request in zip(batches, requests, strict=True):
            if request.cancelled():
                continue
            error = request.exception()
            if error is None:
                found[batch] = request.result()
                done[batch] = True
            elif isinstance(error, Unfinished) and error.vectors:
                part = error.vectors[VIEW]
                if part.shape[1] == found.shape[1]:
                    found[batch[error.rows]] = part
                    done[batch[error.rows]] = True
        fault = "" if done.all() else _fault(requests)
        with np.errstate(over="ignore"):
            large = done & ~np.isfinite(found.astype(np.float16)).all(axis=1)
        if large.any():
            first, most = texts[int(large.argmax())][:BEGINNING], np.finfo(np.float16).max
            fault = fault or (
                f"{self.params.url}: values beyond {most:,.0f}, which float16 cannot hold, for {large.sum()} "
                f"texts, the first of which begins {first!r}; remove these texts"
            )
        if fault:
            rows = np.flatnonzero(done & ~large)
            raise Unfinished(fault, rows, {VIEW: found[rows]})
        return dict.fromkeys(views, found)

    def cut(self, _texts: Sequence[str], _role: Role = "text") -> None:
        """An API does not say where it cuts."""

    def save_parts(self, folder: Path) -> Vocabulary:
        """The parts of the local model `teacher.parts`, as the transformer teacher saves them."""
        return save_borrowed(self.params, folder, self._runtime)

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """The `sentence` vectors: an API has one way to be called."""
        return self.encode(texts, [VIEW])

    def _request(
        self, endpoint: Endpoint, stop: Event, inputs: Sequence[str], texts: Sequence[str]
    ) -> NDArray[np.float32]:
        """The vectors (n, d) of one request; `stop` is set if it fails."""
        try:
            return self._checked(halves.embed(endpoint, inputs, texts, VIEW, stop))
        except BaseException:
            stop.set()
            raise

    def _checked(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        if vectors.shape[1] == self.dims[VIEW]:
            return vectors
        asked = "as teacher.dimensions asks for" if self.params.dimensions else "as in its first answer"
        raise UserError(
            f"{self.params.url}: vectors of {vectors.shape[1]} dimensions, not {self.dims[VIEW]} {asked}"
        )

    def announce(self, pieces: Iterable[tuple[Sequence[str], Role]]) -> None:
        """Say how much is going to be asked for, of which each piece of texts in one call, before it is."""
        texts = requests = tokens = 0
        for piece, role in pieces:
            inputs, batches = self._plan(piece, role)
            texts += len(piece)
            requests += len(batches)
            tokens += sum(map(estimate_tokens, inputs))
        say(
            f"{self.params.model} at {self.params.url}: {texts:,} texts take about {requests:,} "
            f"requests and {tokens:,} tokens"
        )

    def _plan(self, texts: Sequence[str], role: Role) -> tuple[list[str], list[NDArray[np.int_]]]:
        """What is sent for each text, and its rows by request: enough requests to be under way together."""
        limits = self._runtime.api
        inputs = [self.recipes[role]["prompt"] + text or EMPTY for text in texts]
        tokens = np.array([estimate_tokens(text) for text in inputs], np.int64)
        most = limits.tokens_per_request, limits.texts_per_request
        batches = request_batches(tokens, *most)
        wanted = min(limits.concurrency, int(tokens.sum()) // SHARED_TOKENS)
        return inputs, batches if len(batches) >= wanted else request_batches(tokens, *most, shares=wanted)


def request_batches(
    tokens: NDArray[np.int64], most_tokens: int, most_texts: int, shares: int = 1
) -> list[NDArray[np.int64]]:
    """Row numbers by request, longest text first.

    A request takes so many tokens (one text at least) and texts at most, and texts of one of so many equal
    shares of all tokens.
    """
    order = np.argsort(-tokens, kind="stable")
    before = np.cumsum(tokens[order]) - tokens[order]
    batches: list[list[int]] = []
    room, last = 0, -1
    for row, share in zip(order, before * shares // max(1, tokens.sum()), strict=True):
        if tokens[row] > room or len(batches[-1]) == most_texts or share > last:
            batches.append([])
            room, last = most_tokens, share
        batches[-1].append(row)
        room -= tokens[row]
    return [np.array(batch) for batch in batches]


def _fault(requests: Sequence[Future[NDArray[np.float32]]]) -> str:
    """Why the first request failed that failed by itself.

    Raises:
        Exception: it is no user's mistake.
    """
    failed = (request.exception() for request in requests if not request.cancelled())
    error = next(error for error in failed if error is not None and not isinstance(error, Stopped))
    if not isinstance(error, UserError):
        raise error
    return str(error)
