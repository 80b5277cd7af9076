"""Names of papers and code in a text, and where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.grid import grid as grids
from repfl.bench.report.links import named

PAPERS = [paper for paper in grids.files() if paper != "board"]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_says_where_it_is_and_its_page_links_the_same(paper: str) -> None:
    file = grids.files()[paper]
    found = [address for _, address in named(grids.read(file).file.sources)]
    assert len(found) >= 2
    head = Path(file).with_name("README.md").read_text("utf-8").split("\n## ")[0]
    assert [address for address in found if f"({address})" not in head] == []
