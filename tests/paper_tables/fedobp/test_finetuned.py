"""FedAvg after fine-tuning beside FedOBP, in the authors' logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.paper_tables.core.result import State
from repfl.paper_tables.fedobp import logs

PAGE = Path(__file__).parents[3] / "docs" / "methods" / "fedavg_ft.md"


def test_the_claim_is_a_check_of_ours_on_logs_alone() -> None:
    claim = logs.finetuned_claim("paper")
    assert (claim.ours, claim.state) == (True, State.HOLDS)
    assert claim.state == logs.finetuned_claim("smoke").state


def test_the_claim_fails_if_most_leads_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = logs.last_runs()
    turned = runs.assign(finetuned_400=runs["finetuned_400"] - 5 * (runs["method"] == "FedAvg"))
    monkeypatch.setattr(logs, "last_runs", lambda: turned)
    assert logs.finetuned_claim("paper").state == State.FAILS


def test_the_page_has_the_pairs_and_says_how_many_are_narrow() -> None:
    pairs, page = logs.finetuned(), PAGE.read_text("utf-8")
    for column, row in pairs.iterrows():
        cells = (row[name] for name in (logs.TUNED, logs.OURS, logs.OURS_TUNED))
        assert f"| {column} | {' | '.join(f'{cell:.2f}' for cell in cells)} |" in page
    ahead = pairs["lead"][pairs["lead"] > 0]
    assert f"in {len(ahead)} of {len(pairs)} columns" in page
    assert (ahead <= 0.10).sum() == 5
    assert "in five of them by at most 0.10 points" in page
