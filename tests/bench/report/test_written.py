"""The files of a report: every link leads somewhere, the same book gives the same bytes, and pages
say what their tables say.
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import unquote

from repfl.bench.report.sheet import Book
from repfl.bench.report.site import formulas, pages, words
from tests.bench.report import book as books


def addresses(text: str) -> set[str]:
    """What a page offers to go to: the ids in it, and the numbers that its script shows."""
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    values = json.loads(data[1]) if data else {}
    return ids | {n["id"] for n in values.get("numbers", ())} if isinstance(values, dict) else ids


def broken(folder: Path) -> list[str]:
    """Links of a site that lead nowhere. Records lie outside it."""
    texts = {path: path.read_text("utf-8") for path in folder.rglob("*.html")}
    known = {path.resolve(): addresses(text) for path, text in texts.items()}
    found = []
    for path, text in texts.items():
        for link in {unescape(link) for link in re.findall(r'(?:href|src)="([^"]+)"', text)}:
            name, _, anchor = link.partition("#")
            if link.startswith(("data:", "https:")):
                continue
            target = (path.parent / unquote(name)).resolve() if name else path.resolve()
            missing = anchor and target in known and unquote(anchor) not in known[target]
            if not target.exists() or (missing and target.name != "compare.html"):
                found.append(f"{path.relative_to(folder)}: {link}")
    return found


def test_every_link_and_every_address_of_a_number_resolves(folder: Path, book: Book) -> None:
    assert broken(folder) == []
    text = (folder / "index.html").read_text("utf-8")
    assert len(re.findall(r'<a class="dot [^>]*href="paper-a/table1.html#', text)) == 9


def test_a_link_to_nowhere_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="x"><a href="#x"></a><a href="#y"><a href="b.html">')
    assert sorted(broken(tmp_path)) == ["a.html: #y", "a.html: b.html"]


def test_the_same_book_gives_the_same_bytes(tmp_path: Path, folder: Path, book: Book) -> None:
    books.write(tmp_path / "report")
    for path in sorted(folder.rglob("*.html")):
        again = tmp_path / "report" / path.relative_to(folder)
        assert again.read_bytes() == path.read_bytes(), path


def test_a_protocol_of_ones_own_says_what_it_asks_and_what_it_found(
    tmp_path: Path, book: Book
) -> None:
    sheet = replace(book.sheets[0], paper="own", findings=("First.", "Second."), claims=())
    sheet = replace(sheet, numbers=tuple(replace(n, source="") for n in sheet.numbers))
    told = {"own": {"title": "Own", "year": 2026, "about": "What is asked here?"}}
    page = replace(book, sheets=[*book.sheets, sheet], papers=book.papers | told)
    pages.write(page, tmp_path)
    first = (tmp_path / "index.html").read_text("utf-8")
    article = re.search(r'<article class="paper" id="paper-own">(.*?)</article>', first, re.S)
    assert article
    assert "What is asked here?" in article[1]
    assert re.findall(r"First|Second", article[1]) == ["First"]
    assert "Second." in (tmp_path / "own" / "table1.html").read_text("utf-8")


def test_seeds_stand_beside_numbers_where_rows_have_different_ones(
    tmp_path: Path, book: Book
) -> None:
    alike = [
        replace(sheet, numbers=tuple(replace(n, seeds=3) for n in sheet.numbers))
        for sheet in book.sheets
    ]
    said = []
    for name, sheets in (("alike", alike), ("different", book.sheets)):
        pages.write(replace(book, sheets=sheets), tmp_path / name)
        text = (tmp_path / name / "paper-a" / "table1.html").read_text("utf-8")
        said.append(set(re.findall(r'class="seeds">\((\d)\)<', text)))
    assert said[0] == set()
    assert len(said[1]) > 1


def test_notes_have_an_anchor_for_every_numbered_row_that_texts_refer_to(
    tmp_path: Path, book: Book
) -> None:
    sheet = replace(book.sheets[0], notes=("As printed. README, 17 and 18.",))
    pages.write(replace(book, sheets=[sheet]), tmp_path)
    text = (tmp_path / "paper-a" / "table1.html").read_text("utf-8")
    assert 'notes, 17</a> and <a href="notes.html#note-18">18</a>' in text
    notes = (tmp_path / "paper-a" / "notes.html").read_text("utf-8")
    assert '<tr id="note-17">' in notes
    assert "x.py" not in notes


def test_the_archive_has_every_table_with_a_description(tmp_path: Path, folder: Path) -> None:
    with zipfile.ZipFile(folder / "data.zip") as archive:
        assert {"README.txt", "paper-a/table1.csv"} <= set(archive.namelist())
        assert archive.read("paper-a/table1.csv") == (folder / "paper-a/table1.csv").read_bytes()
    columns = (folder / "paper-a" / "table1.csv").read_text().splitlines()[0].split(",")
    described = " ".join(f"{name} {told}" for name, told in words.COLUMNS.items())
    assert [name for name in columns if not re.search(rf"\b{name}\b", described)] == []


def test_an_update_rule_is_mathematics_and_prose_stays_prose() -> None:
    first, rule, after = formulas.method(
        "Averages <b>.\n\nw_i <- SGD from w;  w <- sum_i p_i w_i.\n\nX."
    )
    assert first == "Averages <b>."
    assert rule.count("<math>") == 2
    assert "<msub><mi>w</mi><mi>i</mi></msub>" in rule
    assert "<mo>∑</mo>" in rule
    assert after == "<p>X.</p>"
    assert "<b>" not in formulas.prose(first)
