"""Joining the Ray cluster of RAY_ADDRESS, or starting one on this machine."""

import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pipeline.core.errors import UserError

ANSWER_SECONDS = 25.0
"""Seconds that a cluster has to answer."""
HERE = "local"
CLIENT = "ray://"
CLIENT_PORT = 10001
NO_TOKEN = (
    "wants another token than this machine has, or none is here; set RAY_AUTH_MODE=token, and the cluster's "
    "token in RAY_AUTH_TOKEN, in the file that RAY_AUTH_TOKEN_PATH names or in ~/.ray/auth_token"
)

TOKEN_ASKED = re.compile("AuthenticationError|Token authentication is enabled")


@contextmanager
def connected() -> Iterator[Any]:
    """The module `ray`, connected while the block runs; one that is connected already stays so.

    Raises:
        UserError: Ray is not installed, or the cluster does not answer or wants a token.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UserError("runtime.engine is ray, which is not installed; `pip install ray`") from None
    if ray.is_initialized():
        yield ray
        return
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Without an address Ray would look for a cluster that once ran here, and wait for it.
    address = os.environ.get("RAY_ADDRESS") or HERE
    if address.startswith(CLIENT):
        check_listens(address)
    elif address != HERE:
        check_answers(address)
    refused = getattr(ray.exceptions, "AuthenticationError", ())
    try:
        ray.init(address=address, include_dashboard=False, logging_level=logging.ERROR)
    except refused:
        raise UserError(f"{_named(address)} {NO_TOKEN}") from None
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        raise UserError(f"{_named(address)} cannot be joined ({_last_line(str(error))}); mend that") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def check_listens(address: str) -> None:
    """Fail where nothing listens at an address of Ray's client, ray://HOST:PORT, which Ray would retry.

    Raises:
        UserError: naming RAY_ADDRESS.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or CLIENT_PORT
    except ValueError as error:
        raise UserError(f"RAY_ADDRESS={address} is no ray://HOST:PORT ({error}); mend it") from None
    try:
        socket.create_connection((host, port), ANSWER_SECONDS).close()
    except OSError as error:
        raise UserError(
            f"{_named(address)} does not answer ({error.strerror or error}); start it, or mend or unset "
            "RAY_ADDRESS: without it, Ray runs on this machine"
        ) from None


def check_answers(address: str) -> None:
    """Fail where the cluster at an address, `auto` or HOST:PORT, gives no answer.

    In a process of its own: what waits for an answer cannot be interrupted.

    Raises:
        UserError: naming RAY_ADDRESS.
    """
    where = () if address == "auto" else ("--address", address)
    asking = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--skip-version-check", *where]
    try:
        asked = subprocess.run(asking, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{_named(address)} has not answered for {ANSWER_SECONDS:.0f} s; start it, or mend or unset "
            "RAY_ADDRESS: without it, Ray runs on this machine"
        ) from None
    if TOKEN_ASKED.search(asked.stderr):
        raise UserError(f"{_named(address)} {NO_TOKEN}")
    if asked.returncode:
        raise UserError(
            f"{_named(address)} does not answer ({_last_line(asked.stderr)}); start it, or mend or unset "
            "RAY_ADDRESS: without it, Ray runs on this machine"
        )


def _named(address: str) -> str:
    return "Ray on this machine" if address == HERE else f"the Ray cluster of RAY_ADDRESS={address}"


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it says nothing"
