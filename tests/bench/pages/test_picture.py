"""The README's picture: the first screen of a page, small enough to load at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from repfl.bench.errors import UserError
from repfl.bench.pages import picture
from tests.bench.report import browsers


def test_the_first_screen_of_a_page_is_drawn(tmp_path: Path) -> None:
    browsers.binary(browsers.CHROMIUM)
    page = tmp_path / "index.html"
    page.write_text("<body style='margin:0;background:#0000ff'></body>")
    picture.draw(page, tmp_path / "shot.png")
    with Image.open(tmp_path / "shot.png") as taken:
        assert taken.size == picture.SCREEN
        assert taken.convert("RGB").getpixel((600, 450)) == (0, 0, 255)


def test_the_picture_that_came_with_the_code_is_of_that_size_and_light() -> None:
    assert picture.FIGURE.stat().st_size < 200_000
    with Image.open(picture.FIGURE) as taken:
        assert taken.size == picture.SCREEN


def test_without_a_report_one_line_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no page .*; `repfl report` writes"):
        picture.draw(tmp_path / "index.html", tmp_path / "shot.png")
