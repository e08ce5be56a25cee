"""An OpenAI-compatible `/v1/embeddings` endpoint: requests with retries, caps, and checked answers."""

import os
import random
import re
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from threading import Event, Lock
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.params.runtime import Api
from pipeline.params.teacher import OpenAiApiTeacher

RETRIED = (408, 409, 425, 429)
"""And all from 500 but those of a server that lacks what is asked of it."""
LACKING = (501, 505)
TOO_LARGE = (400, 413, 422)
"""What servers say of a text that is longer than their model takes, among other things."""
BEGINNING = 40
"""Characters of such a text that are shown."""
LONGEST_BACKOFF = 60.0
"""Seconds; a server's Retry-After may be longer."""
LONGEST_WAIT = 3600.0
TOLD = 300
"""Characters of a server's message that are shown."""
BYTES_PER_TOKEN = 4
KEY = re.compile(r"[!#-\[\]-~]+")
"""What a header carries and JSON does not escape, so that a key can be found in an answer."""
HINTS = {
    401: "check the key and teacher.key_variable",
    403: "check the key and teacher.key_variable",
    404: "check teacher.url and teacher.model",
    413: "lower runtime.api.texts_per_request or tokens_per_request",
}


class Stopped(Exception):  # noqa: N818 - nothing is wrong with this request
    """Another request failed, so that this one is not tried again."""


class Malformed(Exception):  # noqa: N818 - becomes a UserError that names the server
    """An answer that is none."""


def estimate_tokens(text: str) -> int:
    """About as many tokens as a text has: one for 4 bytes of UTF-8."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN) or 1


class Endpoint:
    """Asks for vectors, from several threads at once; counts what it sends."""

    def __init__(self, teacher: OpenAiApiTeacher, limits: Api) -> None:
        self.requests = 0
        self.tokens = 0
        """Estimated, and corrected by what the server says it has billed."""
        self._url = f"{teacher.url.rstrip('/')}/embeddings"
        self._body: dict[str, Any] = {"model": teacher.model, "encoding_format": "float"}
        if teacher.dimensions:
            self._body["dimensions"] = teacher.dimensions
        self._key = _key(teacher.key_variable)
        self._limits = limits
        self._lock = Lock()
        self._told: set[str] = set()
        secret = self._key.get_secret_value()
        connections = httpx.Limits(max_connections=limits.concurrency)
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {secret}"} if secret else {},
            timeout=limits.timeout_seconds,
            limits=connections,
        )

    def embed(self, texts: Sequence[str], stop: Event) -> NDArray[np.float32]:
        """Vectors (n, d) in the order of the texts.

        Raises:
            UserError: the server refuses, keeps failing or answers nonsense, or a cap is reached.
            Stopped: `stop` was set before the request came through.
        """
        estimate = sum(map(estimate_tokens, texts))
        fault = ""
        for attempt in range(self._limits.retries + 1):
            if stop.is_set():
                raise Stopped
            self._spend(estimate)
            try:
                response = self._client.post(self._url, json={**self._body, "input": list(texts)})
            except httpx.InvalidURL as error:
                raise UserError(f"teacher.url: {self._url}: {error}") from None
            except httpx.RequestError as error:
                fault, asked = f"{type(error).__name__} ({self._clean(str(error))})", 0.0
            else:
                if response.is_success:
                    return self._vectors(response, len(texts), estimate)
                if response.status_code < 500:  # what a gateway lost may have been computed, and is billed
                    self._refund(estimate)
                fault, asked = f"HTTP {response.status_code} ({self._message(response)})", _wait(response)
                if not _may_pass(response.status_code):
                    hints = [HINTS.get(response.status_code, ""), _longest(response.status_code, texts)]
                    raise UserError("; ".join([f"{self._url}: {fault}", *filter(None, hints)]))
            if attempt < self._limits.retries:
                self._pause(attempt, asked, fault, stop)
        raise UserError(f"{self._url}: {fault}, after {self._limits.retries} retries; run again to go on")

    def _spend(self, tokens: int) -> None:
        """Count a request, unless it exceeds a cap."""
        limits = self._limits
        with self._lock:
            for name, total, cap in (
                ("max_requests", self.requests + 1, limits.max_requests),
                ("max_tokens", self.tokens + tokens, limits.max_tokens),
            ):
                if cap is not None and total > cap:
                    raise UserError(
                        f"runtime.api.{name} is {cap:,}: {self.requests:,} requests of about {self.tokens:,} "
                        f"tokens are made, and the next (about {tokens:,}) would exceed it; finished work is "
                        "kept, so raise it or run again to go on"
                    )
            self.requests += 1
            self.tokens += tokens

    def _refund(self, tokens: int) -> None:
        """Tokens that were not billed, for the server refused them."""
        with self._lock:
            self.tokens -= tokens

    def _pause(self, attempt: int, asked: float, fault: str, stop: Event) -> None:
        """Wait as long as the server asked for, or twice as long as before, and not all threads alike."""
        backoff = min(self._limits.backoff_seconds * 2**attempt, LONGEST_BACKOFF)
        seconds = max(asked, backoff * random.uniform(0.5, 1))
        with self._lock:
            kind = fault.partition(" (")[0]
            if kind not in self._told:
                self._told.add(kind)
                say(f"{self._url}: {fault}; trying again in {seconds:.1f} s (said once)")
        stop.wait(seconds)

    def _vectors(self, response: httpx.Response, count: int, estimate: int) -> NDArray[np.float32]:
        try:
            answer = response.json()
            found = read_vectors(answer, count)
        except (ValueError, RecursionError):
            said = self._message(response)
            raise UserError(f"{self._url}: expected JSON, the answer is: {said}") from None
        except Malformed as error:
            raise UserError(f"{self._url}: {error}") from None
        usage = answer.get("usage")
        billed = usage.get("total_tokens") if isinstance(usage, dict) else None
        if isinstance(billed, int) and billed > 0:
            with self._lock:
                self.tokens += billed - estimate
        return found

    def _message(self, response: httpx.Response) -> str:
        """What the server says, from the places where servers say it."""
        try:
            said = response.json()
        except (ValueError, RecursionError):
            said = response.headers.get("location") or response.text
        for place in ("error", "message", "detail"):
            said = (said.get(place) or said) if isinstance(said, dict) else said
        return self._clean(str(said)) or response.reason_phrase

    def _clean(self, said: str) -> str:
        """One line without the key."""
        key = self._key.get_secret_value()
        line = " ".join(said.split())
        return (line.replace(key, "***") if key else line)[:TOLD]


def read_vectors(answer: object, count: int) -> NDArray[np.float32]:
    """The vectors (count, d) of an answer, by their `index`.

    Raises:
        Malformed: saying what is wrong.
    """
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise Malformed("the answer has no list `data` of objects")
    if len(data) != count:
        raise Malformed(f"{len(data)} vectors for {count} texts")
    places = [item.get("index") for item in data]
    if not all(isinstance(place, int) for place in places) or sorted(places) != list(range(count)):
        raise Malformed(f"`index` should run from 0 to {count - 1}, not {places[:10]}")
    rows = [item.get("embedding") for item in sorted(data, key=lambda item: item["index"])]
    if not all(isinstance(row, list) and row for row in rows):
        raise Malformed("`embedding` is no list of numbers")
    if len(dims := {len(row) for row in rows}) > 1:
        raise Malformed(f"vectors of {sorted(dims)} dimensions in one answer")
    try:
        with np.errstate(over="ignore"):
            vectors = np.array(rows, np.float64).astype(np.float32)
    except (TypeError, ValueError, OverflowError):
        raise Malformed("`embedding` is no list of numbers") from None
    if not np.isfinite(vectors).all():
        raise Malformed(f"NaN or infinite values in {(~np.isfinite(vectors)).any(axis=1).sum()} vectors")
    return vectors


def _key(variable: str | None) -> SecretStr:
    """The key, which is nowhere but here and in the requests; empty where none is needed."""
    if variable is None:
        return SecretStr("")
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(f"teacher.key_variable: {variable} is not set; `export {variable}=...`")
    if not KEY.fullmatch(key):
        raise UserError(
            f"teacher.key_variable: {variable} holds characters that no key has (a space, a quote)"
        )
    return SecretStr(key)


def _may_pass(status: int) -> bool:
    """Whether a request that was answered so is tried again."""
    return status in RETRIED or (status >= 500 and status not in LACKING)


def _longest(status: int, texts: Sequence[str]) -> str:
    """The text that a server may have found too long."""
    if status not in TOO_LARGE:
        return ""
    text = max(texts, key=len)
    return f"its longest text has {len(text):,} characters and begins {text[:BEGINNING]!r}"


def _wait(response: httpx.Response) -> float:
    """Seconds that Retry-After asks for, at most an hour; 0 where it does not say."""
    said = response.headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(max(0.0, seconds), LONGEST_WAIT)
