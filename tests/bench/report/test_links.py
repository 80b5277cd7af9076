"""Names of papers and code in a text, and where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.grid import grid as grids
from repfl.bench.report.address import linked, named

PAPERS = [paper for paper in grids.files() if paper != "board"]


def test_what_a_text_names_gets_its_address() -> None:
    told = "One <b>, arXiv 2102.07078; code: some-one/Some_Code at 0abc123, https://a.org/x?id=Y."
    assert dict(named(told)) == {
        "arXiv 2102.07078": "https://arxiv.org/abs/2102.07078",
        "some-one/Some_Code at 0abc123": "https://github.com/some-one/Some_Code/tree/0abc123",
        "https://a.org/x?id=Y": "https://a.org/x?id=Y",
    }
    assert linked(told) == (
        'One &lt;b&gt;, <a href="https://arxiv.org/abs/2102.07078">arXiv 2102.07078</a>; code: '
        '<a href="https://github.com/some-one/Some_Code/tree/0abc123">some-one/Some_Code at '
        '0abc123</a>, <a href="https://a.org/x?id=Y">a.org</a>.'
    )


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_says_where_it_is_and_its_page_links_the_same(paper: str) -> None:
    file = grids.files()[paper]
    found = [address for _, address in named(grids.read(file).file.sources)]
    assert len(found) >= 2
    head = Path(file).with_name("README.md").read_text("utf-8").split("\n## ")[0]
    assert [address for address in found if f"({address})" not in head] == []
