"""The page in a real browser: complete, silent, sortable, filterable, usable by keyboard and on a
phone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from repfl.bench.report import write_report
from tests.bench.report import sample
from tests.bench.report.browser import BINARY, Browser

pytestmark = pytest.mark.skipif(BINARY is None, reason="no Chromium on this machine")
ROWS = "[...document.querySelectorAll('#t-paper-a-table1 tbody tr')]"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in a folder of its own, with a place for records beside it."""
    folder = tmp_path_factory.mktemp("report")
    facts = {
        "commit": "abc",
        "versions": {"torch": "2.11", "<b>": "&"},
        "papers": {"paper-a": {"title": "A <i>paper</i>", "year": 2025}},
        "results": folder / "results",
    }
    commands = {"paper-a/table1": "repfl reproduce --artefact paper-a/table1 --scale paper"}
    return write_report(sample.results(), folder / "report", facts, commands).page


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.size(1280, 900)
        opened.open(page)
        yield opened


def test_nothing_is_wrong_and_nothing_leaves_the_page(browser: Browser, page: Path) -> None:
    assert browser.complaints == []
    assert [r for r in browser.requests if not r.startswith("data:")] == [page.resolve().as_uri()]


def test_every_artefact_and_every_figure_is_there(browser: Browser) -> None:
    assert browser.run("[...document.querySelectorAll('article')].map(a => a.id)") == [
        "paper-a-table1",
        "paper-a-fig1",
        "paper-b-table2",
    ]
    assert browser.run(
        "[...document.images].every(i => i.complete && i.naturalWidth > 100 && i.alt)"
    )
    assert browser.run("document.images.length") == 1
    assert "No cell is done" in browser.run("document.querySelector('#paper-b-table2').textContent")
    assert "repfl reproduce --artefact paper-a/table1 --scale paper" in browser.run(
        "document.querySelector('code').textContent"
    )


def test_texts_are_shown_as_they_are(browser: Browser) -> None:
    assert (
        browser.run("document.querySelector('#paper-paper-a h2').textContent") == "A <i>paper</i>"
    )
    assert "Less than 1 % of <everything>" in browser.run("document.body.textContent")


def test_a_click_on_a_heading_sorts_by_value_and_a_second_one_turns_it(browser: Browser) -> None:
    names = f"{ROWS}.map(r => r.cells[0].textContent)"
    head = "document.querySelectorAll('#t-paper-a-table1 thead tr:last-child th')[1]"
    browser.run(f"{head}.querySelector('button').click()")
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "descending"
    assert browser.run(names)[-1] == "Separate"
    browser.run(f"{head}.querySelector('button').click()")
    assert browser.run(names)[0] == "Separate"
    assert browser.run("document.querySelector('#t-paper-a-table1 tfoot').textContent").startswith(
        "majority class"
    )


def test_what_is_missing_sorts_below_every_number(browser: Browser) -> None:
    head = "document.querySelectorAll('#t-paper-a-table1 thead tr:last-child th')[2]"
    browser.run(f"{head}.querySelector('button').click()")
    assert browser.run(f"{ROWS}.map(r => r.cells[0].textContent)")[:2] == ["FedAvg", "Separate"]


def test_a_filter_hides_the_rows_without_its_words(browser: Browser) -> None:
    script = (
        "i = document.querySelector('input[data-for=n-paper-a-table1]'); i.value = 'fedavg"
        " MISSING'; i.dispatchEvent(new Event('input'))"
    )
    browser.run(script)
    shown = (
        "[...document.querySelectorAll('#n-paper-a-table1 tbody tr')].filter(r => !r.hidden).length"
    )
    assert browser.run(shown) == 0
    browser.run(script.replace("fedavg MISSING", "FedAvg near"))
    assert browser.run(shown) == 1
    browser.run(script.replace("fedavg MISSING", ""))
    assert browser.run(shown) == 12


def test_records_are_linked_relative_to_the_page(browser: Browser) -> None:
    first = browser.run("document.querySelector('#n-paper-a-table1 a').getAttribute('href')")
    assert first.startswith("../results/")
    assert first.endswith("/record.json")


def test_tab_and_enter_are_enough_to_sort(browser: Browser) -> None:
    browser.run("document.querySelector('#verdicts button').focus()")
    browser.press("Tab")
    browser.press("Enter")
    assert (
        browser.run("document.activeElement.closest('th').getAttribute('aria-sort')")
        == "descending"
    )
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_everything_that_acts_or_shows_has_a_name(browser: Browser) -> None:
    named = "e.textContent.trim() || e.alt || e.getAttribute('aria-label') || e.labels?.length"
    unnamed = (
        "[...document.querySelectorAll('button, a, summary, input, [role=region], img')].filter(e"
        f" => !({named}))"
    )
    assert browser.run(f"{unnamed}.length") == 0


def test_a_phone_scrolls_tables_and_not_the_page(browser: Browser) -> None:
    browser.size(390, 844, phone=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run(
        "document.querySelector('#t-paper-a-table1').parentElement.scrollWidth > 390"
    )
    browser.size(1280, 900)
