"""The PFedDST artefacts from invented evidence: claims answer at their scale; the grid."""

from __future__ import annotations

from math import isnan

import pandas as pd
import pytest

from repfl.paper_tables.core.drawing.figure_style import new_canvas, style
from repfl.paper_tables.core.result import Figure, State
from repfl.paper_tables.pfeddst import settings, speed
from repfl.paper_tables.pfeddst.curves import per_round
from tests.paper_tables.pfeddst.evidence import PAPER, evidence, make, table
from tests.paper_tables.planned import planned


def test_one_of_two_runs_of_figure_2_still_draws_and_leaves_its_claims_open() -> None:
    found = make("fig2", fails=lambda item: item.row == "random")
    assert isinstance(found, Figure)
    assert "random on cifar10: failed (seed 0): out of memory" in found.notes
    told = [c.state for c in found.claims if "peers chosen" in c.text or "own model" in c.text]
    assert told == [State.OPEN] * 3
    with style():
        found.draw(new_canvas)


# -- table 2 ---------------------------------------------------------------------------------------


def test_the_two_printed_accuracies_stand_at_their_methods_last_round() -> None:
    frame = table("table2", "paper").frame
    printed = frame[frame["source"] != ""].set_index(["row", "column"])
    assert list(printed.index) == [("DFedPGP", "cifar100/last"), ("PFedDST", "cifar10/last")]
    assert list(printed["printed"]) == [79.41, 92.25]


def test_quantities_are_read_off_a_curve() -> None:
    rounds = pd.DataFrame({"round": [2, 4, 6], "name": "post_agg/mean", "value": [0.5, 0.7, 0.9]})
    cell = pd.Series({"recipe.clients": 10})
    assert speed.first_at(70)(cell, rounds) == 4
    assert isnan(speed.first_at(95)(cell, rounds))
    assert speed.mean_over_rounds(cell, rounds) == pytest.approx((50 + 50 + 60 + 70 + 80 + 90) / 6)
    lines = {"name": ["traffic/down_values", "traffic/down_codes"] * 2, "round": [1, 1, 2, 2]}
    sent = pd.DataFrame(lines | {"value": [3e7, 1e7, 1e7, 1e7]})
    assert speed.received(cell, sent) == pytest.approx(3.0)


def test_added_rows_stand_aside_and_the_seven_methods_compete() -> None:
    found = table("table2", "paper")
    assert found.layout.rows[:7] == settings.METHODS
    aside = set(found.layout.aside)
    assert {"PFedDST, header term as printed", "PFedDST, λ = ∞", "DFedPGP, push-sum"} <= aside
    assert {"FedAvg, P2", "PFedDST, P3"} <= aside
    assert set(found.frame["row"]) - set(settings.METHODS) == aside
    assert set(found.summary.index) == set(settings.METHODS)


def test_mixed_models_come_from_the_same_runs() -> None:
    rows = ("DFedPGP", "DFedPGP, mixed models")
    own, mixed = (PAPER.cell("table2", row, "cifar10/last") for row in rows)
    assert own["runs"] == mixed["runs"]
    assert own["ours"] != mixed["ours"]


def test_work_counts_who_trains_and_for_how_long() -> None:
    given, rows = evidence("fig3", "paper"), ("FedAvg", "Dis-PFL", "DFedPGP", "PFedDST")
    assert [per_round(given, row, "cifar10") for row in rows] == [50, 500, 600, 600]


# -- the grid --------------------------------------------------------------------------------------


def test_desk_clients_hold_the_protocol_s_classes_and_as_many_images_on_both_data_sets() -> None:
    for item in planned("pfeddst", "desk"):
        options = item.cell.recipe.partition.options
        assert options["classes"] == {"cifar10": 2, "cifar100": 5}[item.cell.recipe.dataset]
        images = [options["classes"] * options[split] for split in ("train", "test")]
        assert images == [100, 200]
