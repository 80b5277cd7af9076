"""The leaderboard on the board's page is the one that the committed runs give."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from repfl.bench.evidence.artefacts import make
from repfl.bench.evidence.cell_evidence import Records
from repfl.bench.grid.grid import folder
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import build
from repfl.bench.report.site.leaderboard import FINDINGS
from repfl.bench.store.store import Store
from repfl.paper_tables.board import findings
from repfl.paper_tables.core.result import Table
from repfl.paper_tables.core.statistics import pairwise


def test_the_page_has_the_table_of_the_committed_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # quantiles take longer than all else, and the leaderboard shows no difference
    monkeypatch.setattr(pairwise, "studentized_range", lambda *_: 1.0)
    monkeypatch.setattr(findings, "of", lambda *_: ())
    asked = [f"board/table{number}" for number in (1, 2, 3)]
    request = build.Request(plan(Selection(artefacts=asked, scale="paper")), best=True)
    build.report(request, Store(tmp_path / "none"), tmp_path / "report")
    page = (folder("board") / "README.md").read_text("utf-8")
    _, _, rest = page.partition("<!-- leaderboard: report/leaderboard.md, compared by a test -->\n")
    table, end, _ = rest.partition("<!-- end of the leaderboard -->")
    assert end
    assert table == (tmp_path / "report" / "leaderboard.md").read_text("utf-8")
    html = (tmp_path / "report" / "leaderboard.html").read_text("utf-8")
    shown = rows_of_page(html)
    (said,) = re.findall(r"\d+ methods ran here.*?\.", html)
    assert said in " ".join(page.split())
    for part in table.split("\n\n"):
        heads, _, *lines = [
            [cell.strip() for cell in row[1:-1].split("|")] for row in part.split("\n") if row
        ]
        assert len(lines) == len(shown) > 20
        for line in lines:
            values = dict(zip(heads, line, strict=True))
            name = values.pop("Method")
            for head, value in values.items():
                assert same(shown[name][head], value), (name, head)


GROUPS = {
    "Rank": "Rank, {}",
    "Accuracy, %": "{}, %",
    "Clients worse than local, %": "worse than local, {}, %",
    "Traffic": "{} a round",
    "Tuned learning rate": "learning rate, {}",
}
"""Common headings of the page, and how a README's table writes the headings below them."""
NAMES = {"Rank, all rows": "Rank", "Rank, frozen": "Frozen"}
SPAN = re.compile(r"<th(?: colspan=\"(\d+)\")? scope=\"colgroup\">(.*?)</th>")


def texts(row: str) -> list[str]:
    """The texts of a row's cells; a bar before what stands in small letters."""
    marked = re.sub(r"<small>|<span class=\"fine\">", "|", row)
    cells = re.findall(r"<t[hd][ >].*?</t[hd]>", marked, flags=re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", "", cell)).split()) for cell in cells]


def rows_of_page(page: str) -> dict[str, dict[str, str]]:
    """The texts of the leaderboard's page by method and heading of the README."""
    table = page.partition('id="t">')[2].partition("</table>")[0]
    over, head, *rows = re.findall(r"<tr.*?</tr>", table, flags=re.DOTALL)
    groups = [GROUPS[name] for count, name in SPAN.findall(over) for _ in range(int(count or 1))]
    first, *names = texts(head)
    pairs = zip(groups, names, strict=True)
    heads = [first, *(NAMES.get(head, head) for head in (form.format(n) for form, n in pairs))]
    named = [dict(zip(heads, texts(row), strict=True)) for row in rows]
    rates = [head for head in heads if head.startswith("learning rate")]
    for row in named:
        fine = (row[head].partition("|")[2].removeprefix("FT ") for head in rates)
        row["fine-tuning rate"] = "; ".join(filter(None, fine))
    return {row["Method"].partition(" |")[0]: row for row in named}


def same(shown: str, value: str) -> bool:
    """Whether a cell of the page has a value; an interval may follow it, and rates are a set."""
    parts = [part.strip() for part in shown.replace("–", "").split("|")[0].split(";")]
    return set(parts) == {part.strip() for part in value.split(";")}


def test_the_page_has_what_people_wrote_of_the_committed_board() -> None:
    """The findings, and what persons say; but no section on how to repeat them."""
    page = (folder("board") / "README.md").read_text("utf-8")
    found = FINDINGS.search(page)
    assert found
    headings = [line for line in found[0].splitlines() if line.startswith("##")]
    assert headings == ["## Findings", "## What persons say that images do not"]


SETTINGS = ("fmnist-dir", "cifar10-shards", "har-persons")


def test_the_page_says_from_which_difference_on_two_rows_are_told_apart(tmp_path: Path) -> None:
    planned = plan(Selection(artefacts=["board/table1"], scale="paper"))
    (table,) = make(planned, Records(Store(tmp_path / "none"))).results
    assert isinstance(table, Table)
    minus = table.frame[table.frame["column"].str.contains("/minus ")]
    settings = minus["column"].str.partition("/")[0]
    least = ((minus["high"] - minus["low"]) / 2).groupby(settings).min()
    points = [f"{least[name]:.1f}" for name in SETTINGS]
    page = " ".join((folder("board") / "README.md").read_text("utf-8").split())
    said = "from about {} points on Fashion-MNIST, {} on CIFAR-10 and {} on 30 persons"
    assert said.format(*points) in page
    scores = table.frame[table.frame["column"].str.endswith("/accuracy")]
    settings = scores["column"].str.partition("/")[0]
    wide = ((scores["high"] - scores["low"]) / 2).groupby(settings).agg(["min", "max"])
    spans = [f"{wide['min'][name]:.1f} to {wide['max'][name]:.1f}" for name in SETTINGS]
    said = "is {} points on Fashion-MNIST, {} on CIFAR-10 and {} on 30 persons"
    assert said.format(*spans) in page
