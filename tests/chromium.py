"""Chromium without window and network, driven over its debugging pipe (Chrome DevTools Protocol)."""

import fcntl
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    *"--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync".split(),
    *"--disable-background-networking --disable-component-update".split(),
    *"--hide-scrollbars --remote-debugging-pipe".split(),
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
PATIENCE = 120
KEYS = {
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    " ": {"code": "Space", "windowsVirtualKeyCode": 32, "text": " "},
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
}


class Browser:
    """One process; pages are opened in it."""

    def __init__(self, profile: Path) -> None:
        assert EXECUTABLE is not None
        orders, self._orders = _pipe()
        self._answers, answers = _pipe()
        plumbing = f'exec "$@" 3<&{orders} 4>&{answers}'  # the protocol's two descriptors
        command = ["bash", "-c", plumbing, "chromium", EXECUTABLE, *FLAGS, f"--user-data-dir={profile}"]
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=(orders, answers), **silent)
        os.close(orders)
        os.close(answers)
        self._buffer = b""
        self._sent = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: object) -> dict[str, Any]:
        """Send an order and wait for its answer."""
        self._sent += 1
        order = {"id": self._sent, "method": method, "params": params}
        order |= {"sessionId": session} if session else {}
        os.write(self._orders, json.dumps(order).encode() + b"\0")
        while (message := self._receive()).get("id") != self._sent:
            self.events.append(message)
        assert "error" not in message, (method, message)
        return message["result"]

    def wait(self, session: str, method: str) -> None:
        """Wait for an event of a page."""
        while not any(e.get("sessionId") == session and e["method"] == method for e in self.events):
            self.events.append(self._receive())

    def close(self) -> None:
        """End the process."""
        self.call("Browser.close")
        self._process.wait(PATIENCE)
        os.close(self._orders)
        os.close(self._answers)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._answers], [], [], PATIENCE)[0], "Chromium does not answer"
            read = os.read(self._answers, 1 << 20)
            assert read, "Chromium has ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


class Page:
    """A page of a width in pixels, in a colour scheme."""

    def __init__(
        self, browser: Browser, path: Path, width: int = 1440, scheme: str = "light", scripts: bool = True
    ) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **shape)
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._call("Page.navigate", url=path.as_uri())
        browser.wait(self._session, "Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, **KEYS[key])

    def faults(self) -> list[str]:
        """What the page threw or wrote on the console, and what it asked for beside itself."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            params = event["params"]
            asked = params.get("request", {}).get("url", "")
            if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append(json.dumps(params))
            if event["method"] == "Network.requestWillBeSent" and params["type"] != "Document":
                found += [] if asked.startswith("data:") else [asked]
        return found

    def _call(self, method: str, **params: object) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)


def _pipe() -> tuple[int, int]:
    """Ends with numbers above those that the protocol uses."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]
