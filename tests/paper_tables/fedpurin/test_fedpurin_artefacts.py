"""The FedPURIN artefacts from invented evidence: variants, claims and the grid."""

from __future__ import annotations

import pytest

from repfl.bench.grid.grid import files, read
from repfl.bench.report import show_text
from repfl.paper_tables.core.result import frame_of
from tests.paper_tables.fedpurin.evidence import PAPER, table
from tests.paper_tables.planned import planned

GRID = read(files()["fedpurin"])


def test_scored_points_are_the_sparsified_the_dense_and_the_aggregated_model() -> None:
    points = ["FedPURIN, dense model", "FedPURIN, after aggregation"]
    values = {PAPER.cell("table1", r, "cifar10-dir0.1")["ours"] for r in ("FedPURIN", *points)}
    assert len(values) == 3
    beside = {"FedPer, 40 clients", "Separate, 20 rounds", *points}
    assert set(table("table1", "paper").layout.aside) == beside


# -- claims and closed forms -----------------------------------------------------------------------


def test_full_model_rows_come_from_the_ledger_and_flag_the_mask_slip() -> None:
    """The invented traffic has the true parameter counts, so the closed forms must
    come out; 19.06 must not.
    """
    small = PAPER.cell("table3", "FedAvg ↑", "cifar10/as the paper counts", "smoke")
    up, down, masked = (
        PAPER.cell("table3", row, "cifar100/as the paper counts", "smoke")
        for row in ("FedAvg ↑", "FedAvg ↓", "FedCAC ↑")
    )
    sent = [cell["ours"] for cell in (small, up, masked)]
    assert sent == pytest.approx([4.712, 18.910, 19.501], abs=5e-4)
    assert (down["verdict"], masked["verdict"]) == ("reproduced", "differs")
    assert "mask of a ResNet-8" in masked["reason"]


@pytest.mark.parametrize(("arrow", "line"), [("↑", "up"), ("↓", "down")])
@pytest.mark.parametrize("phase", ["t ≤ β", "t > β"])
def test_bytes_of_a_phase_are_the_mean_over_all_of_its_rounds(
    arrow: str, line: str, phase: str
) -> None:
    """The invented bytes of every round differ."""
    items = [
        item
        for item in planned("fedpurin", "smoke")
        if (item.artefact, item.row, item.column) == ("table3", "FedPURIN", "billing-cifar10")
    ]
    library = PAPER.records(items, None)
    beta, sent = items[0].cell.options["beta"], []
    for round_ in range(1, items[0].cell.rounds + 1):
        noted = library.noted(items[0], round_)
        billed = noted[f"traffic/{line}_values"] + noted[f"traffic/{line}_codes"] * (line == "up")
        if (round_ <= beta) == (phase == "t ≤ β"):
            sent.append(billed / items[0].cell.recipe.clients / 2**20)
    found = PAPER.cell(
        "table3", f"FedPURIN {arrow}, {phase}", "cifar10/as the paper counts", "smoke"
    )
    assert found["ours"] == pytest.approx(sum(sent) / len(sent), rel=1e-9)


def test_a_sum_that_is_a_unit_off_is_not_equal_to_the_printed_digits() -> None:
    (found,) = (made for made in show_text.made("fedpurin", "desk") if made.name == "table3")
    frame = frame_of(found).set_index(["row", "column"])
    sent = frame.loc[("FedCAC ↑", "fmnist/as the paper counts")]
    assert (round(sent["ours"], 2), sent["printed"], sent["verdict"]) == (4.83, 4.84, "differs")
    assert "sum of two rounded" in sent["reason"]
    assert frame.loc[("FedCAC ↑", "cifar10/as the paper counts"), "verdict"] == "reproduced"


# -- the grid --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["smoke", "desk"])
def test_beta_is_half_of_the_rounds_and_billing_runs_outlast_it(scale: str) -> None:
    methods = GRID.file.scales[scale].methods
    beta = methods["fedpurin"]["beta"]
    assert beta == methods["fedcac"]["beta"]
    assert GRID.recipe("cifar10-dir0.1", scale).training.rounds == 2 * beta
    for name in ("billing-fmnist", "billing-cifar10", "billing-cifar100"):
        assert GRID.recipe(name, scale).training.rounds == beta + 1
