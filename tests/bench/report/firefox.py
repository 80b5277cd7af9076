"""A stock headless Firefox, spoken to by Marionette, the protocol below WebDriver: messages of JSON
with their length before them.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.bench.report.browsers import FIREFOX, binary

PREFERENCES = {
    "marionette.port": 0,  # any that is free; the profile then says which
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
}
PATIENCE = 60.0


class Firefox:
    """One window."""

    def __init__(self, profile: Path) -> None:
        profile.mkdir(exist_ok=True)
        lines = (f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFERENCES.items())
        (profile / "user.js").write_text("\n".join(lines))
        command = [binary(FIREFOX), "--headless", "--marionette", "--no-remote"]
        command.append("--remote-allow-system-access")  # to read the console
        self.process = subprocess.Popen(
            [*command, "--profile", str(profile)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.count = 0
        self.socket = self._connect(profile / "MarionetteActivePort")
        self._receive()
        self.call("WebDriver:NewSession")

    def _connect(self, port: Path) -> socket.socket:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if port.exists() and port.read_text():
                return socket.create_connection(("127.0.0.1", int(port.read_text())), PATIENCE)
            time.sleep(0.05)
        self.process.kill()
        raise TimeoutError("Firefox does not answer")

    def __enter__(self) -> Firefox:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()

    def _receive(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            length += self.socket.recv(1)
        left, parts = int(length[:-1]), []
        while left:
            parts.append(self.socket.recv(left))
            left -= len(parts[-1])
        return json.loads(b"".join(parts))

    def call(self, name: str, **params: Any) -> Any:
        """One command and its answer."""
        self.count += 1
        message = json.dumps([0, self.count, name, params]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._receive()
        assert error is None, error
        return result

    def open(self, page: Path, address: str = "") -> None:
        self.call("WebDriver:Navigate", url="about:blank")
        self.call("WebDriver:Navigate", url=page.resolve().as_uri() + address)

    def run(self, script: str) -> Any:
        """The value of an expression."""
        return self.call("WebDriver:ExecuteScript", script=f"return {script}", args=[])["value"]

    def complaints(self) -> list[str]:
        """Errors of pages that the console has."""
        self.call("Marionette:SetContext", value="chrome")
        found: list[str] = self.run(
            "Services.console.getMessageArray().filter(m => m instanceof Ci.nsIScriptError &&"
            " m.sourceName.startsWith('file:') && !(m.flags & m.warningFlag)).map(m => m.message)"
        )
        self.call("Marionette:SetContext", value="content")
        return found
