"""What the board says in words, of numbers whose answers are known."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any

import pandas as pd

from repfl.bench.grid.grid import ROOT
from repfl.paper_tables.board import findings
from repfl.paper_tables.board.analysis import ADDED, Board

NOISE = (-0.2, 0.0, 0.2)
MEANS = {"Local": 80.0, "FedAvg": 60.0, "FedAvg + FT": 85.0, "FedPURIN": 85.2, "FedOBP": 79.9}
HARMED = {"FedAvg": 90.0, "FedAvg + FT": 10.0, "FedPURIN": 5.0, "FedOBP": 50.0}


def runs(means: dict[str, float]) -> pd.DataFrame:
    """One complete recipe; methods differ by round numbers and a little noise."""
    lines = [
        {"row": name, "seed": seed, "value": mean + NOISE[(seed + place) % 3]}
        for place, (name, mean) in enumerate(means.items())
        for seed in range(3)
    ]
    return pd.DataFrame(lines).assign(column="c", harm=lambda t: t["row"].map(HARMED))


def board(means: dict[str, float] | None = None, **changes: Any) -> Board:
    made = runs(means or MEANS)
    board = Board.__new__(Board)
    known = {
        "evidence": SimpleNamespace(scale="paper"),
        "runs": made,
        "columns": {"c": "Digits"},
        "complete": {"c": "Digits"},
        "shown": {"c": "Digits"},
        "replaced": tuple(row for row in dict.fromkeys(made["row"]) if row == "FedBABU"),
        "rows": tuple(dict.fromkeys(made["row"])),
        "printed": made.assign(value=made["value"] - 1 + 8 * (made["row"] == "FedOBP")),
        "printed_cells": pd.DataFrame(columns=["status", "column"]),
        "trials": pd.DataFrame(columns=["status", "row"]),
    }
    board.__dict__.update(known | changes)
    return board


def test_the_leader_is_named_and_those_that_are_not_significantly_different_counted() -> None:
    """In both readings, and how many are significantly above and below local training."""
    first, digits = findings.accuracy(board())
    assert first == "FedPURIN ranks first of 5 equally tuned rows"
    led = "FedPURIN has 85.2 %, the most of 5 rows (1 not significantly different)"
    assert digits == (
        f"Digits, frozen protocol: {led}; addenda: {led};"
        " 2 are significantly above Local and 1 below."
    )


def test_the_frozen_protocol_keeps_its_leader_beside_the_rows_that_addenda_added() -> None:
    """FedBABU's row leads once it has been replaced by one that searches more."""
    later = {"FedBABU": 71.0, "FedBABU, tuned rate": 93.0, "FedAvg + FT, tuned rate": 92.0}
    first, digits = findings.accuracy(board(MEANS | later))
    assert first == (
        "FedPURIN leads the 6 rows of the frozen protocol; with the addenda FedBABU, tuned rate,"
        " which was added after the first results, ranks first of 7"
    )
    assert "frozen protocol: FedPURIN has 85.2 %, the most of 6 rows" in digits
    assert "addenda: FedBABU, tuned rate has 93.0 %, the most of 7 rows" in digits


def test_every_row_that_an_addendum_added_is_planned_and_no_other_is_called_added() -> None:
    """The frozen protocol's 28 rows are the list `all` of the grid."""
    rows = tomllib.loads((ROOT / "board" / "grid.toml").read_text())["rows"]
    later = [row["label"] for name in ("before", "as-its-code", "own-rate") for row in rows[name]]
    assert set(later) == set(ADDED)
    assert not {row["label"] for row in rows["all"]} & set(ADDED)
    assert len(rows["all"]) == 28


def test_rows_apart_are_shown_and_move_no_interval() -> None:
    apart = board(MEANS | {"FedBABU": 7.0}).means("c")
    assert apart.loc["FedBABU", "mean"] == 7
    assert pd.isna(apart.loc["FedBABU", "half"])
    assert apart["half"].dropna().equals(board().means("c")["half"])


def test_who_harms_least_and_most() -> None:
    (harm,) = findings.clients(board())
    assert harm == (
        "Clients worse off than with local training. Digits: 5.0 % under FedPURIN, the fewest,"
        " 30 % under the median method, 90.0 % under FedAvg."
    )


def test_the_best_accuracy_for_the_bytes_is_named() -> None:
    """FedOBP is dearer than Local and worse; FedAvg + FT is dearer than FedPURIN and worse."""
    sent = {"Local": 0.0, "FedAvg": 100.0, "FedAvg + FT": 100.0, "FedPURIN": 40.0, "FedOBP": 50.0}
    (said,) = findings.costs(board(runs=runs(MEANS).assign(traffic=lambda t: t["row"].map(sent))))
    assert said.endswith("Local (0 KiB, 80.0 %) and FedPURIN (40 KiB, 85.2 %).")


def test_under_how_many_rows_most_clients_are_better_off() -> None:
    """Half of the clients are not most of them; a reference without rows is not named."""
    shares = {"Local": pd.Series([80.0, 50.0, 50.1]), "FedAvg + FT": pd.Series(dtype=float)}
    (said,) = findings.better_off(shares)
    assert said == "Most clients are better off than with Local under 2 of 3 rows."
    assert list(findings.better_off({})) == []


def test_how_far_the_trials_of_the_median_row_are_apart() -> None:
    """Rows move by 10, 20 and 60 points; one with a missing trial does not count."""
    made = [
        {"row": row, "column": "c", "seed": 0, "validation": low + gap, "status": status}
        for row, gap, status in (("a", 10, "done"), ("b", 20, "done"), ("d", 60, "done"))
        for low, gap in ((30.0, 0.0), (30.0, gap))
    ]
    made.append({"row": "e", "column": "c", "seed": 0, "validation": 1.0, "status": "missing"})
    (said,) = findings.spreads(board(trials=pd.DataFrame(made)))
    assert "the median row moves by 20 on Digits" in said


def test_what_tuning_is_worth_is_said_once_all_runs_as_printed_are_made() -> None:
    (said,) = findings.tuning(board())
    assert said == (
        "Digits: five trials add −0.6 points on average over 5 methods, most to FedAvg (+1.0),"
        " least to FedOBP (−7.0); 1 score higher as printed, 1 significantly."
    )
    missing = pd.DataFrame({"status": ["missing"], "column": ["c"]})
    assert list(findings.tuning(board(printed_cells=missing))) == []


def test_notes_name_rows_apart_and_trials_that_are_missing_or_diverged() -> None:
    trials = pd.DataFrame({"status": ["missing", "diverged", "done"], "row": "FedBABU"})
    apart, missing, lost = findings.notes(board(MEANS | {"FedBABU": 7.0}, trials=trials))
    assert apart.endswith("not compared; in their place are FedBABU, tuned rate.")
    assert missing.startswith("1 of 3 trials are still to be made")
    assert lost == "Trials that diverged or failed, and so lost: FedBABU 1."


def test_nothing_is_said_of_the_self_test() -> None:
    digits = board(evidence=SimpleNamespace(scale="smoke"))
    assert findings.of(digits, findings.accuracy) == ()
    assert findings.of(board(), findings.accuracy)
