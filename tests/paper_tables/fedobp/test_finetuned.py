"""FedAvg after fine-tuning beside FedOBP, in the authors' logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.paper_tables.core.result import State
from repfl.paper_tables.fedobp import finetuned, logs

PAGE = Path(__file__).parents[3] / "docs" / "methods" / "fedavg_ft.md"


def test_the_claim_is_a_check_of_ours_on_logs_alone() -> None:
    claim = finetuned.claim("paper")
    assert (claim.ours, claim.state) == (True, State.HOLDS)
    assert claim.state == finetuned.claim("smoke").state


def test_the_claim_fails_if_most_leads_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = logs.finetuned()
    turned = pairs.assign(**{finetuned.TUNED: pairs[finetuned.TUNED] - 5})
    monkeypatch.setattr(logs, "finetuned", lambda: turned)
    assert finetuned.claim("paper").state == State.FAILS


def test_the_page_has_the_pairs_and_says_how_many_are_narrow() -> None:
    pairs, page = finetuned.leads(), PAGE.read_text("utf-8")
    for column, row in pairs.iterrows():
        cells = (row[name] for name in (finetuned.TUNED, finetuned.OURS, finetuned.OURS_TUNED))
        assert f"| {column} | {' | '.join(f'{cell:.2f}' for cell in cells)} |" in page
    ahead = pairs["lead"][pairs["lead"] > 0]
    assert f"in {len(ahead)} of {len(pairs)} columns" in page
    assert (ahead <= 0.10).sum() == 5
    assert "in five of them by at most 0.10 points" in page
