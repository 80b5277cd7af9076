"""The FedOBP artefacts from invented evidence: closed forms come out, claims answer."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest

from repfl.paper_tables.core.result import State
from repfl.paper_tables.fedobp import layers
from tests.paper_tables.fedobp.evidence import PAPER, evidence, table
from tests.paper_tables.planned import as_table

# -- closed forms ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_fifteen_of_sixteen_counts_of_table_two_match_and_the_other_is_flagged(scale: str) -> None:
    found = table("table2", scale)
    counts = found.frame[found.frame["column"].str.endswith("/personal")]
    assert Counter(counts["verdict"]) == {"reproduced": 15, "differs": 1}
    wrong = counts[counts["verdict"] == "differs"].iloc[0]
    told = wrong[["row", "column", "printed", "ours"]].tolist()
    assert told == ["OrganAMNIST", "0.1/personal", 53, 59]
    assert "README, 28" in wrong["reason"]
    inputs = found.frame[found.frame["column"].str.endswith("/q")]
    assert set(inputs["verdict"]) == {"not comparable"}
    masks = found.frame[found.frame["column"].str.endswith("/masks")]
    assert list(masks["ours"]) == list(counts["ours"])
    sizes = found.frame[found.frame["column"] == "size"].set_index("row")["ours"]
    assert list(sizes) == [878538, 924708, 608702, 878538, 582026, 582026, 582539, 582539]


def test_table_one_flags_what_is_wrong_with_its_evidence() -> None:
    found = table("table1").frame
    wrong = found[found["verdict"] == "differs"]
    places = {(row, "samples") for row in ("EMNIST", "SVHN", "OrganCMNIST")}
    places |= {(row, "year") for row in ("OrganAMNIST", "OrganCMNIST")}
    assert set(zip(wrong["row"], wrong["column"], strict=True)) == places
    assert (wrong["reason"] != "").all()
    assert Counter(found["verdict"]) == {"reproduced": 27, "differs": 5}


# -- claims ----------------------------------------------------------------------------------------


def test_shares_that_move_by_less_than_a_printed_digit_have_not_moved() -> None:
    given = evidence("fig6", "paper")

    def shares(late: float) -> pd.DataFrame:
        rows = [
            ("cifar10", layer, round_, share if round_ <= 25 else 1 - late if first else late)
            for layer, share, first in (("conv1", 0.4, True), ("classifier", 0.6, False))
            for round_ in range(1, 101)
        ]
        return pd.DataFrame(rows, columns=["column", "layer", "round", "share"])

    found = {late: layers.moved(shares(late))[0] for late in (0.601, 0.7, 0.5)}
    assert found == {0.601: None, 0.7: True, 0.5: False}
    one_seed = layers.trend(given, shares(0.7))
    assert one_seed.state == State.OPEN
    assert "conv1 0.40 to 0.30, classifier 0.60 to 0.70" in one_seed.why


def test_variants_stand_aside_and_the_order_is_the_paper_scale_s() -> None:
    found = table("table3")
    assert {
        f"{name}, as defined"
        for name in ("APFL", "LG-FedAvg", "pFedFDA", "FLUTE", "FedDPA", "FedALA")
    } <= set(found.layout.aside)
    assert found.orderings == ()  # the order at this scale is no word on the paper's
    assert {o.rows for o in table("table3", "paper").orderings} == {13}


def test_printed_accuracies_are_marked_where_a_constant_does_as_well_whatever_ours_is() -> None:
    """One model for all clients is not compared with a constant of each client's own."""
    given = evidence("table4", "paper")
    organ = given.cells["column"].str.startswith("organa-dir0.1")
    given.cells.loc[organ, "floor.pooled"] = 0.6743
    frame = as_table(PAPER.artefacts["table4"](given)).frame.set_index(["row", "column"])
    best, floor, marks = "best round on test", "at the floor; best round on test", frame["mark"]
    assert marks["FedOBP", "organa-dir0.1"] == marks["Local-Only", "organa-dir0.1"] == floor
    assert marks["FedAvg", "organa-dir0.1"] == marks["FedOBP", "organa-dir0.5"] == best
    assert pd.isna(frame["verdict"]["FedOBP, corrected inputs", "organa-dir0.1"])
