"""The board from its grid to its page, on embedded digits, and who may stand on it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pandas as pd
import pytest

from repfl.bench.evidence.artefacts import make
from repfl.bench.evidence.cell_evidence import Records
from repfl.bench.evidence.collect import collect
from repfl.bench.grid import grid as grids
from repfl.bench.grid import plugins
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.store.store import Store
from repfl.paper_tables.core.result import Figure, Table
from tests.bench.conftest import Here

METHODS = ("--method", "local", "--method", "fedavg-ft")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods of the board's self-test, computed."""
    from repfl.bench.cli.main import call

    folder = tmp_path_factory.mktemp("board") / "results"
    where = ["--results", str(folder), "--executor", "inline", "--seed", "1"]
    assert call(["run", "--paper", "board", *METHODS, *where]) == 0
    return folder


@pytest.fixture(scope="module")
def made(results: Path) -> dict[str, Table | Figure]:
    methods = [name for name in METHODS if name != "--method"]
    planned = plan(Selection(papers=["board"], methods=methods, seeds=[1]))
    found = make(planned, Records(Store(results)))
    assert not found.problems, found.problems
    return {each.name: each for each in found.results if isinstance(each, Table | Figure)}


def test_every_artefact_is_made_of_digits_from_what_validation_chose(
    made: dict[str, Table | Figure],
) -> None:
    assert set(made) == set(grids.read(grids.files()["board"]).file.artefacts)
    accuracy = made["table1"]
    assert isinstance(accuracy, Table)
    columns = [c for c in accuracy.layout.columns if c.group == "accuracy"]
    assert [column.label for column in columns] == ["embedded digits"]
    assert accuracy.layout.rows == ("Local", "FedAvg + FT")
    shown = accuracy.frame[accuracy.frame["column"] == columns[0].key]
    assert shown["ours"].between(10, 100).all()
    # what is shown is what validation chose
    trials = made["fig4"]
    assert isinstance(trials, Figure)
    groups = trials.data.groupby(["row", "seed"])
    assert (groups["filled"].sum() == 1).all()
    best, filled = groups["value"].transform("max"), trials.data["filled"]
    assert (trials.data.loc[filled, "value"] == best[filled]).all()
    assert len(trials.data) == 2 * 2
    # harm is measured by local training, and newcomers are scored
    table = made["table2"]
    assert isinstance(table, Table)
    values = table.frame.set_index(["row", "column"])["ours"]
    assert pd.isna(values["Local", "digits/harm"])
    assert 0 <= values["FedAvg + FT", "digits/harm"] <= 100
    assert 10 <= values["FedAvg + FT", "digits/newcomers"] <= 100


JOINED = """
from repfl.algorithms.core.method import register
from repfl.algorithms.fedavg import FedAvg

register("test-joined", title="J", paper="none", year=2026, family="partial", sends="as FedAvg")(
    type("Joined", (FedAvg,), {"__module__": __name__})
)
"""


def test_lines_of_a_method_that_joined_can_be_sent_and_are_kept_where_it_is_unknown(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = {"commit": "c" * 40, "dirty": False}
    monkeypatch.setattr("repfl.bench.store.provenance.commit", lambda: clean)
    path, lines, store = tmp_path / "joined.py", tmp_path / "lines", Store(tmp_path / "results")
    path.write_text(JOINED)
    joined = Selection(papers=["board"], methods=["test-joined"])
    with plugins.isolated():
        said = here(
            "run", "--paper", "board", "--method", "test-joined", "--plugin", path,
            "--results", store.root, "--executor", "inline", "--seed", "1",
        )  # fmt: skip
        assert said.code == 0, said.err
        assert [counts for _, *counts in collect(plan(joined), store, lines).files] == [[3, 0]]
    own = plan(Selection(papers=["board"]))  # from here on the method is not registered
    assert collect(own, Store(tmp_path / "empty"), lines).files[0][1:] == (0, 3)
    assert not make(own, Records(Store(tmp_path / "empty")), lines).problems


PERSONS = "har-persons"
"""The recipe of the fifth addendum, which has every method once, in its compared form."""


@pytest.fixture(scope="module")
def searched() -> list[Planned]:
    """All that is searched at the board's own size."""
    planned = plan(Selection(papers=["board"], scale="paper"))
    return unique(item for item in planned if item.trial)


@pytest.fixture(scope="module")
def trials(searched: list[Planned]) -> list[Planned]:
    """Without the fifth addendum."""
    return [item for item in searched if item.column != PERSONS]


def test_every_method_has_the_same_number_of_trials(searched: list[Planned]) -> None:
    counts = pd.Series([(item.column == PERSONS, item.row, item.column) for item in searched])
    counts = counts.value_counts()
    assert set(counts) == {15}
    persons = [key for key in counts.index if key[0]]
    assert (len(persons), len(counts) - len(persons)) == (29 + 13, (28 + 2 + 1 + 2) * 2)


def test_a_learning_rate_of_fine_tuning_is_searched_beside_the_same_draws(
    trials: list[Planned],
) -> None:
    for name in ("FedAvg + FT", "FedBABU"):
        plain, own = (
            [deepcopy(item.cell.json) for item in trials if item.row == row]
            for row in (name, f"{name}, tuned rate")
        )
        found = [cell["hp"].pop("rate") for cell in own]
        assert min(found) < 0.03 < 0.3 < max(found) <= 1
        assert plain == own


def test_rows_of_the_first_addendum_are_the_same_trials_scored_elsewhere(
    trials: list[Planned],
) -> None:
    for name in ("pFedSD", "Star-PFL"):
        after, before = (
            [deepcopy(item.cell.json) for item in trials if item.row == row]
            for row in (name, f"{name}, before aggregation")
        )
        for cell in before:
            assert cell["recipe"]["evaluation"]["point"] == "pre_agg"
            cell["recipe"]["evaluation"] |= {"points": ["post_agg"], "point": "post_agg"}
        assert before == after


PEEKING = """
from repfl.algorithms.core.method import register
from repfl.algorithms.fedavg import FedAvg


@register("test-peeking", title="P", paper="none", year=2026, family="partial", sends="as FedAvg")
class Peeking(FedAvg):
    "Adds what it sees of the test labels."

    def round(self, state, fed):
        after = super().round(state, fed)
        seen = fed.data.labels[fed.data.test[0]].double().mean().to(after["theta"].dtype)
        return {**after, "theta": after["theta"] + 0.001 * seen}
"""


def test_a_method_that_looks_at_test_images_is_refused(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "peeking.py"
    path.write_text(PEEKING)
    said = here(
        "run", "--paper", "board", "--method", "test-peeking", "--plugin", path,
        "--results", tmp_path / "results",
    )  # fmt: skip
    assert said.code == 2
    assert "cannot stand on the board: training depends on test images" in said.err
    assert not (tmp_path / "results").exists()
