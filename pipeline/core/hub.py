"""Bounds on what the Hugging Face hub may take: its library waits without end for one that says nothing."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    import httpx

SILENT_SECONDS = 10.0
"""Without a connection, or without the next byte."""
ANSWER_SECONDS = 30.0
"""For a first answer as a whole."""
GRACE_SECONDS = 60.0
LEAST_RATE = 1000
"""Bytes a second, on average, after the grace."""
MOST_JSON = 1 << 26
"""Bytes of an answer that is no file; the list of the files of a large repository has some millions."""

Found = TypeVar("Found")


class OutOfReach(Exception):  # noqa: N818 - becomes a UserError that names what was wanted, unless it is cached
    """The hub does not answer, or not in time, or too much."""


def ask(question: Callable[[], Found]) -> Found:
    """The hub's answer to a first question, all of whose limits hold from here on.

    The question is asked on a thread that may be left behind: a hub that sends a byte now and then never
    exceeds the limits on silence.

    Raises:
        OutOfReach: there is no whole answer in time.
        Exception: the question's own.
    """
    bound()
    found: list[Found | BaseException] = []

    def run() -> None:
        try:
            found.append(question())
        except BaseException as error:
            found.append(error)

    asking = Thread(target=run, daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    if not found:
        raise OutOfReach(f"no answer in {ANSWER_SECONDS:g} s")
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


@contextmanager
def offline() -> Iterator[None]:
    """Have the hub's library ask nobody, and take what is cached."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def bound() -> None:
    """Bound how long the requests of the hub's library may hang, and how much they may bring."""
    from huggingface_hub import get_session

    session = get_session()
    hooks = session.event_hooks
    if _limit_silence not in hooks["request"]:
        session.event_hooks = {
            "request": [*hooks["request"], _limit_silence],
            "response": [*hooks["response"], _limit_answer],
        }


def _limit_silence(request: "httpx.Request") -> None:
    """Give a limit to what has none."""
    given = request.extensions.get("timeout", {})
    limits = {name: given.get(name) or SILENT_SECONDS for name in ("connect", "read", "write")}
    request.extensions["timeout"] = {"pool": None, **limits}


def _limit_answer(response: "httpx.Response") -> None:
    """Have the body counted while it is read."""
    is_file = "json" not in response.headers.get("content-type", "")
    response.stream = _counted(response.stream, str(response.url), None if is_file else MOST_JSON)


def _counted(body: object, url: str, most: int | None) -> "httpx.SyncByteStream":
    import httpx

    stream = cast("httpx.SyncByteStream", body)

    class Counted(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            began, read = time.monotonic(), 0
            for part in stream:
                yield part
                read += len(part)
                took = time.monotonic() - began
                if took > GRACE_SECONDS and read < LEAST_RATE * took:
                    raise OutOfReach(f"{url} sends {read:,} bytes in {took:.1f} s")
                if most is not None and read > most:
                    raise OutOfReach(f"{url} sends more than {most:,} bytes")

        def close(self) -> None:
            stream.close()

    return Counted()
