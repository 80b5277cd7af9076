"""The leaderboard on the board's page is the one that the committed runs give."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from repfl.bench.grid.grid import folder
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import build
from repfl.bench.store.store import Store
from repfl.paper_tables.board import findings


def test_the_page_has_the_table_of_the_committed_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "of", lambda *_: ())  # sentences take longer than all else
    asked = [f"board/table{number}" for number in (1, 2, 3)]
    request = build.Request(plan(Selection(artefacts=asked, scale="paper")), best=True)
    build.report(request, Store(tmp_path / "none"), tmp_path / "report")
    page = (folder("board") / "README.md").read_text("utf-8")
    _, _, rest = page.partition("<!-- leaderboard: report/leaderboard.md, compared by a test -->\n")
    table, end, _ = rest.partition("<!-- end of the leaderboard -->")
    assert end
    assert table == (tmp_path / "report" / "leaderboard.md").read_text("utf-8")
    shown = rows_of_page((tmp_path / "report" / "leaderboard.html").read_text("utf-8"))
    heads, _, *lines = [
        [cell.strip() for cell in row[1:-1].split("|")] for row in table.split("\n") if row
    ]
    assert len(lines) == len(shown) > 20
    for line in lines:
        values = dict(zip(heads, line, strict=True))
        name = values.pop("Method")
        for head, value in values.items():
            assert same(shown[name][head], value), (name, head)


SMALL = {
    "accuracy, %": "{}, %",
    "learning rate": "learning rate, {}",
    "clients worse than local, %": "worse than local, {}, %",
    "KiB a round": "KiB a round",
    "rate": "fine-tuning rate",
    "frozen protocol": "Frozen",
    "": "{}",
}
"""Second lines of the page's headings, and the headings of the table in a README."""


def texts(row: str) -> list[str]:
    """The texts of a row's cells, the second lines of headings after a bar."""
    marked = row.replace("<small>", "|").replace("<br>", ";")
    cells = re.findall(r"<t[hd].*?</t[hd]>", marked, flags=re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", "", cell)).split()) for cell in cells]


def rows_of_page(page: str) -> dict[str, dict[str, str]]:
    """The texts of the leaderboard's page by method and heading."""
    table = page.partition('id="t">')[2].partition("</table>")[0]
    head, *rows = re.findall(r"<tr.*?</tr>", table, flags=re.DOTALL)
    pairs = [text.split("|") if "|" in text else [text, ""] for text in texts(head)]
    heads = [SMALL.get(small, f"{{}}, {small}").format(name) for name, small in pairs]
    named = [dict(zip(heads, texts(row), strict=True)) for row in rows]
    return {row["Method"].partition(" |")[0]: row for row in named}


def same(shown: str, value: str) -> bool:
    """Whether a cell of the page has a value; an interval may follow it, and rates are a set, whose
    settings the page names.
    """
    parts = [part.strip() for part in shown.replace("–", "").split("|")[0].split(";")]
    parts = [part.rpartition(": ")[2] for part in parts]
    return set(parts) == {part.strip() for part in value.split(";")}
