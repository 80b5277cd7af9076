"""What the board says in words, of numbers whose answers are known."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd

from repfl.bench.grid.grid import ROOT
from repfl.paper_tables.board import analysis, findings
from repfl.paper_tables.board.view import ADDED, View

NOISE = (-0.2, 0.0, 0.2)


def view(**changes: Any) -> View:
    """A board of one complete recipe; methods differ by round numbers and a little noise."""
    means = {"Local": 80.0, "FedAvg": 60.0, "FedAvg + FT": 85.0, "FedPURIN": 85.2, "FedOBP": 79.9}
    sent = {"Local": 0.0, "FedAvg": 100.0, "FedAvg + FT": 100.0, "FedPURIN": 40.0, "FedOBP": 50.0}
    late = {name: mean - 5 for name, mean in means.items() if name != "FedOBP"}
    harmed = {"FedAvg": 90.0, "FedAvg + FT": 10.0, "FedPURIN": 5.0, "FedOBP": 50.0}
    lines = [
        {"method": name, "study": study, "value": mean + NOISE[(study + place) % 3]}
        for place, (name, mean) in enumerate(means.items())
        for study in range(3)
    ]
    scores = pd.DataFrame(lines).assign(column="c", work=7.0)
    for field, own in {"traffic": sent, "harm": harmed, "newcomers": late}.items():
        scores[field] = scores["method"].map(own)
    printed = scores.assign(value=scores["value"] - 1 + 8 * (scores["method"] == "FedOBP"))

    def mean(name: str) -> pd.Series:
        return scores.groupby("method")[name].mean()

    known = {
        "complete": {"c": "Digits"},
        "columns": {"c": "Digits"},
        "missing": {"c": []},
        "methods": tuple(means),
        "apart": (),
        "scores": scores,
        "frozen": scores,
        "printed": printed,
        "missing_printed": set(),
        "mean": mean,
        "evidence": SimpleNamespace(scale="paper"),
    }
    known |= changes
    return cast(View, SimpleNamespace(**{"shown": known["complete"], **known}))


def test_the_leader_is_named_with_those_that_are_not_significantly_different() -> None:
    first = next(findings.accuracy(view()))
    assert "Digits: FedPURIN has the highest accuracy of 5 methods, 85.2 %" in first
    assert "85.2 %; FedAvg + FT is not significantly different (Games-Howell" in first
    assert "3 studies" in first


def test_the_frozen_protocol_is_told_before_the_rows_that_its_addenda_added() -> None:
    """FedBABU's row leads once it has been replaced by one that searches more."""
    scores = view().scores

    def like(name: str, gain: float) -> pd.DataFrame:
        rows = scores[scores["method"] == "Local"]
        return rows.assign(method=name, value=rows["value"] + gain)

    board = View.__new__(View)
    added = ["FedBABU, tuned rate", "FedAvg + FT, tuned rate"]
    parts = [scores, like("FedBABU", -9), like(added[0], 13), like(added[1], 12)]
    board.__dict__["shown_scores"] = pd.concat(parts)
    board.__dict__["complete"] = {"c": "Digits"}
    board.__dict__["missing"] = {"c": []}
    board.apart, board.methods = ("FedBABU",), (*scores["method"].unique(), *added)
    first, addenda, leader, *_ = findings.accuracy(board)
    assert first.startswith("Frozen protocol. Digits: FedPURIN has the highest accuracy of 6 ")
    assert "“FedAvg + FT, tuned rate” also search a fine-tuning rate" in addenda
    assert addenda.endswith("The figure of ranks and the lines below include them.")
    assert "Digits: FedBABU, tuned rate has the highest accuracy of 7 methods" in leader


def test_over_settings_accuracy_and_ranks_are_tested_each_by_its_own_rule() -> None:
    """Of five methods in six studies, ranks differ significantly from 2.5 on (Demsar's table)."""
    scores = view().scores
    both = pd.concat([scores, scores.assign(column="d")])
    two = {"c": "Digits", "d": "More digits"}
    leader = next(findings.accuracy(view(scores=both, compared=both, complete=two)))
    assert leader.endswith(
        "Over 6 studies FedPURIN ranks first on average (mean rank 1.3 of 5); in accuracy FedAvg +"
        " FT is not significantly different (Games-Howell). By ranks alone, 3 others are not"
        " significantly different (Nemenyi's critical difference, 2.5 ranks)."
    )


def test_every_row_that_an_addendum_added_is_planned_and_no_other_is_called_added() -> None:
    """The frozen protocol's 28 rows are the list `all` of the grid."""
    rows = tomllib.loads((ROOT / "board" / "grid.toml").read_text())["rows"]
    later = [row["label"] for name in ("before", "as-its-code", "own-rate") for row in rows[name]]
    assert set(later) == set(ADDED)
    assert not {row["label"] for row in rows["all"]} & set(ADDED)
    assert len(rows["all"]) == 28


def test_a_method_without_a_score_is_named_with_the_reason() -> None:
    known = view()
    lost = (known.scores["method"] == "FedOBP") & (known.scores["study"] == 2)
    first = next(findings.accuracy(view(scores=known.scores[~lost])))
    assert "No score, since all trials of a study diverged: FedOBP" in first
    assert "of 4 methods" in first


def test_rows_apart_are_shown_and_move_no_interval() -> None:
    apart = pd.DataFrame({"method": "Star-PFL", "column": "c", "study": range(3), "value": 7.0})
    board = View.__new__(View)
    board.__dict__["shown_scores"] = pd.concat([view().scores, apart])
    shown, alone = board.method_means("c"), analysis.method_means(view().scores, "c")
    assert shown.means["Star-PFL"] == 7
    assert shown.pairs.variances.equals(alone.pairs.variances)
    assert "Star-PFL" not in set(board.scores["method"])


def test_methods_are_counted_against_local_training_and_the_papers_methods_placed() -> None:
    _, beside, papers = findings.accuracy(view())
    assert "Digits: 2 of 4 methods are better, 1 is worse (FedAvg). In points: FedA" in beside
    assert "FedAvg −20.0 (" in beside
    assert "FedPURIN 1st, +0.2 (" in papers
    assert "FedOBP 4th, −5.1 (" in papers


def test_who_harms_least_and_most_and_who_serves_unseen_clients() -> None:
    harm, late = findings.clients(view())
    assert "FedPURIN 5.0 % (fewest), median method 30 %, FedAvg 90.0 %" in harm
    assert "FedPURIN 80.2 %, local training 75.0 %" in late


def test_what_tuning_is_worth_and_who_would_lead_without() -> None:
    (said,) = findings.tuning(view())
    assert "adds −0.6 points on average over 5 methods" in said
    assert "least for FedOBP (−7.0 (" in said
    assert "1 score higher as printed, 1 significantly. As printed FedOBP would lead with" in said
    assert said.endswith("86.9 %; tuned it is 4th.")
    assert list(findings.tuning(view(missing_printed={"c"}))) == []


def test_of_a_setting_with_trials_to_make_nothing_is_said_but_how_far_it_is() -> None:
    (said,) = findings.accuracy(view(complete={}, missing={"c": ["FedOBP", "Local"]}))
    assert said == "Nothing is said yet of Digits (3 of 5 methods are complete)."


def test_nothing_is_said_of_the_self_test() -> None:
    digits = view(evidence=SimpleNamespace(scale="smoke"))
    assert findings.of(digits, findings.accuracy) == ()
