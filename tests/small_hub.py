"""A hub of one small model, which stalls when told to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub
import huggingface_hub.constants
import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Stall = Callable[["Handler"], None]


def silent(handler: "Handler") -> None:
    """Say nothing."""
    handler.server.closing.wait(20)


def dripping(beginning: bytes) -> Stall:
    """Begin an answer, then send a byte now and then."""

    def stall(handler: "Handler") -> None:
        with suppress(OSError):
            handler.wfile.write(beginning)
            while not handler.server.closing.wait(0.02):
                handler.wfile.write(b"x")

    return stall


class Hub(ThreadingHTTPServer):
    """Gives the files of a folder as owner/tiny, and notes what it is asked for."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {
            path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
        }
        self.asked: list[str] = []
        self.stalls: dict[str, Stall] = {}
        """By a part of the path that is asked for."""
        self.closing = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Hub

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.close_connection = True
        if stall := next((stall for part, stall in self.server.stalls.items() if part in self.path), None):
            stall(self)
        elif "/revision/" in self.path or self.path == "/api/models/owner/tiny":
            self.reply(json.dumps({"id": "owner/tiny", "sha": COMMIT, "siblings": []}).encode())
        elif "/tree/" in self.path:
            rows = [
                {
                    "type": "file",
                    "path": name,
                    "size": path.stat().st_size,
                    "oid": sha1(name.encode()).hexdigest(),
                }
                for name, path in self.server.files.items()
            ]
            self.reply(json.dumps(rows).encode())
        else:
            self.give_file()

    def give_file(self) -> None:
        name = self.path.partition(f"/resolve/{COMMIT}/")[2]
        self.reply(self.server.files[name].read_bytes(), {"ETag": f'"{sha1(name.encode()).hexdigest()}"'})

    def do_HEAD(self) -> None:
        self.do_GET()

    def reply(self, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(200)
        kind = "application/json" if headers is None else "application/octet-stream"
        for name, value in {"Content-Type": kind, "X-Repo-Commit": COMMIT, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextmanager
def small_hub(folder: Path, cache: Path) -> Iterator[Hub]:
    """Let the hub's library ask this one, and keep what it brings in `cache`."""
    with pytest.MonkeyPatch.context() as patch, Hub(folder) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1")
        patch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{running.server_port}")
        template = huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE
        patch.setattr(
            huggingface_hub.constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            huggingface_hub.constants.ENDPOINT + template[template.index("/{repo_id}") :],
        )
        patch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
        patch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        huggingface_hub.close_session()
        yield running
        running.closing.set()
        running.shutdown()
        huggingface_hub.close_session()
