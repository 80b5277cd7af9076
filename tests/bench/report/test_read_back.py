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

from repfl.bench.report.numbers import Number
from repfl.bench.report.sheet import Book
from tests.bench.report.browsers import chromium, new_page

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
        yield new_page(browser, color_scheme="light")


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


# -- a number's own page ---------------------------------------------------------------------------

UNITS = {"s": 1, "min": 60, "h": 3600, "bytes": 1, "MB": 1e6, "GB": 1e9}
RUNS = """rows => rows.map(row => [row.querySelector('th').innerText,
    ...[...row.querySelectorAll('td')].map(cell => cell.innerText)])"""
PICTURE = """svg => {
    const at = (name, key) => Number(svg.querySelector(name).getAttribute(key));
    const line = svg.querySelectorAll('line')[1], circle = svg.querySelector('circle');
    return {
        margin: [at('rect', 'x'), at('rect', 'x') + at('rect', 'width')],
        interval: [Number(line.getAttribute('x1')), Number(line.getAttribute('x2'))],
        difference: at('circle', 'cx'),
        colours: [getComputedStyle(circle).fill, getComputedStyle(line).stroke],
    }
}"""


def address_of(folder: Path, number: Number) -> str:
    path = folder / number.paper / f"{number.artefact}.html"
    return f"{path.resolve().as_uri()}#{number.id}"


def quantity(text: str) -> tuple[float, float]:
    """A quantity in its basic unit, and how far its digits round it away."""
    shown, unit = text.split()
    decimals = len(shown.partition(".")[2])
    return float(shown) * UNITS[unit], 0.5 * 10.0**-decimals * UNITS[unit] * (1 + 1e-9)


def test_the_page_of_a_number_shows_its_runs_in_their_units(
    page: Any, folder: Path, book: Book
) -> None:
    units = set()
    for sheet in book.sheets:
        for number in sheet.numbers:
            page.goto("about:blank")
            page.goto(address_of(folder, number))
            rows = page.eval_on_selector_all("#number [aria-label='Our runs'] tbody tr", RUNS)
            runs = [book.runs[cell] for cell in number.runs if cell in book.runs]
            assert [row[0] for row in rows] == [str(run["seed"]) for run in runs]
            for row, run in zip(rows, runs, strict=True):
                assert is_shown(row[1], run["value"], 2), (row, run)
                for text, value in ((row[5], run["bytes"]), (row[6], run["seconds"])):
                    units.add(text.split()[1])
                    shown, rounding = quantity(text)
                    assert abs(shown - value) <= rounding, (text, value)
    assert units == set(UNITS)


def test_the_picture_of_a_difference_has_its_interval_and_margin_to_scale(
    page: Any, folder: Path, book: Book
) -> None:
    drawn = set()
    for number in (number for sheet in book.sheets for number in sheet.numbers):
        if number.difference_low is None or number.difference_high is None:
            continue
        page.goto("about:blank")
        page.goto(address_of(folder, number))
        shown = page.eval_on_selector("#number svg.verdict", PICTURE)
        low, high = number.difference_low, number.difference_high
        unit = (shown["interval"][1] - shown["interval"][0]) / (high - low)
        zero = sum(shown["margin"]) / 2
        places = [*shown["margin"], shown["difference"], *shown["interval"]]
        values = [(place - zero) / unit for place in places]
        assert values == pytest.approx([-1.0, 1.0, number.difference, low, high], abs=1e-3)
        assert {hue(colour) for colour in shown["colours"]} == {HUES[number.verdict]}
        drawn.add(number.verdict)
    assert len(drawn) > 1


def read_aloud(page: Any, chart: str) -> list[str]:
    """What the arrow keys read of a chart, once round."""
    page.locator(f"{chart} svg.plot").focus()
    texts: list[str] = []
    while len(texts) < 2 or texts[-1] != texts[0]:
        assert len(texts) < 1000, "the keys do not lead back to the first point"
        page.keyboard.press("ArrowRight")
        texts.append(page.locator(f"{chart} .tip").inner_text())
    return texts[:-1]


def test_a_chart_reads_every_round_of_every_run(page: Any, folder: Path, book: Book) -> None:
    number = next(n for sheet in book.sheets for n in sheet.numbers if len(n.runs) == 3)
    page.goto("about:blank")
    page.goto(address_of(folder, number))
    expected = [
        f"seed {book.runs[cell]['seed']}: {round_}, {value:.2f}"
        for cell in number.runs
        for round_, value in book.runs[cell]["curve"]
    ]
    read = [re.sub(r"^ours, | \(.*\)", "", text) for text in read_aloud(page, "#curve")]
    assert [text for text in read if text.startswith("seed")] == expected
    paths = page.eval_on_selector_all("#curve path", "all => all.map(p => p.getAttribute('d'))")
    sizes = [len(book.runs[cell]["curve"]) for cell in number.runs]
    assert [len(re.findall("[ML]", path)) for path in paths][: len(sizes)] == sizes


def test_a_figure_s_chart_reads_every_point_of_its_frame(
    page: Any, folder: Path, book: Book
) -> None:
    (sheet,) = (sheet for sheet in book.sheets if sheet.kind == "figure")
    data = pd.read_csv(folder / sheet.paper / f"{sheet.name}.csv")
    page.goto("about:blank")
    page.goto((folder / sheet.page).resolve().as_uri())
    expected = [f"{row.label}: {row.round}, {row.mean:.2f}" for row in data.itertuples(index=False)]
    assert sorted(read_aloud(page, "#lines")) == sorted(expected)
