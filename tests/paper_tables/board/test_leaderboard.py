"""The leaderboard on the board's page is the one that the committed runs give."""

from __future__ import annotations

from pathlib import Path

from repfl.bench.grid.grid import folder
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import build
from repfl.bench.store.store import Store


def test_the_page_has_the_table_of_the_committed_runs(tmp_path: Path) -> None:
    request = build.Request(plan(Selection(["board"], scale="paper")), best=True)
    build.report(request, Store(tmp_path / "none"), tmp_path / "report")
    page = (folder("board") / "README.md").read_text("utf-8")
    _, _, rest = page.partition("<!-- leaderboard: report/leaderboard.md, compared by a test -->\n")
    table, end, _ = rest.partition("<!-- end of the leaderboard -->")
    assert end
    assert table == (tmp_path / "report" / "leaderboard.md").read_text("utf-8")
