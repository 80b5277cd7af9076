"""What pages show is read back in a browser, computed colours as well, and compared with the frame
that it was made from: `numbers.csv`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from repfl.bench.report.artefact_data import Book
from tests.bench.report.browsers import chromium

STATES = {"not comparable": "reduced", "not measured": "missing"}
"""Classes of verdicts that are no words of their own."""
HUES = {"reproduced": "green", "differs": "red", "undecided": "blue"}
CELLS = """cells => cells.filter(each => each.querySelector('a.ours')).map(each => ({
    id: each.querySelector('a.ours').getAttribute('href').slice(1),
    state: each.className.split(' ')[0],
    ours: each.querySelector('a.ours').innerText,
    seeds: (each.querySelector('.seeds') || {}).innerText || '',
    gap: (each.querySelector('.gap') || {}).innerText || '',
    printed: (each.querySelector('.pub') || {}).innerText || '',
    colour: getComputedStyle(each).backgroundColor,
}))"""
DOTS = """dots => dots.map(each => ({
    link: each.getAttribute('href'),
    state: [...each.classList].find(name => name !== 'dot'),
    colour: getComputedStyle(each).backgroundColor,
    edge: getComputedStyle(each).borderTopColor,
}))"""


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with chromium() as browser:
        yield browser.new_page(color_scheme="light")


@pytest.fixture(scope="module")
def numbers(folder: Path, book: Book) -> pd.DataFrame:
    frame = pd.read_csv(folder / "numbers.csv").set_index(["paper", "artefact", "id"])
    return frame.assign(verdict=frame["verdict"].fillna(""))


def hue(colour: str) -> str:
    """The strongest part of a computed colour, whatever its notation."""
    parts = [float(part) for part in re.findall(r"[\d.]+", colour.replace("srgb", ""))][:3]
    return ("red", "green", "blue")[parts.index(max(parts))]


def first_number(text: str) -> float | None:
    found = re.search(r"[+−-]?\d[\d,.]*", text)
    return None if found is None else float(found[0].replace("−", "-").replace(",", ""))


def is_shown(text: str, value: float, digits: int) -> bool:
    """Whether a text shows a value to its digits; half a unit may be rounded either way."""
    shown = first_number(text)
    if pd.isna(value):
        return shown is None
    return shown is not None and abs(shown - value) <= 0.5 * 10.0**-digits + 1e-9


def test_every_cell_of_a_table_shows_its_row_of_the_frame(
    page: Any, folder: Path, numbers: pd.DataFrame
) -> None:
    read = set()
    for path in sorted(folder.glob("*/*.html")):
        page.goto(path.resolve().as_uri())
        for cell in page.eval_on_selector_all("table td", CELLS):
            key = (path.parent.name, path.stem, cell["id"])
            if key not in numbers.index:
                continue
            number = numbers.loc[key]
            read.add(key)
            assert cell["state"] == STATES.get(number["verdict"], number["verdict"]), key
            if cell["state"] in HUES:
                assert hue(cell["colour"]) == HUES[cell["state"]], (key, cell["colour"])
            digits = int(number["digits"])
            if pd.notna(number["ours"]):
                assert is_shown(cell["ours"], number["ours"], digits), (key, cell)
                spread = cell["ours"].partition("±")[2]
                assert not spread or is_shown(spread, number["std"], digits), (key, cell)
            if cell["seeds"]:
                assert first_number(cell["seeds"]) == number["seeds"], (key, cell)
            if cell["gap"].strip():
                assert is_shown(cell["gap"], number["difference"], digits), (key, cell)
            if pd.notna(number["printed"]):
                assert is_shown(cell["printed"], number["printed"], digits), (key, cell)
                spread = cell["printed"].partition("±")[2]
                assert not spread or is_shown(spread, number["printed_std"], digits), (key, cell)
    tables = numbers[numbers["ours"].notna()].index
    assert len(read) >= 0.5 * len(tables)
    assert {key[0] for key in read} == set(tables.get_level_values("paper"))


def test_every_dot_of_the_overview_has_the_state_and_colour_of_its_number(
    page: Any, folder: Path, numbers: pd.DataFrame
) -> None:
    page.goto((folder / "index.html").resolve().as_uri())
    dots = page.eval_on_selector_all("a.dot", DOTS)
    states = set()
    for dot in dots:
        path, _, address = dot["link"].partition("#")
        paper, artefact = path.removesuffix(".html").split("/")[-2:]
        verdict = numbers.loc[(paper, artefact, address), "verdict"]
        assert dot["state"] == STATES.get(verdict, verdict), dot
        states.add(dot["state"])
        if dot["state"] in HUES:
            assert hue(dot["edge"]) == HUES[dot["state"]], dot
        if dot["state"] in ("reproduced", "differs"):
            assert hue(dot["colour"]) == HUES[dot["state"]], dot
    assert {"differs", "undecided"} <= states
    assert len(dots) == (numbers["verdict"] != "").sum()
