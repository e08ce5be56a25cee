"""An OpenAI-compatible `/v1/embeddings` endpoint: requests with retries, caps, and checked answers."""

import html
import os
import random
import re
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from threading import Event, Lock
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from pipeline.core import json_text
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.params.runtime import Api
from pipeline.params.teacher import OpenAiApiTeacher
from pipeline.teacher.shared.answers import Malformed, most_bytes, read_vectors
from pipeline.teacher.shared.connection import Answer, Connection, TooLarge

RETRIED = (408, 409, 425, 429)
"""And all from 500 but those of a server that lacks what is asked of it."""
LACKING = (501, 505)
TOO_LARGE = (400, 413, 422)
"""What servers say of a text that is longer than their model takes, among other things."""
OF_A_TEXT = (400, 422)
"""What they say of a text that they cannot do, beside errors of their own."""
BEGINNING = 40
"""Characters of such a text that are shown."""
TELLING = ("error", "message", "detail")
"""Where servers say what is wrong, from the outside in."""
LONGEST_BACKOFF = 60.0
"""Seconds; a server's Retry-After may be longer."""
LONGEST_WAIT = 3600.0
TOLD = 300
"""Characters of a server's message that are shown."""
LATER = "run again to go on"
OPEN_KEY = "the key in {} goes to {} unencrypted"
BYTES_PER_TOKEN = 4
KEY = re.compile(r"[!#-\[\]-~]+")
"""What a header carries and JSON does not escape, so that a key can be found in an answer."""
HINTS = {
    401: "check the key and teacher.key_variable",
    403: "check the key and teacher.key_variable",
    404: "check teacher.url and teacher.model",
    413: "lower runtime.api.texts_per_request or tokens_per_request",
}


class Rejected(UserError):  # noqa: N818 - other texts may be done
    """An answer that may be due to one of the request's texts."""

    def __init__(self, message: str, fault: str, status: int | None) -> None:
        super().__init__(message)
        self.fault = fault
        """What was wrong, without what to do about it."""
        self.status = status
        """None: success, but no vectors."""


class Stopped(Exception):  # noqa: N818 - nothing is wrong with this request
    """Another request failed, so that this one is not tried again."""


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
        # No encoding_format: lists of numbers are the default, and some servers refuse to be told.
        self._body: dict[str, Any] = {"model": teacher.model}
        if teacher.dimensions:
            self._body["dimensions"] = teacher.dimensions
        self._key = _key(teacher.key_variable)
        self._limits = limits
        self._lock = Lock()
        self._told: set[str] = set()
        secret = self._key.get_secret_value()
        if secret and teacher.sends_openly:
            say(f"teacher.url: {OPEN_KEY.format(teacher.key_variable, teacher.url)}; use https")
        self._connection = Connection({"Authorization": f"Bearer {secret}"} if secret else {}, limits)

    def embed(self, texts: Sequence[str], stop: Event, retries: int | None = None) -> NDArray[np.float32]:
        """Vectors (n, d) in the order of the texts, after so many retries; None: `runtime.api.retries`.

        Raises:
            UserError: the server refuses, keeps failing or answers nonsense, or a cap is reached.
            Rejected: so, and it may be due to one of the texts.
            Stopped: `stop` was set before the request came through.
        """
        estimate = sum(map(estimate_tokens, texts))
        retries = self._limits.retries if retries is None else retries
        silent, status = 0.0, 0
        for attempt in range(retries + 1):
            if stop.is_set():
                raise Stopped
            self._spend(estimate)
            began, asked = time.monotonic(), 0.0
            answer = self._ask(texts)
            if isinstance(answer, str):
                status, fault, silent = 0, answer, silent + time.monotonic() - began
                if silent >= self._limits.give_up_seconds:
                    raise self._error(f"{fault}, and no answer for {silent:.1f} s; {LATER}")
            elif answer.is_success:
                return self._vectors(answer, len(texts), estimate)
            else:
                status, fault, asked = answer.status, self._refusal(answer, texts, estimate), _wait(answer)
            if attempt < retries:
                self._pause(attempt, asked, fault, stop)
        told = f"{fault}, after {retries} retries"
        raise self._rejected(told, LATER, status) if status >= 500 else self._error(f"{told}; {LATER}")

    def _ask(self, texts: Sequence[str]) -> Answer | str:
        """The server's answer, or how it failed to give one."""
        most = most_bytes(len(texts), self._body.get("dimensions"))
        try:
            return self._connection.post(self._url, {**self._body, "input": list(texts)}, most)
        except TooLarge:
            raise self._error(
                f"the answer exceeds {most:,} bytes, more than the vectors of {len(texts)} texts can take; "
                "check teacher.url and teacher.model"
            ) from None
        except TimeoutError:
            return f"SlowAnswer (not whole after {self._limits.answer_seconds:g} s)"
        except httpx.InvalidURL as error:
            raise self._error(f"teacher.url: {error}") from None
        except httpx.RequestError as error:
            return f"{type(error).__name__} ({self._clean(str(error))})"

    def _refusal(self, answer: Answer, texts: Sequence[str], estimate: int) -> str:
        """What a server said that may do better later.

        Raises:
            UserError: it will not.
        """
        if answer.status < 500:  # what a gateway lost may have been computed, and is billed
            self._refund(estimate)
        fault = f"HTTP {answer.status} ({self._message(answer)})"
        if _may_pass(answer.status):
            return fault
        hints = "; ".join(filter(None, [HINTS.get(answer.status), longest(answer.status, texts)]))
        if answer.status in OF_A_TEXT:
            raise self._rejected(fault, hints, answer.status)
        raise self._error(f"{fault}; {hints}" if hints else fault)

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
        self.say_once(fault.partition(" (")[0], f"{self._url}: {fault}; trying again in {seconds:.1f} s")
        stop.wait(seconds)

    def say_once(self, kind: str, message: str) -> None:
        """Say a message, the first of its kind."""
        with self._lock:
            if kind not in self._told:
                self._told.add(kind)
                say(f"{message} (said once)")

    def _vectors(self, response: Answer, count: int, estimate: int) -> NDArray[np.float32]:
        try:
            answer = json_text.parse(response.body)
            found = read_vectors(answer, count)
        except ValueError:
            raise self._error(f"expected JSON, the answer is: {self._message(response)}") from None
        except Malformed as error:
            tells = isinstance(answer, dict) and any(place in answer for place in TELLING)
            told = f"{error}: {self._message(response)}" if tells else str(error)
            raise self._rejected(told, "", None) from None
        usage = answer.get("usage") if isinstance(answer, dict) else None
        billed = usage.get("total_tokens") if isinstance(usage, dict) else None
        if isinstance(billed, int) and billed > 0:
            with self._lock:
                self.tokens += billed - estimate
        return found

    def _message(self, response: Answer) -> str:
        """What the server says, from the places where servers say it."""
        try:
            said = json_text.parse(response.body)
        except ValueError:
            said = response.headers.get("location") or response.text
        for place in TELLING:
            said = (said.get(place) or said) if isinstance(said, dict) else said
        return self._clean(str(said))[:TOLD] or response.phrase

    def _error(self, message: str) -> UserError:
        """An error that names the server, and not the key."""
        return UserError(f"{self._url}: {self._clean(message)}")

    def _rejected(self, fault: str, hint: str, status: int | None) -> Rejected:
        told = str(self._error(fault))
        return Rejected(f"{told}; {hint}" if hint else told, told, status)

    def _clean(self, said: str) -> str:
        """One line without the key, however the server has written it."""
        line = " ".join(said.split())
        key = self._key.get_secret_value()
        escaped = (key, key.replace("/", "\\/"), quote(key), quote(key, safe=""), html.escape(key))
        for spelling in filter(None, escaped):
            line = line.replace(spelling, "***")
        return line


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


def longest(status: int, texts: Sequence[str]) -> str:
    """The text that a server may have found too long."""
    if status not in TOO_LARGE:
        return ""
    text = max(texts, key=len)
    return f"its longest text has {len(text):,} characters and begins {text[:BEGINNING]!r}"


def _wait(response: Answer) -> float:
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
