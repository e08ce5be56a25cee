"""A `/v1/embeddings` server over the hashing teacher, which misbehaves when told to."""

import json
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pipeline.params.teacher import HashingTeacher
from pipeline.teacher.kinds.hashing import Hashing

Answer = dict[str, Any]
Fault = Callable[["Handler"], None]


def vectors(texts, dim=8):
    """What the server gives for these texts, (n, dim)."""
    return Hashing(HashingTeacher(kind="hashing", dim=dim)).encode(texts, ["sentence"])["sentence"]


def refuse(status: int, body: str = "", **headers: str) -> Fault:
    """Answer with this status."""
    return lambda handler: handler.reply(status, body, {k.replace("_", "-"): v for k, v in headers.items()})


def change(edit: Callable[[Answer], object]) -> Fault:
    """Answer well, but for an edit of the answer."""

    def fault(handler: "Handler") -> None:
        answer = handler.answer()
        edit(answer)
        handler.reply(200, json.dumps(answer))

    return fault


def close(handler: "Handler") -> None:
    """Say nothing and close the connection."""
    handler.close_connection = True


def hang(handler: "Handler") -> None:
    """Say nothing until the server is closed."""
    handler.server.closing.wait(10)
    handler.close_connection = True


def drip(beginning: bytes) -> Fault:
    """Begin an answer, then send a byte now and then until the server or the connection is closed."""

    def fault(handler: "Handler") -> None:
        handler.close_connection = True
        with suppress(OSError):
            handler.wfile.write(beginning)
            while not handler.server.closing.wait(0.02):
                handler.wfile.write(b"x")

    return fault


def flood(status: int) -> Fault:
    """Answer with a body without an end; `server.flooded` counts what of it was taken."""

    def fault(handler: "Handler") -> None:
        handler.close_connection = True
        handler.send_response(status)
        handler.end_headers()
        with suppress(OSError):
            while not handler.server.closing.is_set():
                handler.server.flooded += handler.wfile.write(b" " * 65_536)

    return fault


class Server(ThreadingHTTPServer):
    """Counts on `faults` first, one a request, then on those of single texts; keeps all that it is asked."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.faults: deque[Fault] = deque()
        self.of_texts: dict[str, Fault] = {}
        self.headers: list[dict[str, str]] = []
        self.bodies: list[Answer] = []
        self.closing = threading.Event()
        self.flooded = 0
        self.dim = 8

    @property
    def texts(self) -> list[str]:
        """All that was ever asked for."""
        return [text for body in self.bodies for text in body["input"]]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert self.path == "/v1/embeddings"
        self.server.headers.append(dict(self.headers))
        self.server.bodies.append(self.body)
        bad = (self.server.of_texts[text] for text in self.body["input"] if text in self.server.of_texts)
        try:
            fault = self.server.faults.popleft()
        except IndexError:
            fault = next(bad, change(lambda _: None))
        fault(self)

    def answer(self) -> Answer:
        found = vectors(self.body["input"], self.body.get("dimensions", self.server.dim)).tolist()
        data = [{"index": i, "object": "embedding", "embedding": row} for i, row in enumerate(found)]
        return {"object": "list", "data": data, "usage": {}}

    def reply(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        content = body.encode()
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""
