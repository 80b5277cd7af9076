"""The pieces of figures that narrow pages show, read back from files and in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest
from matplotlib.figure import Figure as Canvas

from repfl.bench.report.formats import pieces, render
from repfl.bench.report.sheet import Book, sheet_of
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.result import NewCanvas
from tests.bench.report import sample
from tests.bench.report.browsers import chromium, new_page

SVG = "{http://www.w3.org/2000/svg}"
FINDING = 'One of 0.98765 and a "quoted" one & another; some words more, which need a second line.'


def draw(new_canvas: NewCanvas) -> Canvas:
    """Four panels that share axes, labels, titles, a colour bar and a legend; one has a twin."""
    canvas = new_canvas(8, 5)
    axes = canvas.subplots(2, 2, sharex=True, sharey=True)
    for index, panel in enumerate(axes.flat):
        panel.plot([0, 1], [index, 5], label=f"line {index}")
    for column in (0, 1):
        axes[0, column].set_title(f"Title {column}")
        axes[1, column].set_xlabel("Round")
    axes[0, 0].set_ylabel("First row")
    axes[1, 0].set_ylabel("Second row")
    axes[1, 1].twinx().set_ylabel("Twin")
    canvas.supylabel("All of it")
    canvas.colorbar(plots.heat_scale(1.0), ax=axes.ravel().tolist(), label="Share")
    figure_style.legend_below(canvas, [*axes.flat], title="Not run: some")
    return canvas


@pytest.fixture
def text(tmp_path: Path) -> str:
    figure = replace(sample.small_figure(), draw=draw, findings=(FINDING,))
    render.write([figure], lambda result: sheet_of(result, {}), tmp_path)
    return (tmp_path / "paper-a" / "fig1.svg").read_text("utf-8")


def words(part: Element) -> list[str]:
    return ["".join(label.itertext()) for label in part.iter(f"{SVG}text")]


def place(label: Element) -> tuple[float, float]:
    """Return where a text of an SVG starts, is centred or ends."""
    moved = re.search(r"translate\((\S+) (\S+)\)", label.get("transform", ""))
    at = moved.groups() if moved else (label.get("x", ""), label.get("y", ""))
    return float(at[0]), float(at[1])


def test_every_text_of_a_figure_is_in_a_piece(text: str) -> None:
    svg, read = fromstring(text), pieces.read(text)
    every = [part.get("id") for part in svg.iter() if part.get("id")]
    assert len(every) == len(set(every))
    ids = [names for *_, names in read["panels"] + read["entries"]]
    assert ids[:5] == ["panel-1", "panel-2", "panel-3", "panel-4 panel-5", "panel-6"]
    assert ids[5:] == ["legend-1"] * 4
    left = list(svg.iter(f"{SVG}text"))
    for box, _, names in read["panels"] + read["entries"]:
        x, y, width, height = map(float, box.split())
        for part in svg.iter(f"{SVG}g"):
            for label in part.iter(f"{SVG}text") if part.get("id") in names.split() else ():
                across, down = place(label)
                inside = x <= across <= x + width and y <= down <= y + height
                assert inside or "legend" in names, "".join(label.itertext())
                left = [other for other in left if other is not label or not inside]
    assert read["texts"][0] == FINDING
    assert read["texts"][2:] == ["Vertical axes: All of it", "Not run: some"]
    said = " ".join(read["texts"])
    assert left
    assert all("".join(label.itertext()) in said for label in left)


def test_a_panel_repeats_what_it_shares_and_a_wide_page_hides_that(text: str) -> None:
    svg = fromstring(text)
    panels = {str(part.get("id")): words(part) for part in svg.iter(f"{SVG}g") if part.get("id")}

    def ticks(panel: str) -> list[str]:
        return [word for word in panels[panel] if word.replace(".", "").isdigit()]

    assert len(ticks("panel-3")) > 4
    for panel, row, column in ((1, "First", 0), (2, "First", 1), (4, "Second", 1)):
        assert {f"{row} row", f"Title {column}", "Round"} <= set(panels[f"panel-{panel}"])
        assert ticks(f"panel-{panel}") == ticks("panel-3")
    shown = words(svg)
    for part in svg.iter(f"{SVG}g"):
        if part.get("display") == "none":
            shown.remove(*words(part))
    assert [shown.count(word) for word in ("First row", "Title 0", "Round")] == [1, 1, 2]
    assert pieces.REPEATED not in text


SIZES = """() => [...document.querySelectorAll('.stack svg')].map(svg => {
    const uses = [...svg.querySelectorAll('use')], named = use => use.getAttribute('href');
    const texts = uses.flatMap(use => [...document.querySelectorAll(`${named(use)} text`)]);
    const scale = svg.clientWidth / svg.viewBox.baseVal.width;
    const sizes = texts.map(text => scale * parseFloat(getComputedStyle(text).fontSize));
    return [Math.min(...sizes), Math.min(...uses.map(use => use.getBBox().width))];
})"""


def test_a_narrow_page_shows_readable_pieces_and_a_wide_one_the_figure(
    folder: Path, book: Book
) -> None:
    with chromium() as browser:
        page = new_page(browser, viewport={"width": 390, "height": 844})
        page.goto((folder / "paper-a" / "fig1.html").resolve().as_uri())
        sizes = page.evaluate(SIZES)
        assert len(sizes) == 1
        assert all(size >= pieces.LEAST - 0.1 and width > 0 for size, width in sizes)
        drawn, stack = page.locator(".drawn > svg"), page.locator(".stack")
        assert (drawn.is_visible(), stack.is_visible()) == (False, True)
        page.set_viewport_size({"width": 800, "height": 844})
        assert (drawn.is_visible(), stack.is_visible()) == (True, False)
