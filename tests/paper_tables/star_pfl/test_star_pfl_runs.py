"""What artefacts read off records is what real runs write: traces, bytes of the true model, shares
of trained weights.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from math import isnan

import numpy as np
import pandas as pd
import pytest

from repfl.algorithms.core.run import Run
from repfl.bench.grid.cell import build_cell
from repfl.bench.grid.dotted_names import merge
from repfl.bench.grid.grid import files, read
from repfl.bench.grid.recipes import recipe_from
from repfl.paper_tables.star_pfl import costs
from repfl.paper_tables.star_pfl.parameter_paths import Traces
from repfl.paper_tables.star_pfl.parameter_paths import read as read_traces
from tests.paper_tables.planned import played
from tests.paper_tables.star_pfl.evidence import evidence as invented


@cache
def run(method: str, column: str, rounds: int, *tallies: str) -> Run:
    """A real run of a smoke recipe, cut short."""
    change = {"training": {"rounds": rounds}, "evaluation": {"tallies": list(tallies)}}
    planned = asdict(read(files()["star-pfl"]).recipe(column, "smoke"))
    hp = {"pretrain_epochs": 1} if method == "fedap" else {}
    return played(build_cell(method, hp, recipe_from(merge(planned, change), column), 0))


def rows(found: Run) -> pd.DataFrame:
    return pd.DataFrame(found.rows, columns=["round", "name", "value"])


def test_traces_are_the_trained_models_and_leave_the_run_as_it_is() -> None:
    traced, plain = (run("fedavg", "sagittal-single", 3, *on) for on in (("trace",), ()))
    assert all(np.array_equal(traced.state[name], plain.state[name]) for name in plain.state)
    assert not rows(plain)["name"].str.startswith("note/trace").any()
    held = rows(traced)
    last = held[held["round"] == 3].set_index("name")["value"]
    place = traced.fed.params["conv2.weight"]
    assert traced.fed.trained is not None
    entry = place.size // 3
    assert last[f"note/trace/7/conv2.weight[{entry}]"] == pytest.approx(
        float(traced.fed.trained[7, place.start + entry])
    )


def test_updates_start_from_the_mean_of_the_last_values() -> None:
    found = run("fedavg", "sagittal-single", 3, "trace")
    evidence = invented("fig2")
    cell = str(evidence.cells["id"].iloc[0])
    held = rows(found).assign(id=cell)
    evidence.rounds = lambda ids, *names: held[held["name"].str.startswith(names)]
    traces = read_traces(evidence)
    assert isinstance(traces, Traces)
    assert sorted(traces.labels) == [label for label in range(10) for _ in range(2)]
    place, entry = found.fed.params["fc2.weight"], found.fed.params["fc2.weight"].size // 3
    last = traces.values[-1, :, traces.entries.index(f"fc2.weight[{entry}]")]
    expected = float(found.state["theta"][place.start + entry])
    assert last.mean() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("method", "expected"), [("fedap", 3.3959), ("star-pfl", 3.4026)])
def test_twenty_clients_upload_what_the_closed_form_says(method: str, expected: float) -> None:
    """Star-PFL starts with everything active, so its first round is FedAvg's."""
    found = run(method, costs.BILLING, 2)
    held = rows(found) if method != "star-pfl" else rows(found).query("round == 1")
    cell = pd.Series({"method": method, "recipe.clients": 20})
    assert costs.UPLINK("axial")(cell, held) == pytest.approx(expected, abs=5e-5)


def test_shares_of_trained_weights_are_noted_for_every_tensor() -> None:
    held = rows(run("star-pfl", costs.BILLING, 2))
    noted = held["name"][held["name"].str.startswith("note/active/")]
    assert set(noted.str.removeprefix("note/active/")) == set(costs.MACS)
    count, masked = costs.operations("axial"), pd.Series({"method": "star-pfl"})
    assert 0.5 < count(masked, held) / 2.9774 <= 1
    without = rows(run("fedavg", costs.BILLING, 2))
    assert count(pd.Series({"method": "fedavg"}), without) == pytest.approx(2.9774, abs=1e-3)
    assert isnan(count(masked, without))  # which weights trained is not known
