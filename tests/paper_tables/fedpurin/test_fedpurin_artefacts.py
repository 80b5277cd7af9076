"""The FedPURIN artefacts from invented evidence: everything printed is shown, and what is missing
says so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest

from repfl.bench.cells.grid import files, read
from repfl.paper_tables.core.figures import sheet, style
from repfl.paper_tables.core.result import Absent, Figure, Result, Table
from repfl.paper_tables.fedpurin.artefacts import ARTEFACTS
from tests.paper_tables.fakes import FakeEvidence

PAPER = "fedpurin"
GRID = read(files()[PAPER])
SCALES = ("smoke", "desk", "paper")
FOLDER = Path(__file__).resolve().parents[3] / "paper_tables" / PAPER


def make(name: str, scale: str = "smoke", **change: object) -> Result:
    evidence = FakeEvidence(PAPER, name, scale)
    return ARTEFACTS[name](
        evidence.change("failed", "out of memory", **change) if change else evidence
    )


def table(name: str, scale: str = "smoke", **change: object) -> Table:
    found = make(name, scale, **change)
    assert isinstance(found, Table)
    return found


def test_the_grid_and_the_functions_name_the_same_eight_artefacts() -> None:
    assert (
        set(ARTEFACTS)
        == set(GRID.file.artefacts)
        == {"table1", "table2", "table3", "fig2", "fig3", "fig4", "fig5", "fig6"}
    )


@pytest.mark.parametrize("scale", SCALES)
def test_every_published_number_stands_in_exactly_one_place(scale: str) -> None:
    results = [make(name, scale) for name in ARTEFACTS]
    tables = [
        source for r in results if isinstance(r, Table) for source in r.frame["source"] if source
    ]
    claims = [source for r in results for c in r.claims for source in c.sources]
    expected = [
        f"{path.name}:{line}"
        for path in (FOLDER / "published").glob("*.csv")
        for line in range(2, 2 + lines(path))
    ]
    assert Counter(tables + claims) == Counter(expected)
    assert len(expected) == 63 + 36 + 27 + 5


def lines(path: Path) -> int:
    return len(pd.read_csv(path))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["fig2", "fig3", "fig4", "fig5", "fig6"])
def test_every_figure_draws_something(name: str, scale: str) -> None:
    figure = make(name, scale)
    assert isinstance(figure, Figure)
    assert len(figure.data)
    assert figure.ids
    with style():
        canvas = figure.draw(sheet)
    assert (
        sum(len(a.lines) + len(a.patches) + len(a.images) + len(a.collections) for a in canvas.axes)
        > 3
    )


@pytest.mark.parametrize("name", list(ARTEFACTS))
def test_an_artefact_without_a_single_result_says_why(name: str) -> None:
    found = make(name, status="done")
    said = " ".join(
        (found.caption, *found.notes, *(found.frame["reason"] if isinstance(found, Table) else ()))
    )
    assert "out of memory" in said
    if isinstance(found, Table):
        assert set(found.frame["verdict"].dropna()) == {"not measured"}
    if isinstance(found, Figure):
        with style():
            found.draw(sheet)
    assert isinstance(found, Absent) == (name in ("fig5", "fig6"))


def test_a_failed_seed_shows_with_its_reason_and_the_others_count() -> None:
    cell = table("table1", method="pfedsd", column="cifar10-dir0.5", seed=1).cell(
        "pFedSD", "cifar10-dir0.5"
    )
    assert cell is not None
    assert cell["seeds"] == 1
    assert cell["reason"] == "failed (seed 1): out of memory"


def test_a_changed_record_changes_exactly_the_cells_that_depend_on_it() -> None:
    evidence = FakeEvidence(PAPER, "table1", "paper")
    before = ARTEFACTS["table1"](evidence)
    one = evidence.cells[
        (evidence.cells["row"] == "FedPURIN") & (evidence.cells["column"] == "cifar10-dir0.5")
    ].index[0]
    evidence.cells.loc[one, "value"] += 0.1
    after = ARTEFACTS["table1"](evidence)
    assert isinstance(before, Table)
    assert isinstance(after, Table)
    moved = (before.frame["ours"] != after.frame["ours"]) & after.frame["ours"].notna()
    assert list(after.frame.loc[moved, ["row", "column"]].itertuples(index=False, name=None)) == [
        ("FedPURIN", "cifar10-dir0.5")
    ]


def test_smaller_scales_are_never_called_a_match() -> None:
    for name in ("table1", "table2"):
        for scale in ("smoke", "desk"):
            assert set(table(name, scale).frame["verdict"].dropna()) <= {
                "not comparable",
                "not measured",
            }


def test_scored_points_are_the_sparsified_the_dense_and_the_aggregated_model() -> None:
    found = table("table1", "paper")
    values = [
        found.cell(row, "cifar10-dir0.1")["ours"]
        for row in ("FedPURIN", "FedPURIN, dense model", "FedPURIN, after aggregation")
    ]  # type: ignore[index]
    assert len(set(values)) == 3
    assert set(found.layout.aside) == {
        "FedPer, 40 clients",
        "FedPURIN, dense model",
        "FedPURIN, after aggregation",
    }


def test_a_method_that_somebody_adds_gets_a_row() -> None:
    evidence = FakeEvidence(PAPER, "table1")
    added = evidence.cells[evidence.cells["row"] == "FedAvg"].assign(row="mine", method="mine")
    evidence.cells = pd.concat([evidence.cells, added], ignore_index=True)
    found = ARTEFACTS["table1"](evidence)
    assert isinstance(found, Table)
    assert "mine" in found.layout.rows
    assert "mine" not in found.layout.aside


# -- claims and closed forms -----------------------------------------------------------------------


def test_every_claim_of_the_paper_holds_in_its_own_numbers() -> None:
    claims = [c for name in ("table1", "table2", "table3") for c in table(name).claims]
    assert len(claims) == 13
    assert all(c.printed for c in claims)


def test_savings_are_open_until_the_full_runs_exist() -> None:
    assert all(c.holds is None for c in table("table3", "smoke").claims)
    assert all(c.holds is not None for c in table("table3", "paper").claims)


def test_full_model_rows_come_from_the_ledger_and_flag_the_mask_slip() -> None:
    """The invented traffic of the fakes has the true parameter counts, so the closed forms must
    come out; 19.06 must not.
    """
    found = table("table3")
    frame = found.frame.set_index(["row", "column"])
    assert frame.loc[("FedAvg ↑", "cifar10/as the paper counts"), "ours"] == pytest.approx(
        4.712, abs=5e-4
    )
    assert frame.loc[("FedAvg ↑", "cifar100/as the paper counts"), "ours"] == pytest.approx(
        18.910, abs=5e-4
    )
    assert frame.loc[("FedCAC ↑", "cifar100/as the paper counts"), "ours"] == pytest.approx(
        19.501, abs=5e-4
    )
    assert frame.loc[("FedCAC ↑", "cifar100/as the paper counts"), "verdict"] == "differs"
    assert "mask of a ResNet-8" in str(
        frame.loc[("FedCAC ↑", "cifar100/as the paper counts"), "reason"]
    )
    assert frame.loc[("FedAvg ↓", "cifar100/as the paper counts"), "verdict"] == "equal"


# -- the grid --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["smoke", "desk"])
def test_beta_is_half_of_the_rounds_and_billing_runs_outlast_it(scale: str) -> None:
    methods = GRID.file.scales[scale].methods
    beta = methods["fedpurin"]["beta"]
    assert beta == methods["fedcac"]["beta"]
    assert GRID.recipe("cifar10-dir0.1", scale).training.rounds == 2 * beta
    for name in ("billing-fmnist", "billing-cifar10", "billing-cifar100"):
        assert GRID.recipe(name, scale).training.rounds == beta + 1


def test_paper_scale_is_the_papers_protocol() -> None:
    for name, alpha, rounds in (
        ("fmnist-dir1.0", 1.0, 200),
        ("cifar10-dir0.5", 0.5, 200),
        ("cifar100-dir0.01", 0.01, 300),
    ):
        full = asdict(GRID.recipe(name, "paper"))
        assert full["clients"] == 20
        assert full["partition"]["rule"] == "client-dirichlet"
        assert full["partition"]["options"] == {"alpha": alpha, "train": 500, "test": 100}
        training = full["training"]
        assert (
            training["rounds"],
            training["epochs"],
            training["batch"],
            training["lr"],
            training["momentum"],
        ) == (rounds, 5, 100, 0.1, 0.9)
        assert (full["evaluation"]["point"], full["evaluation"]["rule"]) == ("pre_agg", "max")
    assert GRID.recipe("cifar100-dir0.5", "paper").augment == "flip-rotate-crop"


def test_smoke_needs_no_data_and_stays_small() -> None:
    cells = pd.concat([FakeEvidence(PAPER, name).cells for name in ARTEFACTS])
    assert set(cells["dataset"]) == {"digits"}
    assert cells["id"].nunique() <= 140
