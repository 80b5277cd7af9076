"""The full-model rows of Table 3, from the ledger of real runs of the billing recipes."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from repfl.bench.grid.cell import build_cell
from repfl.bench.grid.dotted_names import merge
from repfl.bench.grid.grid import files, read
from repfl.bench.grid.recipes import recipe_from
from tests.paper_tables.planned import played

MIB = 2**20


def traffic(column: str, method: str) -> dict[str, float]:
    """MiB per client of one round; training changes none."""
    planned = asdict(read(files()["fedpurin"]).recipe(column, "smoke"))
    recipe = merge(planned, {"training": {"rounds": 1, "epochs": 0}})
    run = played(build_cell(method, {}, recipe_from(recipe, column), 1))
    return {
        name.removeprefix("traffic/"): value / recipe["clients"] / MIB
        for _, name, value in run.rows
        if name.startswith("traffic/")
    }


@pytest.mark.parametrize(
    ("column", "model", "masked"),
    [("billing-fmnist", 4.688, 4.835), ("billing-cifar100", 18.910, 19.501)],
)
def test_a_full_model_costs_what_the_closed_form_says(
    column: str, model: float, masked: float
) -> None:
    fedavg, fedcac = traffic(column, "fedavg"), traffic(column, "fedcac")
    assert fedavg["up_values"] == pytest.approx(model, abs=5e-4)
    assert fedavg["down_values"] == pytest.approx(model, abs=5e-4)
    assert fedavg["up_codes"] == fedavg["down_codes"] == 0
    assert fedcac["up_values"] + fedcac["up_codes"] == pytest.approx(masked, abs=5e-4)
    assert fedcac["down_values"] == pytest.approx(model, abs=5e-4)
