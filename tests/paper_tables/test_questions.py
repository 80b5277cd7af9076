"""The answers of QUESTIONS.md quote what tested pages and the numbers themselves say."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from repfl.bench.grid import grid as grids
from repfl.bench.report import overview, sheet, show_text

ROOT = Path(__file__).parents[2] / "paper_tables"
QUESTIONS = " ".join((ROOT / "QUESTIONS.md").read_text().split())


def test_a_quoted_number_stands_on_the_page_that_its_answer_links() -> None:
    pages = ("board/README.md", "fedobp/README.md", "fedpurin/README.md", "RESULTS.md")
    bench = ("../bench/GUIDE.md", "../bench/SPEED.md")
    told = " ".join((ROOT / name).read_text() for name in (*pages, *bench))
    for number in re.findall(r"\d+\.\d+", QUESTIONS):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", told), number


def test_the_runs_behind_verdicts_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPFL_RESULTS", str(tmp_path))
    made = [each for paper in grids.printed() for each in show_text.made(paper, "paper")]
    summaries = overview.summaries([sheet.sheet_of(each, {}) for each in made], {})
    (printed, _) = overview.apart(n for s in summaries for n in overview.judged(s.numbers))
    seeds = Counter(number.seeds for number in printed)
    assert set(seeds) == {1, 2}
    assert (
        f"Of {len(printed)} printed accuracies re-run at full scale, {seeds[2]} rest on two runs"
        f" and {seeds[1]} on one." in QUESTIONS
    )
    contradicted = sum(
        claim.state == "contradicts the paper's own numbers"
        for result in made
        if result.paper == "fedobp"
        for claim in result.claims
    )
    assert contradicted == 5
    assert "five sentences contradict its own numbers" in QUESTIONS
