"""The numbers of a board that is half made, each worked out by hand: two recipes, two studies, two
trials each. The second recipe lacks a trial of FedAvg.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

import repfl
from repfl.bench.report.show_text import NO_RECORDS
from repfl.bench.store.contents import Metrics
from repfl.paper_tables.board import analysis, artefacts
from repfl.paper_tables.board.analysis import PRINTED, Board
from repfl.paper_tables.core.drawing import figure_style
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
        "bytes": 3 * 1024 * SENT[method],
        "work.multiply_adds": study * 12e6,
        "work.clients": 2,
        "work.rounds": 3,
        "metrics": newcomers(0.25 * study) if made else None,
    }


def newcomers(accuracy: float) -> Metrics:
    """The numbers of a run that scored newcomers alone."""
    one = {"mean": accuracy, "pooled": accuracy, "round": 3}
    point = {"last": {"mean": accuracy}, "max": one, "best_val": None}
    return Metrics.model_validate({"value": None, "round": 3, "points": {"newcomers": point}})


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
    board = Board(evidence)
    assert board.complete == board.shown == {"one": "One"}
    assert set(board.ranked(board.compared)["column"]) == {"one"}
    assert set(board.runs.loc[board.runs["row"] == "FedAvg", "column"]) == {"one"}


def test_what_is_shown_of_every_run(evidence: Evidence) -> None:
    line = Board(evidence).runs.set_index("id").loc["FedAvg-one-2"]
    told = line.drop(["row", "column", "seed"]).astype(float).round(6).to_dict()
    assert told == {
        "value": 65, "decile": 61, "harm": 50, "loss": 5, "newcomers": 50, "traffic": 1024.0,
        "work": 4, "seconds": 20, "memory": 3, "rounds": 3,
    }  # fmt: skip


def test_accuracy_is_shown_of_complete_methods_and_compared_where_all_are(
    evidence: Evidence,
) -> None:
    table = artefacts.table1(evidence)
    found = values(table)
    assert (found["Local"]["one/accuracy"], found["Local"]["two/accuracy"]) == (70, 45)
    assert found["FedAvg"]["one/accuracy"] == 67.5
    assert pd.isna(found["FedAvg"]["two/accuracy"])
    best = {column.key: column.best for column in table.layout.columns}
    assert (best["one/accuracy"], best["two/accuracy"]) == ("high", None)
    assert table.summary["minus Local"].dropna().to_dict() == {"FedAvg": -2.5}


def test_ranks_and_differences_are_numbers_of_the_table(evidence: Evidence) -> None:
    """In both studies of the first recipe Local is ahead or equal: 70 to 70, and 70 to 65."""
    table = artefacts.table1(evidence)
    found = values(table)
    assert [found[row]["rank/mean"] for row in ("Local", "FedAvg")] == [1.25, 1.75]
    assert [found[row]["rank"] for row in ("Local", "FedAvg")] == [1, 2]
    assert [found[row]["rank/frozen"] for row in ("Local", "FedAvg")] == [1, 2]
    gap = table.cell("FedAvg", "one/minus Local")
    assert gap is not None
    assert gap["ours"] == -2.5
    assert gap["low"] < -2.5 < gap["high"]
    assert gap["low"] + gap["high"] == pytest.approx(-5)


def test_what_tuning_is_worth_has_no_winner_before_all_trials_are_made(evidence: Evidence) -> None:
    as_printed = evidence.cells.assign(
        row=evidence.cells["row"] + PRINTED, accuracy=evidence.cells["accuracy"] - 0.01
    )
    both = pd.concat([evidence.cells, as_printed])
    known = cast(Evidence, SimpleNamespace(**{**vars(evidence), "cells": both}))
    table = artefacts.table4(known)
    best = {column.key: column.best for column in table.layout.columns}
    assert (best["one/tuned"], best["one/printed"], best["one/gain"]) == ("high", "high", None)
    assert (best["two/tuned"], best["two/printed"]) == (None, None)
    assert values(table)["FedAvg"]["one/gain"] == pytest.approx(1)
    assert values(table)["FedAvg"]["one/printed"] == pytest.approx(66.5)


def test_costs_are_of_the_recipes_that_are_spoken_of(evidence: Evidence) -> None:
    table = artefacts.table3(evidence)
    assert values(table)["FedAvg"] == {
        "traffic": 1024, "work": 3, "seconds": 15, "memory": 3, "rounds": 3, "spread": 15,
    }  # fmt: skip
    assert values(table)["Local"]["rounds"] == 2
    assert table.caption.startswith("Means over studies, One. ")
    assert not table.frame["reason"].any()


@pytest.fixture
def later(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> Evidence:
    """Both recipes complete, the second one added by an addendum, with a row of its own."""
    for module in (analysis, artefacts):
        monkeypatch.setattr(module, "ADDED_COLUMNS", ("two",))
    done = evidence.cells[evidence.cells["status"] == "done"]
    guest = done[(done["row"] == "Local") & (done["column"] == "two")].assign(row="Guest")
    trials = evidence.trials()[lambda t: t["status"] == "done"]
    changes = {"cells": pd.concat([done, guest]), "trials": lambda: trials}
    return cast(Evidence, SimpleNamespace(**{**vars(evidence), **changes}))


def test_an_added_recipe_moves_no_mean_and_its_own_rows_come_last(later: Evidence) -> None:
    """Without an addendum the mean over both recipes would be 57.5 for Local."""
    board = Board(later)
    assert board.complete == {"one": "One", "two": "Two"}
    assert (board.shown, board.order) == ({"one": "One"}, ["Local", "FedAvg", "Guest"])
    assert board.mean("value").dropna().to_dict() == {"Local": 70, "FedAvg": 67.5}
    first = artefacts.table1(later)
    assert "Guest" in first.layout.rows
    assert first.cell("Guest", "rank") is None
    assert first.cell("Guest", "two/rank") is not None
    assert first.cell("Guest", "one/accuracy") is None
    assert "Guest" not in artefacts.table3(later).layout.rows
    assert {c.key for c in artefacts.table4(later).layout.columns} == {
        "one/tuned", "one/printed", "one/gain",
    }  # fmt: skip
    ranked = artefacts.fig1(later).data
    assert set(ranked.loc[ranked["panel"] == "rank", "row"]) == {"Local", "FedAvg"}
    assert "Guest" in set(ranked.loc[ranked["panel"] == "two", "row"])


def test_clients_are_of_one_recipe_each(evidence: Evidence) -> None:
    found = values(artefacts.table2(evidence))["FedAvg"]
    assert (found["one/harm"], found["one/newcomers"], found["one/decile"]) == (50, 37.5, 57.5)
    assert found["one/loss"] == 10


def test_the_figure_fills_the_points_of_ranks_by_the_test_that_the_text_names(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two methods are always within Nemenyi's critical difference of two studies."""

    def overall(_: pd.DataFrame) -> tuple[str, pd.DataFrame]:
        near = {"near": {"Local": False, "FedAvg": True}}
        return "FedAvg", pd.DataFrame(near).assign(rank=[2.0, 1.0])

    monkeypatch.setattr(analysis, "overall", overall)
    data = artefacts.fig1(evidence).data.set_index(["panel", "row"])["filled"]
    assert data["rank"].to_dict() == {"Local": False, "FedAvg": True}


def test_figures_draw_what_their_data_say(evidence: Evidence) -> None:
    """Every row has its line, filled and hollow points are as the data have them."""
    for make in (artefacts.fig1, artefacts.fig2, artefacts.fig3, artefacts.fig4):
        figure = make(evidence)
        canvas = figure.draw(figure_style.new_canvas)
        for axes, key in zip(canvas.axes, dict.fromkeys(figure.data["panel"]), strict=False):
            points = figure.data[figure.data["panel"] == key].dropna(subset=["value"])
            drawn = {
                filled: sorted(
                    x
                    for line in axes.get_lines()
                    if line.get_marker() == "o"
                    and (line.get_markerfacecolor() != "white") == filled
                    for x in np.ravel(line.get_xdata())
                )
                for filled in (True, False)
            }
            for filled, values_of in drawn.items():
                wanted = points.loc[points["filled"] == filled, "value"]
                assert values_of == pytest.approx(sorted(wanted)), (figure.name, key)
        labels = [label.get_text() for label in canvas.axes[0].get_yticklabels()]
        shown = set(figure.data["row"])
        assert labels == [row for row in ("Local", "FedAvg") if row in shown]
        assert shown


def test_two_rows_of_the_board_can_be_compared_by_study() -> None:
    asked = {"scale": "paper", "results": NO_RECORDS}
    found = repfl.compare("board/table1", "FedAvg + FT", "FedOBP", **asked)
    images = found.loc[["accuracy, Fashion-MNIST, Dir(0.3)", "accuracy, CIFAR-10, four classes"]]
    assert (images["seeds"] == 3).all()
    assert (images["low"] < images["difference"]).all()
    differs = (images["low"] > 0) | (images["high"] < 0)
    assert list(images["p"] < 0.05) == list(differs)
    turned = repfl.compare("board/table1", "FedOBP", "FedAvg + FT", **asked).loc[images.index]
    assert list(turned["p"]) == pytest.approx(list(images["p"]))
