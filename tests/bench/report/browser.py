"""A headless Chromium, spoken to over its debugging pipe: enough to open a page, run scripts in it
and hear its complaints.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

BINARY = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
        if (path := shutil.which(name))
    ),
    None,
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Browser:
    """One page. `complaints` collects errors and warnings of its console, `requests` every address
    it asked for.
    """

    def __init__(self, profile: Path) -> None:
        assert BINARY is not None
        to_child, self.out = os.pipe()
        self.inp, from_child = os.pipe()
        high = [
            os.dup(to_child),
            os.dup(from_child),
        ]  # never 3 or 4 themselves, which Chromium reads and writes

        def place() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [BINARY, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            command,
            preexec_fn=place,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_child, from_child, *high):
            os.close(end)
        self.buffer, self.count = b"", 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank", session=None)["targetId"]
        self.session = self.call(
            "Target.attachToTarget", targetId=target, flatten=True, session=None
        )["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inp)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            part = os.read(self.inp, 1 << 16)
            assert part, "the browser ended"
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        self._note(found)
        return found

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method: str, *, session: str | None = "", **params: Any) -> dict[str, Any]:
        """One command and its answer."""
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.count:
                assert "error" not in answer, answer["error"]
                found: dict[str, Any] = answer["result"]
                return found

    def open(self, page: Path) -> None:
        """Go to a file and wait until it is loaded."""
        self.call("Page.navigate", url=page.resolve().as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """The window's size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def run(self, script: str) -> Any:
        """The value of an expression, awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """One key stroke."""
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
                **(text if kind == "keyDown" else {}),
            )

    def picture(self, path: Path) -> None:
        """What is on the screen."""
        import base64

        path.write_bytes(
            base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        )
