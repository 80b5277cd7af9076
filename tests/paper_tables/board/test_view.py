"""The numbers of a board that is half made, each worked out by hand: two recipes, two studies, two
trials each. The second recipe lacks a trial of FedAvg.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from repfl.paper_tables.board import analysis, figures, tables
from repfl.paper_tables.board import view as board_view
from repfl.paper_tables.board.view import PRINTED, View
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Table

VALUES = {  # test accuracies of the clients of the chosen trials, by method, recipe and study
    ("Local", "one", 1): [60, 80], ("Local", "one", 2): [70, 70],
    ("FedAvg", "one", 1): [50, 90], ("FedAvg", "one", 2): [60, 70],
    ("Local", "two", 1): [40, 50], ("Local", "two", 2): [40, 50],
    ("FedAvg", "two", 1): [30, 30],
}  # fmt: skip
CURVES = {"Local": [0.5, 0.6, 0.6], "FedAvg": [0.1, 0.5, 0.6]}
SENT = {"Local": 0, "FedAvg": 2048}


def cell(method: str, column: str, study: int) -> dict[str, Any]:
    made = (method, column, study) in VALUES
    clients = VALUES.get((method, column, study), [])
    return {
        "id": f"{method}-{column}-{study}",
        "row": method,
        "column": column,
        "column_label": column.title(),
        "method": method.lower(),
        "seed": study,
        "status": "done" if made else "missing",
        "reason": "" if made else "not computed yet",
        "accuracy": sum(clients) / 200,
        "dataset": "digits",
        "source": "record",
        "tier": "",
        "seconds": 10.0 * study,
        "peak_memory": 3 << 20,
        "recipe.training.rounds": 3,
        "traffic.up_values": 1024 * SENT[method],
        "traffic.up_codes": 0,
        "traffic.down_values": 1024 * SENT[method] * 2,
        "traffic.down_codes": 0,
        "work.multiply_adds": study * 12e6,
        "work.clients": 2,
        "work.rounds": 3,
        "metrics": {"points": {"newcomers": {"last": {"mean": 0.25 * study}}}} if made else {},
    }


def trials() -> pd.DataFrame:
    lines = []
    for method, column, study in ((m, c, s) for m in SENT for c in ("one", "two") for s in (1, 2)):
        for trial in (1, 2):
            open_ = (method, column, study, trial) == ("FedAvg", "two", 2, 2)
            lines.append(
                {
                    "row": method, "column": column, "seed": study, "trial": trial, "id": "",
                    "status": "missing" if open_ else "done",
                    "validation": float("nan") if open_ else 10.0 * trial * study,
                    "test": 0.0, "chosen": trial == 2,
                }
            )  # fmt: skip
    return pd.DataFrame(lines)


def clients(ids: list[str]) -> pd.DataFrame:
    lines = [
        {"id": f"{m}-{c}-{s}", "client": client, "correct": hits, "total": 100}
        for (m, c, s), values in VALUES.items()
        for client, hits in enumerate(values)
    ]
    return pd.DataFrame([line for line in lines if line["id"] in ids])


def rounds(ids: list[str], *names: str) -> pd.DataFrame:
    lines = [
        {"id": each, "round": round_, "name": names[0], "value": value}
        for each in ids
        for round_, value in zip((1, 2, 3), CURVES[each.split("-")[0]], strict=True)
    ]
    return pd.DataFrame(lines)


@pytest.fixture
def evidence() -> Evidence:
    places = [(m, c, s) for m in SENT for c in ("one", "two") for s in (1, 2)]
    known = SimpleNamespace(
        cells=pd.DataFrame([cell(*place) for place in places]),
        trials=trials,
        clients=clients,
        rounds=rounds,
        scale="smoke",
        seeds=(1, 2),
        published=pd.DataFrame(),
    )
    return cast(Evidence, known)


def values(table: Table) -> dict[str, dict[str, float]]:
    wide = table.frame.pivot(index="row", columns="column", values="ours")
    return {str(row): {str(k): v for k, v in line.items()} for row, line in wide.T.items()}


def test_a_recipe_is_spoken_of_once_every_method_has_made_its_last_trial(
    evidence: Evidence,
) -> None:
    view = View(evidence)
    assert view.complete == {"one": "One"}
    assert set(view.compared["column"]) == {"one"}
    assert set(view.scores.loc[view.scores["method"] == "FedAvg", "column"]) == {"one"}


def test_tuning_is_judged_where_no_run_as_printed_is_still_to_make(evidence: Evidence) -> None:
    as_printed = evidence.cells.assign(row=evidence.cells["row"] + PRINTED)
    both = pd.concat([evidence.cells, as_printed])
    known = SimpleNamespace(**{**vars(evidence), "cells": both})
    assert View(cast(Evidence, known)).missing_printed == {"two"}
    assert View(evidence).missing_printed == set()


def test_what_is_shown_of_every_run(evidence: Evidence) -> None:
    line = View(evidence).shown_scores.set_index("id").loc["FedAvg-one-2"]
    told = line.drop(["method", "column", "study"]).astype(float).round(6).to_dict()
    assert told == {
        "value": 65, "decile": 61, "harm": 50, "loss": 10, "newcomers": 50, "traffic": 1024.0,
        "work": 4, "seconds": 20, "memory": 3, "rounds": 3,
    }  # fmt: skip


def test_accuracy_is_shown_of_complete_methods_and_compared_where_all_are(
    evidence: Evidence,
) -> None:
    table = tables.table1(evidence)
    found = values(table)
    assert found["Local"] == {"one/accuracy": 70, "two/accuracy": 45}
    assert found["FedAvg"]["one/accuracy"] == 67.5
    assert pd.isna(found["FedAvg"]["two/accuracy"])
    assert [column.best for column in table.layout.columns] == ["high", None]
    assert table.summary["minus Local"].dropna().to_dict() == {"FedAvg": -2.5}


def test_what_tuning_is_worth_has_no_winner_before_all_trials_are_made(evidence: Evidence) -> None:
    best = {column.key: column.best for column in tables.table4(evidence).layout.columns}
    assert (best["one/tuned"], best["one/printed"]) == ("high", "high")
    assert (best["two/tuned"], best["two/printed"]) == (None, None)


def test_costs_are_of_the_recipes_that_are_spoken_of(evidence: Evidence) -> None:
    table = tables.table3(evidence)
    assert values(table)["FedAvg"] == {
        "traffic": 1024, "work": 3, "seconds": 15, "memory": 3, "rounds": 3, "spread": 15,
    }  # fmt: skip
    assert values(table)["Local"]["rounds"] == 2
    assert table.caption.startswith("Means over studies, One. ")
    assert not table.frame["reason"].any()


def test_an_added_recipe_moves_no_mean_and_its_own_rows_come_last(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an addendum the mean over both recipes would be 57.5 for Local."""
    for module in (board_view, tables):
        monkeypatch.setattr(module, "ADDED_COLUMNS", ("two",))
    done = evidence.cells[evidence.cells["status"] == "done"]
    guest = done[(done["row"] == "Local") & (done["column"] == "two")].assign(row="Guest")
    trials = evidence.trials()[lambda t: t["status"] == "done"]
    later = {"cells": pd.concat([done, guest]), "trials": lambda: trials}
    view = View(cast(Evidence, SimpleNamespace(**{**vars(evidence), **later})))
    assert view.complete == {"one": "One", "two": "Two"}
    assert (view.shown, view.guests) == ({"one": "One"}, ("Guest",))
    assert view.mean("value").dropna().to_dict() == {"Local": 70, "FedAvg": 67.5}
    assert "Guest" in tables.table1(view.evidence).layout.rows
    assert "Guest" not in tables.table3(view.evidence).layout.rows
    assert {c.key for c in tables.table4(view.evidence).layout.columns} == {
        "one/tuned", "one/printed", "one/gain",
    }  # fmt: skip
    ranked = figures.fig1(view.evidence).data
    assert set(ranked.loc[ranked["panel"] == "rank", "method"]) == {"Local", "FedAvg"}
    assert "Guest" in set(ranked.loc[ranked["panel"] == "Two", "method"])


def test_clients_are_of_one_recipe_each(evidence: Evidence) -> None:
    found = values(tables.table2(evidence))["FedAvg"]
    assert (found["one/harm"], found["one/newcomers"], found["one/decile"]) == (50, 37.5, 57.5)
    assert found["one/loss"] == 10


def test_the_figure_fills_the_points_of_ranks_by_the_test_that_the_text_names(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two methods are always within Nemenyi's critical difference of two studies."""

    def overall(scores: pd.DataFrame) -> tuple[str, pd.DataFrame]:
        return "FedAvg", pd.DataFrame({"near": {"Local": False, "FedAvg": True}})

    monkeypatch.setattr(analysis, "overall", overall)
    data = figures.fig1(evidence).data.set_index(["panel", "method"])["near"]
    assert data["rank"].to_dict() == {"Local": False, "FedAvg": True}
