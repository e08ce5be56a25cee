"""HTTP requests with limits on how long a server may take and on how much it may send."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from threading import Thread

import httpx

from pipeline.params.runtime import Api

MESSAGE_BYTES = 1 << 16
"""The most of a refusal that is read: its beginning says why."""


class TooLarge(Exception):  # noqa: N818 - becomes a UserError that names the server
    """An answer of more bytes than were allowed; the rest was not read."""


@dataclass(frozen=True)
class Answer:
    """What a server said: all of it, or the first `MESSAGE_BYTES` of a refusal."""

    status: int
    phrase: str
    headers: httpx.Headers
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the server did what it was asked."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text; what is not UTF-8 shows as replacement characters."""
        return self.body.decode("utf-8", "replace")


class Connection:
    """Sends requests, from several threads at once.

    The requests run on an event loop, for httpx's own timeouts hold for each read: a server that sends a byte
    now and then never exceeds them.
    """

    def __init__(self, headers: Mapping[str, str], limits: Api) -> None:
        self._answer_seconds = limits.answer_seconds
        self._loop = _loop()
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(limits.timeout_seconds, connect=limits.connect_seconds, pool=None),
            limits=httpx.Limits(max_connections=limits.concurrency),
        )

    def post(self, url: str, body: object, most: int) -> Answer:
        """Post JSON and read the answer, of which `most` bytes are allowed.

        Raises:
            httpx.RequestError: the server is not there, says nothing for too long, or breaks off.
            TimeoutError: it took longer than `runtime.api.answer_seconds` for its whole answer.
            TooLarge: the answer is larger.
        """
        return asyncio.run_coroutine_threadsafe(self._post(url, body, most), self._loop).result()

    async def _post(self, url: str, body: object, most: int) -> Answer:
        async with (
            asyncio.timeout(self._answer_seconds),
            self._client.stream("POST", url, json=body) as response,
        ):
            if not response.is_success:
                most = MESSAGE_BYTES
            read = bytearray()
            async for part in response.aiter_bytes():
                read += part
                if len(read) > most:
                    if response.is_success:
                        raise TooLarge
                    break
            told = bytes(read[:most])
            return Answer(response.status_code, response.reason_phrase, response.headers, told)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of all connections of this process."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="http", daemon=True).start()
    return loop
