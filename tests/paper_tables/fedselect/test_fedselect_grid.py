"""The FedSelect grid is the protocol, and the true model has the sizes that the README states."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch

from repfl.algorithms.core.run import Run
from repfl.algorithms.models import build
from repfl.bench.grid.cell import build_cell
from repfl.bench.grid.recipes import recipe_from
from tests.paper_tables.planned import planned, played

TRUE = {
    "dataset": "digits",
    "model": "resnet18",
    "input": [3, 32, 32],
    "clients": 2,
    "partition": {"rule": "client-dirichlet", "options": {"alpha": 1.0, "train": 2, "test": 1}},
    "training": {"rounds": 2, "epochs": 1, "batch": 2, "lr": 0.05},
    "evaluation": {"every": 0, "points": ["pre_agg"], "point": "pre_agg"},
}


def test_figures_share_their_cells_with_the_tables() -> None:
    items, by = planned("fedselect", "paper"), defaultdict(set)
    for item in items:
        by[item.artefact].add(item.cell.id)
    assert by["fig2"] <= by["table1"]
    assert len(by["fig3"] & by["table1"]) == 30
    full = [item for item in items if (item.artefact, item.row) == ("table1", "FedSelect")]
    limits = {item.column: item.cell.hp.limit for item in full}
    assert limits == {"cifar10": 0.3, "office": 0.3, "cifar10c": 0.5, "mini": 0.5}


@pytest.mark.parametrize(("classes", "size"), [(65, 11_209_857), (100, 11_227_812)])
def test_sizes_of_the_true_model(classes: int, size: int) -> None:
    assert build("resnet18", channels=3, size=32, classes=classes).params.parameters == size


def first_round(method: str, **hp: float) -> Run:
    """The true model after a round on a few enlarged digits."""
    return played(build_cell(method, hp, recipe_from(TRUE, "true model"), 1), rounds=1)


def curve(run: Run, name: str) -> list[float]:
    """A recorded curve."""
    return [value for _, own, value in run.rows if own == name]


def dead(run: Run) -> torch.Tensor:
    """Places in the last stage where no client's training changed anything."""
    layout = run.fed.params
    names = [f"layers.3.{name}.weight" for name in ("0.conv1", "0.conv2", "1.conv1", "1.conv2")]
    places = torch.cat([torch.arange(layout[name].start, layout[name].stop) for name in names])
    assert run.fed.trained is not None
    return places[(run.fed.trained[:, places] == run.fed.new_model()[places]).all(0)]


def test_the_true_model_has_the_dead_weights_that_the_readme_counts() -> None:
    run = first_round("fedavg")
    assert len(dead(run)) >= 6_946_816
    assert curve(run, "traffic/up_values") == [4 * 2 * 11_181_642]


@pytest.mark.slow
def test_masks_of_the_true_model_leave_out_dead_weights_and_its_traffic_follows_from_them() -> None:
    run = first_round("fedselect", limit=0.3)
    assert not run.state["mask"][:, dead(run)].any()
    (share,) = curve(run, "note/personal")
    assert 0 < share <= 0.25
    run.step()
    whole = 4 * 2 * run.fed.params.parameters
    assert curve(run, "traffic/up_values") == [whole, pytest.approx(whole * (1 - share), rel=1e-6)]
