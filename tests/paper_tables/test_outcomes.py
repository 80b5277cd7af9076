"""Every claim of every paper comes out either way: on evidence on which it holds, and on evidence
on which it does not.

A claim that is a condition on a table is tried on numbers that solve the condition; all others on
their artefact's invented evidence, changed until they hold and until they fail.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple

import pandas as pd
import pytest

from repfl.bench.grid.grid import printed
from repfl.paper_tables.core.claims.sentences import Sentence, judge
from repfl.paper_tables.core.result import Claim, Result
from tests.paper_tables.doctored import Case, Change, Doctored
from tests.paper_tables.papers import PAPERS
from tests.paper_tables.solving import filled, solve

CHANGES: dict[str, tuple[Case, ...]] = {
    name: import_module(f"tests.paper_tables.{paper.folder.name}.changes").CASES
    for name, paper in PAPERS.items()
}
CASES = [(paper, case) for paper, cases in CHANGES.items() for case in cases]
TIGHT, LOOSE = 1e-6, 1e4


class Weighed(NamedTuple):
    """A sentence that is a condition, as an artefact asked for it."""

    frame: pd.DataFrame
    scale: str
    said: Sentence

    def on(self, frame: pd.DataFrame) -> Claim:
        return judge(frame, self.scale, self.said)


class Rendered(NamedTuple):
    """A paper's artefacts at its own scale, and the conditions that they weighed."""

    results: dict[str, Result]
    weighed: dict[str, Weighed]


@cache
def rendered(paper: str) -> Rendered:
    """Everything of one paper from invented evidence, with an ear on every condition."""
    found: dict[str, Weighed] = {}
    given = PAPERS[paper]

    def listen(frame: pd.DataFrame, scale: str, said: Sentence) -> Claim:
        found[said.name] = Weighed(frame, scale, said)
        return judge(frame, scale, said)

    asking = [m for m in sys.modules.values() if getattr(m, "judge", None) is judge]
    asking = [m for m in asking if m.__name__.startswith("repfl.paper_tables.")]
    try:
        for each in asking:
            each.__dict__["judge"] = listen
        results = {
            name: make(given.evidence(name, "paper")) for name, make in given.artefacts.items()
        }
    finally:
        for each in asking:
            each.__dict__["judge"] = judge
    return Rendered(results, found)


@pytest.mark.parametrize("paper", printed())
def test_every_claim_is_tried_both_ways(paper: str) -> None:
    by_hand = [name for case in CHANGES[paper] for name in case.ids]
    claims = [claim.id for result in rendered(paper).results.values() for claim in result.claims]
    assert sorted([*rendered(paper).weighed, *by_hand]) == sorted(claims)


@pytest.mark.parametrize("paper", printed())
def test_conditions_hold_fail_and_stay_open_with_our_numbers(paper: str) -> None:
    for name, each in rendered(paper).weighed.items():
        for holds in (True, False):
            numbers = solve(each.said.condition, "ours", holds=holds)
            clear = each.on(filled(each.frame, numbers, "ours", TIGHT))
            noisy = each.on(filled(each.frame, numbers, "ours", LOOSE))
            assert clear.holds is holds, name
            assert noisy.holds is None, name


@pytest.mark.parametrize("paper", printed())
def test_conditions_hold_and_fail_with_printed_numbers(paper: str) -> None:
    for name, each in rendered(paper).weighed.items():
        if not each.said.print_ or each.said.logs:
            continue
        there = each.said.in_print or each.said.condition
        for holds in (True, False):
            numbers = solve(there, "published", holds=holds)
            found = each.on(filled(each.frame, numbers, "published", TIGHT))
            assert found.printed is holds, name


def judged(paper: str, case: Case, change: Change) -> dict[str, Claim]:
    """A case's claims on changed evidence."""
    evidence = Doctored(PAPERS[paper].evidence(case.artefact, "paper"))
    extra = change(evidence)
    result = rendered(paper).results[case.artefact]
    found: Sequence[Claim] = case.judge(evidence, result, extra)
    return {claim.id: claim for claim in found}


@pytest.mark.parametrize(
    ("paper", "case"), CASES, ids=[f"{paper}-{case.ids[0]}" for paper, case in CASES]
)
def test_claims_on_figures_masks_sweeps_and_settings_hold_and_fail(paper: str, case: Case) -> None:
    held, failed = judged(paper, case, case.holds), judged(paper, case, case.fails)
    for name in case.ids:
        assert held[name].answer is True, held[name]
        assert failed[name].answer is False, failed[name]
