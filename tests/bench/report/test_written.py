"""The files of a report: every link leads somewhere, the same book gives the same bytes, and pages
say what their tables say.
"""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

from repfl.bench.grid import grid as grids
from repfl.bench.report.links import named
from repfl.bench.report.sheet import Book
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
            if not target.exists() or missing:
                found.append(f"{path.relative_to(folder)}: {link}")
    return found


def test_every_link_and_every_address_of_a_number_resolves(folder: Path, book: Book) -> None:
    assert broken(folder) == []
    text = (folder / "index.html").read_text("utf-8")
    assert len(re.findall(r'<a class="dot [^>]*href="paper-a/table1.html#', text)) == 9


def test_the_same_book_gives_the_same_bytes(tmp_path: Path, folder: Path, book: Book) -> None:
    books.write(tmp_path / "report")
    for path in sorted(folder.rglob("*.html")):
        again = tmp_path / "report" / path.relative_to(folder)
        assert again.read_bytes() == path.read_bytes(), path


def test_a_paper_says_where_it_is_and_its_page_links_the_same() -> None:
    for paper in grids.printed():
        file = grids.files()[paper]
        found = [address for _, address in named(grids.read(file).file.sources)]
        assert len(found) >= 2, paper
        head = Path(file).with_name("README.md").read_text("utf-8").split("\n## ")[0]
        assert [address for address in found if f"({address})" not in head] == []
