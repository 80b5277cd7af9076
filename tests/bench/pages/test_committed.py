"""What the values that came with the code are made to say: below the paper's scale no verdict and
no order, at every scale counts that add up.
"""

from __future__ import annotations

import pytest

from repfl.bench.grid import grid as grids
from repfl.bench.pages import committed
from repfl.bench.report import numbers, render
from repfl.paper_tables.core.result import Table
from repfl.paper_tables.core.verdict import EXACT, UNJUDGED

SMALLER = [
    (paper, scale)
    for paper in grids.printed()
    for scale in grids.read(grids.files()[paper]).file.scales
    if scale != "paper"
]


def tables(paper: str, scale: str) -> list[Table]:
    return [result for result in committed.of(paper, scale) if isinstance(result, Table)]


def test_every_paper_has_a_smaller_scale() -> None:
    assert {paper for paper, _ in SMALLER} == set(grids.printed())


@pytest.mark.parametrize(("paper", "scale"), SMALLER)
def test_no_claim_is_judged_below_the_paper_s_scale_unless_it_is_free_of_scale(
    paper: str, scale: str
) -> None:
    claims = [claim for result in committed.of(paper, scale) for claim in result.claims]
    assert claims
    for claim in claims:
        assert claim.free or claim.holds is None, claim.id
        assert claim.free or not render.standing(claim).startswith(("holds", "does not")), claim.id


@pytest.mark.parametrize(("paper", "scale"), SMALLER)
def test_nothing_is_ranked_beside_the_paper_below_its_scale(paper: str, scale: str) -> None:
    """No order of rows against the paper's, no best and second among ours, no average ranks of
    print, and no difference but of numbers that need no training.
    """
    for table in tables(paper, scale):
        if not table.printed:
            continue
        assert table.orderings == (), table.key
        assert numbers.marks(table, "ours") == {}, table.key
        assert "average rank, published" not in table.summary.columns, table.key
        assert "| Does the order of the rows hold?" not in render.markdown(table)
        trained = table.frame[~table.frame["kind"].isin([*map(str, EXACT), ""])]
        assert set(trained["verdict"].dropna()) <= set(map(str, UNJUDGED)), table.key
        assert trained["difference"].isna().all(), table.key


@pytest.mark.parametrize("paper", ["fedobp", "fedselect", "pfeddst"])
def test_a_claim_on_settings_reads_right_at_every_scale(paper: str) -> None:
    """The paper's scale keeps a stated setting or does not; other scales have their own."""
    for scale in ("smoke", "desk", "paper"):
        claims = [c for result in committed.of(paper, scale) for c in result.claims if c.settings]
        assert claims
        for claim in claims:
            words = render.claim(claim, paper)
            assert claim.detail.startswith(f"settings of the {scale} scale: "), claim.id
            assert (" by the paper scale. Settings of the paper" in words) == (scale == "paper")
            assert (f"the {scale} scale has settings of its own" in words) == (scale != "paper")
