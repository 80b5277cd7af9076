"""What the board says in words, of numbers whose answers are known."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd

from repfl.bench.grid.grid import ROOT
from repfl.paper_tables.board import analysis, findings, words
from repfl.paper_tables.board.view import ADDED, View

NOISE = (-0.2, 0.0, 0.2)


def view(**changes: Any) -> View:
    """A board of one complete recipe; methods differ by round numbers and a little noise."""
    means = {"Local": 80.0, "FedAvg": 60.0, "FedAvg + FT": 85.0, "FedPURIN": 85.2, "FedOBP": 79.9}
    sent = {"Local": 0.0, "FedAvg": 100.0, "FedAvg + FT": 100.0, "FedPURIN": 40.0, "FedOBP": 50.0}
    harmed = {"FedAvg": 90.0, "FedAvg + FT": 10.0, "FedPURIN": 5.0, "FedOBP": 50.0}
    lines = [
        {
            "method": name,
            "column": "c",
            "study": study,
            "value": mean + NOISE[(study + place) % 3],
            "harm": harmed.get(name, float("nan")),
            "newcomers": mean - 5 if name != "FedOBP" else float("nan"),
            "traffic": sent[name],
            "work": 7.0,
        }
        for place, (name, mean) in enumerate(means.items())
        for study in range(3)
    ]
    scores = pd.DataFrame(lines)
    printed = scores.assign(value=scores["value"] - 1 + 8 * (scores["method"] == "FedOBP"))

    def mean(name: str) -> pd.Series:
        return scores.groupby("method")[name].mean()

    known = {
        "spoken": {"c": "Digits"},
        "columns": {"c": "Digits"},
        "missing": {"c": []},
        "methods": tuple(means),
        "apart": (),
        "scores": scores,
        "frozen": scores,
        "printed": printed,
        "unprinted": set(),
        "mean": mean,
        "evidence": SimpleNamespace(scale="paper"),
    }
    return cast(View, SimpleNamespace(**(known | changes)))


def test_whoever_is_within_chance_of_the_leader_is_named_beside_it() -> None:
    first = next(findings.accuracy(view()))
    assert first.startswith("Digits: FedPURIN has the highest accuracy, 85.2 % (± ")
    assert "FedAvg + FT cannot be told apart from it" in first
    assert "between 5 rows and 3 studies" in first


def test_over_several_recipes_the_first_is_named_with_those_not_told_apart() -> None:
    one = view().scores
    both = pd.concat([one, one.assign(column="d", value=one["value"] - 10)], ignore_index=True)
    two = {"c": "Digits", "d": "Letters"}
    known = view(spoken=two, columns=two, missing={"c": [], "d": []}, scores=both, compared=both)
    first = next(findings.accuracy(known))
    assert first.startswith("Digits and Letters: FedPURIN ranks first on average (1.3 of 5, over 6")
    assert "FedAvg + FT cannot be told apart from it" in first
    assert not any("ranks first" in said for said in findings.accuracy(view()))


def test_the_frozen_protocol_is_told_before_the_rows_that_its_addenda_added() -> None:
    """FedBABU's row leads once it has been replaced by one that searches more."""
    scores = view().scores

    def like(name: str, gain: float) -> pd.DataFrame:
        rows = scores[scores["method"] == "Local"]
        return rows.assign(method=name, value=rows["value"] + gain)

    board = View.__new__(View)
    added = ["FedBABU, own rate", "FedAvg + FT, own rate"]
    parts = [scores, like("FedBABU", -9), like(added[0], 13), like(added[1], 12)]
    board.__dict__["shown_scores"] = pd.concat(parts)
    board.__dict__["spoken"] = {"c": "Digits"}
    board.__dict__["missing"] = {"c": []}
    board.apart, board.methods = ("FedBABU",), (*scores["method"].unique(), *added)
    first, addenda, leader, *_ = findings.accuracy(board)
    assert first.startswith(
        "Digits, frozen protocol: FedPURIN has the highest accuracy of 6 methods, 85.20 %."
    )
    assert first.endswith(" FedBABU is 5th.")
    assert "written when the first recipe had run, add “FedBABU, own rate” and" in addenda
    assert "“FedAvg + FT, own rate” also search a learning rate of fine-tuning" in addenda
    assert leader.startswith("Digits, with the added rows: FedBABU, own rate has the highest")


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
    fallen, first, *_ = findings.accuracy(view(scores=known.scores[~lost]))
    assert fallen == "Digits: all five trials of FedOBP diverged in some study: no score."
    assert "between 4 rows" in first


def test_who_is_less_certain_than_the_common_interval_says_is_named() -> None:
    scores = view().scores
    wild = scores["method"] == "FedOBP"
    loud = scores.assign(value=scores["value"] + 5 * wild * (scores["study"] - 1) ** 2)
    said = next(s for s in findings.accuracy(view(scores=loud)) if "equally noisy" in s)
    shares = analysis.noise_shares(loud, "c").sort_values(ascending=False)
    assert shares.sum() == 1
    most = 100 * shares.iloc[:2].sum()
    assert f"FedOBP and {shares.index[1]} make up {most:.0f} % of the noise" in said


def test_rows_apart_are_named_with_those_that_take_their_place() -> None:
    said = list(findings.accuracy(view(apart=("pFedSD", "FedBABU"))))
    assert any(
        "The rows pFedSD and FedBABU stand apart and are not compared; “pFedSD, before aggregation”"
        " and “FedBABU, own rate” are, in their place." in each
        for each in said
    )
    assert not any("stand apart" in each for each in findings.accuracy(view()))


def test_rows_apart_are_shown_and_move_no_interval() -> None:
    apart = pd.DataFrame({"method": "Star-PFL", "column": "c", "study": range(3), "value": 7.0})
    board = View.__new__(View)
    board.__dict__["shown_scores"] = pd.concat([view().scores, apart])
    shown, alone = board.standing("c"), analysis.standing(view().scores, "c")
    assert shown.means["Star-PFL"] == 7
    assert (shown.half, shown.apart) == (alone.half, alone.apart)
    assert "Star-PFL" not in set(board.scores["method"])


def test_methods_are_counted_above_beside_and_below_local() -> None:
    said = list(findings.accuracy(view()))
    assert (
        "Digits: 2 of 4 rows are above Local (80.0 %) by more than chance, 1 cannot be told"
        " apart from it, 1 is below: FedAvg." in said
    )
    assert any(s.startswith("Digits: FedAvg minus Local: −20.0 points (") for s in said)


def test_the_five_papers_methods_are_placed_among_all() -> None:
    said = list(findings.accuracy(view()))[-1]
    assert "FedPURIN is 1st of 5, +0.2 points (" in said
    assert "FedOBP is 4th of 5, −5.1 points (" in said


def test_who_harms_least_and_most_and_who_serves_newcomers() -> None:
    harm, late = findings.clients(view())
    assert "fewest clients score below their own Local model under FedPURIN, 5.0 %" in harm
    assert "most under FedAvg, 90.0 %; under the middle row 30 %" in harm
    assert "newcomers reach most with what FedPURIN gives them, 80.2 %; alone they reach" in late
    assert "points may be chance, and no other row lies within that distance. 1 row has" in late
    assert late.endswith("1 row has nothing for a client that joins late.")


def test_the_front_and_the_cheapest_of_those_that_lead() -> None:
    sent, _, close = findings.costs(view())
    assert "Local (0 KiB, 80.0 %) and FedPURIN (40 KiB, 85.2 %)" in sent
    assert "FedPURIN sends and receives least, 40 KiB" in close


def test_what_tuning_is_worth_and_who_would_lead_without() -> None:
    gain, lead = findings.tuning(view())
    assert "five trials are worth −0.6 points on average over 5 methods" in gain
    assert "least to FedOBP (−7.0 points" in gain
    assert gain.endswith(
        "1 method scores higher with the values that its paper prints and a learning rate of 0.05,"
        " 1 of them by more than chance."
    )
    assert lead == "Digits: as printed, FedOBP would lead with 86.9 %; tuned alike it is 4th."


def test_tuning_is_not_judged_before_every_method_has_run_as_printed() -> None:
    assert list(findings.tuning(view(unprinted={"c"}))) == []


def test_a_row_without_printed_values_takes_part_in_places_alone() -> None:
    printed = view().printed
    gain, lead = findings.tuning(view(printed=printed[printed["method"] != "FedPURIN"]))
    assert "on average over 4 methods" in gain
    assert lead.endswith("tuned alike it is 4th.")  # FedPURIN is first


def test_of_a_recipe_with_trials_to_make_nothing_is_said_but_how_far_it_is() -> None:
    (said,) = findings.accuracy(view(spoken={}, missing={"c": ["FedOBP", "Local"]}))
    assert said.startswith("Digits: 3 of 5 rows have made all their trials.")


def test_places_are_told_as_one_speaks() -> None:
    told = [words.ordinal(place) for place in (1, 2, 3, 4, 11, 12, 13, 21, 22, 111)]
    assert told == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "111th"]


def test_nothing_is_said_of_the_self_test() -> None:
    digits = view(evidence=SimpleNamespace(scale="smoke"))
    assert findings.of(digits, findings.accuracy) == ()
