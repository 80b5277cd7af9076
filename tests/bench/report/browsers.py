"""The Chromium of this machine. Its absence fails in CI and skips elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
REQUIRED = os.environ.get("REPFL_BROWSERS") == "required"


def absent(why: str) -> None:
    """Skip, or fail where browsers are required."""
    if REQUIRED:
        pytest.fail(f"{why}, and REPFL_BROWSERS=required")
    pytest.skip(why)


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless Chromium, driven by Playwright."""
    if find_spec("playwright") is None:
        absent("no Playwright in this environment")
    from playwright.sync_api import sync_playwright

    binary = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if binary is None:
        absent("no Chromium on this machine")
    with sync_playwright() as driver:
        how: Any = {"executable_path": binary, "args": ["--no-sandbox"]}
        browser = driver.chromium.launch(timeout=1000 * PATIENCE, **how)
        yield browser
        browser.close()


def new_page(browser: Any, **how: Any) -> Any:
    """A page that waits for a busy machine."""
    page = browser.new_page(**how)
    page.set_default_timeout(1000 * PATIENCE)
    return page


class Watched:
    """A page with everything that it complained of, and every address that it asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning", "assert"):
            self.complaints.append(text)

    def open(self, path: Path, address: str = "") -> Page:
        self.page.goto("about:blank")  # else a new address within a page would load nothing
        self.page.goto(path.resolve().as_uri() + address)
        return self.page

    @property
    def outside(self) -> list[str]:
        """Requests for anything but files and what is written into the page."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "about:"))]


def axe() -> str:
    """The source of axe, which looks for what people with other senses would stumble over."""
    if find_spec("axe_core_python") is None:
        absent("no axe in this environment")
    import axe_core_python

    return next(Path(axe_core_python.__path__[0]).rglob("axe.min.js")).read_text("utf-8")
