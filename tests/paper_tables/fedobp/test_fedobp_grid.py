"""The FedOBP grid: it is the protocol, and quantiles are Table II's."""

from __future__ import annotations

import pytest

from repfl.bench.grid.grid import files
from repfl.datasets.core import registry
from repfl.paper_tables.core.published import read_published
from repfl.paper_tables.fedobp import settings
from repfl.paper_tables.fedobp.sizes import official
from tests.paper_tables.planned import planned, played


def test_runs_of_tables_three_and_four_use_the_quantiles_of_table_two() -> None:
    rows = read_published(files()["fedobp"].parent / "published").frame
    rows = rows[(rows["table"] == "II") & (rows["metric"] == "quantile_q")]
    names = {printed: short for short, printed in settings.PRINTED.items()}
    expected = {
        (names[d], a[4:-1], q)
        for d, a, q in zip(rows["dataset"], rows["setting"], rows["value"], strict=True)
    }
    used = {
        (item.column, float(item.cell.hp.q))
        for item in planned("fedobp", "paper")
        if item.artefact in ("table3", "table4") and item.row == settings.OURS
    }
    assert used == {(settings.key(name, alpha), q) for name, alpha, q in expected}
    counted = {
        (item.row, float(item.cell.hp.q))
        for item in planned("fedobp", "smoke")
        if item.artefact == "table2"
    }
    assert counted == {(f"{settings.DATASETS[s]}, Dir({a})", q) for s, a, q in expected}


def test_main_rows_are_the_benchmark_s_baselines() -> None:
    used = {
        item.row: item.cell.hp for item in planned("fedobp", "paper") if item.artefact == "table3"
    }
    assert used["LG-FedAvg"].shared == "first"
    assert used["FLUTE"].detach is True
    assert used["FedALA"].worker == "shared"
    assert used["pFedFDA"].compat == used["APFL"].mode == "flbench"
    assert used["FedDPA"].threshold == "quantile"
    heads = ("FedPer", "FedRep", "FLUTE", "LG-FedAvg")
    assert {used[name].newcomer for name in heads} == {"global"}


def test_official_sizes_are_those_of_the_data_sets_descriptions() -> None:
    named = {
        item.column.split("-dir")[0]: item.cell.recipe.dataset
        for item in planned("fedobp", "paper")
        if item.artefact == "fig2"
    }
    sizes = {short: sum(registry.get(each).splits.values()) for short, each in named.items()}
    assert set(sizes) == set(settings.DATASETS)
    assert sizes == official()["samples"].astype(int).loc[list(sizes)].to_dict()


@pytest.mark.parametrize(
    ("row", "expected"), [("CIFAR-10, Dir(0.1)", 18), ("OrganAMNIST, Dir(0.1)", 59)]
)
def test_real_masks_of_the_true_model_have_the_closed_form_size_up_to_a_tie(
    row: str, expected: int
) -> None:
    item = next(i for i in planned("fedobp", "smoke") if i.artefact == "table2" and i.row == row)
    run = played(item.cell)
    notes = {(round_, name): value for round_, name, value in run.rows}
    assert notes[1, "note/personal"] == 0
    clients, size = item.cell.recipe.clients, run.fed.params.parameters
    # scores that tie at the quantile stay global
    assert expected - 1 <= (personal := notes[2, "note/personal"]) <= expected + 1e-3
    assert notes[2, "traffic/down_values"] == pytest.approx(4 * clients * (size - personal))
