"""The pages in a real browser: complete, silent, sortable, searchable, usable by keyboard and on a
phone, in light and dark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.report.sheet import Book
from tests.bench.report.browsers import Watched, axe, chromium, new_page

NUMBER = "#fedavg.easy"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def watched(browser: Any, folder: Path, book: Book) -> Iterator[Watched]:
    """A fresh page, which must end without a complaint, and may have asked for files only."""
    page = new_page(browser, viewport={"width": 1280, "height": 900})
    found = Watched(page)
    yield found
    page.close()
    assert found.complaints == []
    assert found.outside == []


def test_every_page_opens_in_silence(watched: Watched, folder: Path) -> None:
    pages = sorted(folder.rglob("*.html"))
    assert len(pages) >= 12
    for path in pages:
        assert watched.open(path).locator("h1").first.inner_text()


def test_texts_are_shown_as_they_are(watched: Watched, folder: Path) -> None:
    page = watched.open(folder / "index.html")
    assert "A <i>paper</i>" in page.locator("h3").first.inner_text()
    page = watched.open(folder / "paper-a" / "table1.html")
    assert "Less than 1 % of <all>" in page.locator("main").inner_text()


def test_a_dot_leads_to_its_number_and_the_number_tells_everything(
    watched: Watched, folder: Path
) -> None:
    page = watched.open(folder / "index.html")
    page.locator('a.dot[href$="table1.html#fedavg.easy"]').click()
    assert page.locator("#number h1").inner_text() == "FedAvg: CIFAR-10, α = 0.1"
    text = page.locator("#number").inner_text()
    for piece in (
        "84.15 ± 1.77", "85.00 ± 1.00", "undecided", "trained accuracy", "table1.csv:5",
        "somebody", "12.5 s", "Recipe: data, model, protocol", "2026-01-02",
        "repfl data get cifar10 && ", "--fresh --device cpu", "--fresh --device cuda",
    ):  # fmt: skip
        assert piece in text, piece
    assert page.locator("#number [aria-label='Our runs'] tbody tr").count() == 3  # seeds
    assert page.locator("#curve path").count() == 3
    assert page.locator("#spread svg").count() == 1
    page.locator("#number .crumbs a").first.click()
    page.locator("#artefact").wait_for()  # the page hears of its new address after the click
    assert page.locator("#artefact").is_visible()
    assert not page.locator("#number").is_visible()


def test_a_number_shows_its_curve_beside_that_of_the_paper(watched: Watched, folder: Path) -> None:
    page = watched.open(folder / "paper-a" / "table1.html")
    page.get_by_text("How far the curves of these runs lie").click()
    cells = ["FedAvg", "CIFAR-10, α = 0.1", "momentum 0", "paper-a/fig1", "1 to 2", "2"]
    text = (
        page.locator("#curves tbody tr")
        .inner_text()
        .replace("\u00a0", " ")
        .replace("\u2011", "-")
        .split("\t")
    )
    assert text == [*cells, "−2.00 [−2.00, −2.00]", "2.00", "0.00", "differs"]
    for number, lines in (("#fedavg.easy", 1), ("#separate.easy", 0)):
        page = watched.open(folder / "paper-a" / "table1.html", number)
        curves = page.get_by_role("region", name="Its curve beside the paper's")
        assert curves.locator("tbody tr").count() == lines


def test_a_click_on_a_heading_sorts_by_value_and_a_second_one_turns_it(
    watched: Watched, folder: Path
) -> None:
    page = watched.open(folder / "paper-a" / "table1.html")
    head = page.locator("#t thead tr:last-child th").nth(1)
    names = page.locator("#t tbody th")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert names.all_inner_texts()[2] == "Separate"
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert names.all_inner_texts()[0] == "Separate"
    assert page.locator("#t tfoot").inner_text().startswith("majority class")
    page.locator("#t thead tr:last-child th").nth(2).locator("button").click()
    assert names.all_inner_texts()[:2] == ["FedAvg", "Separate"]  # what is missing comes last


def test_a_filter_hides_rows_and_a_box_hides_columns(watched: Watched, folder: Path) -> None:
    page = watched.open(folder / "paper-a" / "table1.html")
    page.locator("input[data-for=t]").fill("fedavg")
    assert page.locator("#t tbody tr:visible").count() == 1
    page.locator("input[data-for=t]").fill("")
    assert page.locator("#t tbody tr:visible").count() == 3
    page.locator(".columns summary").click()
    page.get_by_role("checkbox", name="CIFAR-10, α = 0.1").uncheck()
    assert page.locator("#t tbody tr").first.locator("td:visible").count() == 2
    assert page.locator("#t .over th").first.get_attribute("colspan") == "1"


SEARCHES = [
    ("fedavg method", "FedAvg method", "methods/fedavg.html"),
    ("cite", "Cite help", "how.html#cite"),
    ("gpu", "GPU glossary", "how.html#gpu"),
    ("seed", "seed glossary", "how.html#seed"),
    ("learning rate", "learning rate glossary", "how.html#learning-rate"),
    ("CIFAR-10 data set", "CIFAR-10 data set", "datasets/cifar10.html"),
    ("gpu vs the nonsense", "GPU glossary", "how.html#gpu"),
]


def test_search_finds_names_and_words(watched: Watched, folder: Path) -> None:
    page = watched.open(folder / "paper-a" / "table1.html")
    page.keyboard.press("/")
    for words, first, link in SEARCHES:
        page.locator("#search").fill("")
        page.keyboard.type(words)
        assert page.locator("#hits a").first.inner_text() == first
        assert page.locator("#hits a").first.get_attribute("href") == f"../{link}"


def test_a_box_fades_where_more_follows_and_no_longer_at_its_end(
    watched: Watched, folder: Path
) -> None:
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 844})
    page = watched.open(folder / "paper-a" / "table1.html")
    page.locator(".scroll.right:has(#t)").wait_for()
    page.evaluate("document.querySelector('.scroll:has(#t)').scrollLeft = 1e6")
    page.locator(".scroll:not(.right, .down):has(#t)").wait_for()


PAGES = ["index.html", "paper-a/table1.html", "paper-a/fig1.html", f"paper-a/table1.html{NUMBER}"]
MORE = ["selftest.html", "how.html", "methods/fedavg.html", "datasets/cifar10.html"]
MORE += [f"paper-a/{name}.html" for name in ("index", "claims", "notes")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_their_window_and_axe_finds_nothing_serious(
    browser: Any, folder: Path, book: Book, scheme: str
) -> None:
    """In dark only contrast is looked for: the rest is the same."""
    page, found = new_page(browser, color_scheme=scheme), []
    asked = "resultTypes: ['violations']" if scheme == "light" else "runOnly: ['color-contrast']"
    for name in [*PAGES, *(MORE if scheme == "light" else [])]:
        page.goto("about:blank")
        page.goto(
            (folder / name.partition("#")[0]).resolve().as_uri() + "#" + name.partition("#")[2]
        )
        for width in (390, 800, 1400):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.evaluate(axe())
        found += [
            f"{name}: {each['id']}: {each['nodes'][0]['html'][:120]}"
            for each in page.evaluate(f"axe.run({{ {asked} }})")["violations"]
            if each["impact"] in ("serious", "critical")
        ]
    assert found == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 29)"
    assert dark == (scheme == "dark")
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") != scheme
    page.close()
