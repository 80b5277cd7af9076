"""What the board says in words has the facts of numbers whose answers are known."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from repfl.bench.grid.grid import ROOT
from repfl.paper_tables.board import analysis, findings
from repfl.paper_tables.board.view import ADDED, View

MEANS = {"Local": 80.0, "FedAvg": 60.0, "FedAvg + FT": 85.0, "FedPURIN": 85.2, "FedOBP": 79.9}
SENT = {"Local": 0.0, "FedAvg": 100.0, "FedAvg + FT": 100.0, "FedPURIN": 40.0, "FedOBP": 50.0}
HARM = {"FedAvg": 90.0, "FedAvg + FT": 10.0, "FedPURIN": 5.0, "FedOBP": 50.0}
NOISE = (-0.2, 0.0, 0.2)


def view(**changes: Any) -> View:
    """A board of one complete recipe; methods differ by round numbers and a little noise."""
    lines = [
        {"method": name, "study": study, "value": mean + NOISE[(study + place) % 3]}
        for place, (name, mean) in enumerate(MEANS.items())
        for study in range(3)
    ]
    scores = pd.DataFrame(lines).assign(column="c", work=7.0)
    late = {name: mean - 5 for name, mean in MEANS.items() if name != "FedOBP"}
    for field, own in {"traffic": SENT, "harm": HARM, "newcomers": late}.items():
        scores[field] = scores["method"].map(own)
    printed = scores.assign(value=scores["value"] - 1 + 8 * (scores["method"] == "FedOBP"))
    known: dict[str, Any] = {
        "complete": {"c": "Digits"},
        "columns": {"c": "Digits"},
        "missing": {"c": []},
        "methods": tuple(MEANS),
        "apart": (),
        "scores": scores,
        "frozen": scores,
        "printed": printed,
        "missing_printed": set(),
        "mean": lambda name: scores.groupby("method")[name].mean(),
        "evidence": SimpleNamespace(scale="paper"),
    } | changes
    return cast(View, SimpleNamespace(**{"shown": known["complete"], **known}))


SCORES = view().scores
LOST = SCORES[(SCORES["method"] != "FedOBP") | (SCORES["study"] != 2)]
BOTH = pd.concat([SCORES, SCORES.assign(column="d")])
TWO = {"scores": BOTH, "compared": BOTH, "complete": {"c": "Digits", "d": "More digits"}}
OPEN = {"complete": {}, "missing": {"c": ["FedOBP", "Local"]}}
FACTS: list[tuple[Any, int, dict[str, Any], list[str]]] = [
    # the leader, and who is not significantly different from it
    (findings.accuracy, 0, {}, ["FedPURIN has the highest", "5 methods", "85.2 %", "3 studies"]),
    (findings.accuracy, 0, {}, ["85.2 %; FedAvg + FT is not significantly different"]),
    # local training: better, worse; the papers' methods beside tuned FedAvg
    (findings.accuracy, 1, {}, ["2 of 4 methods are better, 1 is worse (FedAvg)", "FedAvg −20.0"]),
    (findings.accuracy, 2, {}, ["FedPURIN 1st, +0.2 (", "FedOBP 4th, −5.1 ("]),
    # of five methods in six studies, ranks differ from 2.5 on (Demsar's table)
    (findings.accuracy, 0, TWO, ["6 studies", "mean rank 1.3 of 5", "accuracy FedAvg + FT is not"]),
    (findings.accuracy, 0, TWO, ["3 others", "critical difference, 2.5 ranks"]),
    (findings.accuracy, 0, {"scores": LOST}, ["all trials of a study diverged: FedOBP", "of 4 "]),
    # a setting with trials to make
    (findings.accuracy, 0, OPEN, ["Digits (3 of 5 methods are complete)"]),
    (findings.clients, 0, {}, ["FedPURIN 5.0 % (fewest)", "method 30 %", "FedAvg 90.0 %"]),
    (findings.clients, 1, {}, ["FedPURIN 80.2 %, local training 75.0 %"]),
    (findings.tuning, 0, {}, ["−0.6 points on average over 5 methods", "FedOBP (−7.0 ("]),
    (findings.tuning, 0, {}, ["1 score higher as printed, 1 significantly", "FedOBP would lead"]),
    (findings.tuning, 0, {}, ["86.9 %; tuned it is 4th"]),
]


@pytest.mark.parametrize(("sentences", "place", "changes", "facts"), FACTS)
def test_a_sentence_has_its_facts(
    sentences: Any, place: int, changes: dict[str, Any], facts: list[str]
) -> None:
    said = list(sentences(view(**changes)))[place]
    assert [fact for fact in facts if fact not in said] == []


def test_nothing_is_said_of_runs_to_make_nor_of_the_self_test() -> None:
    assert list(findings.tuning(view(missing_printed={"c"}))) == []
    digits = view(evidence=SimpleNamespace(scale="smoke"))
    assert findings.of(digits, findings.accuracy) == ()


def test_the_frozen_protocol_is_told_before_the_rows_that_its_addenda_added() -> None:
    """FedBABU's row leads once it has been replaced by one that searches more."""

    def like(name: str, gain: float) -> pd.DataFrame:
        rows = SCORES[SCORES["method"] == "Local"]
        return rows.assign(method=name, value=rows["value"] + gain)

    board = View.__new__(View)
    added = ["FedBABU, tuned rate", "FedAvg + FT, tuned rate"]
    parts = [SCORES, like("FedBABU", -9), like(added[0], 13), like(added[1], 12)]
    board.__dict__["shown_scores"] = pd.concat(parts)
    board.__dict__["complete"] = {"c": "Digits"}
    board.__dict__["missing"] = {"c": []}
    board.apart, board.methods = ("FedBABU",), (*MEANS, *added)
    first, _, leader, *_ = findings.accuracy(board)
    assert first.startswith("Frozen protocol. Digits: FedPURIN has the highest accuracy of 6 ")
    assert "Digits: FedBABU, tuned rate has the highest accuracy of 7 methods" in leader


def test_every_row_that_an_addendum_added_is_planned_and_no_other_is_called_added() -> None:
    """The frozen protocol's 28 rows are the list `all` of the grid."""
    rows = tomllib.loads((ROOT / "board" / "grid.toml").read_text())["rows"]
    later = [row["label"] for name in ("before", "as-its-code", "own-rate") for row in rows[name]]
    assert set(later) == set(ADDED)
    assert not {row["label"] for row in rows["all"]} & set(ADDED)
    assert len(rows["all"]) == 28


def test_rows_apart_are_shown_and_move_no_interval() -> None:
    apart = pd.DataFrame({"method": "Star-PFL", "column": "c", "study": range(3), "value": 7.0})
    board = View.__new__(View)
    board.__dict__["shown_scores"] = pd.concat([SCORES, apart])
    shown, alone = board.method_means("c"), analysis.method_means(SCORES, "c")
    assert shown.means["Star-PFL"] == 7
    assert shown.pairs.variances.equals(alone.pairs.variances)
    assert "Star-PFL" not in set(board.scores["method"])
