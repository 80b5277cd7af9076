"""The best of several trials is chosen by validation accuracy, and by nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

import repfl
from repfl.bench.errors import UserError
from repfl.bench.evidence.artefact_evidence import ArtefactEvidence
from repfl.bench.evidence.cell_evidence import CellEvidence
from repfl.bench.evidence.committed.committed_run import Curve
from repfl.bench.evidence.selection import Choice, Trial, choices, chosen_items
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from repfl.bench.store.record import Record
from repfl.paper_tables.core.evidence import chosen_text
from tests.bench.conftest import GRID, Here

TUNED = (
    GRID.replace("partition = {", "partition = { val_share = 0.2,")
    + """
[artefacts.rates]
kind = "table"
title = "T"
[[artefacts.rates.cells]]
rows = [{ label = "lr {training.lr}", method = "fedavg" }]
sweep = { training.lr = [0.1, 0.2, 0.3] }
recipes = ["two"]
"""
)
Curves = dict[str, list[float]]


class Shelf:
    """Made-up records: per learning rate and seed the curves, or how it failed."""

    def __init__(self, planned: Sequence[Planned], made: Mapping[Any, Curves | str]) -> None:
        self.made = {
            item.cell.id: (item.cell.json, found)
            for item in planned
            if (found := made.get((item.cell.recipe.training.lr, item.cell.seed)))
        }

    def record(self, cell: str) -> Record | None:
        if cell not in self.made:
            return None
        values, found = self.made[cell]
        return Record(cell, values, found if isinstance(found, str) else "done", "", {}, {})

    def curves(self, cell: str, names: Sequence[str]) -> dict[str, Curve]:
        found = cast(Curves, self.made[cell][1])
        return {
            name: Curve(np.arange(1, len(found[name]) + 1), np.array(found[name]))
            for name in names
            if name in found
        }


SEARCHED = TUNED.replace(
    'rows = [{ label = "lr {training.lr}", method = "fedavg" }]\n'
    "sweep = { training.lr = [0.1, 0.2, 0.3] }",
    'rows = [{ label = "FedAvg", method = "fedavg" }]\n'
    'search = { trials = 2, over = { "training.lr" = { log = [0.01, 1.0] } } }',
)


def scores(val: list[float], test: list[float]) -> Curves:
    return {"post_agg/val/mean": val, "post_agg/mean": test}


def chosen(tmp_path: Path, made: Mapping[Any, Curves | str], text: str = TUNED) -> Choice:
    path = tmp_path / "tests.toml"
    path.write_text(text)
    planned = plan(Selection(files=[path], artefacts=["tests/rates"]))
    (found,) = choices(planned, cast(CellEvidence, Shelf(planned, made)))
    return found


def best(tmp_path: Path, made: Mapping[Any, Curves | str], text: str = TUNED) -> Trial:
    found = chosen(tmp_path, made, text).best
    assert found is not None
    return found


def test_validation_chooses_and_the_test_score_stands_beside_it(tmp_path: Path) -> None:
    first, last = scores([0.5, 0.5], [0.9, 0.9]), scores([0.9, 0.6], [0.8, 0.8])
    made = {(0.1, 0): first, (0.1, 1): first, (0.3, 0): last, (0.3, 1): last}
    made |= {(0.2, 0): scores([0.1, 0.8], [0.1, 0.3]), (0.2, 1): scores([0.1, 0.6], [0.1, 0.4])}
    found = chosen(tmp_path, made)
    assert found.best is not None
    assert (found.best.row, found.best.options["training.lr"]) == ("lr 0.2", 0.2)
    assert (found.best.val, found.best.test) == (pytest.approx(70), pytest.approx(35))
    assert (len(found.trials), found.open, found.fell, found.tried) == (3, 0, 0, ["training.lr"])


def test_of_equal_rounds_the_first_counts_as_in_a_record(tmp_path: Path) -> None:
    text = TUNED + 'evaluation = { rule = "best-val" }\n'
    val, test = [0.4, 0.9, 0.1, 0.9, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5]
    made = {(rate, seed): scores(val, test) for rate in (0.1, 0.2, 0.3) for seed in (0, 1)}
    found = best(tmp_path, made, text)
    assert (found.row, found.val, found.test) == ("lr 0.1", pytest.approx(90), pytest.approx(20))


def test_a_trial_that_fell_counts_and_cannot_be_the_best(tmp_path: Path) -> None:
    good, poor = scores([0.9], [0.9]), scores([0.2], [0.3])
    made = {(0.1, 0): good, (0.1, 1): "diverged", (0.2, 0): good, (0.3, 0): poor, (0.3, 1): poor}
    found = chosen(tmp_path, made)
    assert found.best is not None
    assert found.best.row == "lr 0.3"
    assert (len(found.trials), found.open, found.fell) == (3, 1, 1)
    assert isnan(found.trials[0].val)
    # nor can one without validation scores
    made = {(rate, seed): poor for rate in (0.1, 0.2) for seed in (0, 1)}
    made |= {(0.3, seed): {"post_agg/mean": [0.99]} for seed in (0, 1)}
    assert best(tmp_path, made).row == "lr 0.1"


def test_of_equal_trials_the_first_is_the_best_in_whatever_order_their_shares_were_added(
    tmp_path: Path,
) -> None:
    made = {(rate, 0): scores([val], [rate]) for rate, val in ((0.1, 0.3), (0.2, 0.1 + 0.2))}
    assert made[0.2, 0] != made[0.1, 0]
    made |= {(rate, 1): scores([0.3], [rate]) for rate in (0.1, 0.2)}
    assert best(tmp_path, made).row == "lr 0.1"


def test_without_validation_data_there_is_nothing_to_choose_by(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"recipe two: has no validation data.*val_share"):
        chosen(tmp_path, {}, TUNED.replace("val_share = 0.2,", ""))


def test_the_command_chooses_from_a_store(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "tests.toml"
    path.write_text(TUNED)
    where = ["--grid", path, "--artefact", "tests/rates"]
    store = ["--results", tmp_path / "results"]
    assert here("run", *where, *store, "--executor", "inline").code == 0
    asked = ["show", "tests/rates", "--grid", path]
    said = here(*asked, *store)
    assert said.code == 0, said.err
    assert "training.lr = " in said.out
    (found,) = json.loads(here(*asked, *store, "--json").out)["trials"]
    best = next(trial for trial in found["trials"] if trial["row"] == found["best"])
    assert best["val"] == max(trial["val"] for trial in found["trials"])
    assert "missing" in here(*asked, "--results", tmp_path / "none").out


# -- random search ---------------------------------------------------------------------------------


def search(tmp_path: Path, missing: int = 0) -> tuple[list[Planned], CellEvidence]:
    """Two trials of two studies; the first one of each is the best, and the last may be missing."""
    path = tmp_path / "tests.toml"
    path.write_text(SEARCHED)
    planned = plan(Selection(files=[path], artefacts=["tests/rates"]))
    made = {
        (item.cell.recipe.training.lr, item.cell.seed): scores([1 / item.trial], [0.5])
        for item in planned[: len(planned) - missing]
    }
    return planned, cast(CellEvidence, Shelf(planned, made))


def test_a_table_shows_the_choice_of_every_study_of_a_search(tmp_path: Path) -> None:
    found = choices(*search(tmp_path))
    assert [choice.study for choice in found] == [0, 1]
    assert [choice.best.row for choice in found if choice.best] == ["FedAvg, trial 1"] * 2
    shown = chosen_items(*search(tmp_path))
    told = [(item.row, item.cell.seed, item.trial) for item in shown]
    assert told == [("FedAvg", 0, 1), ("FedAvg", 1, 1)]
    # one with a trial to make is missing
    planned, records = search(tmp_path, missing=1)
    (*_, last) = chosen_items(planned, records)
    assert (last.cell.seed, last.trial) == (1, 2)
    assert records.record(last.cell.id) is None


def test_a_table_says_what_validation_chose_in_every_study(tmp_path: Path) -> None:
    planned, records = search(tmp_path)
    evidence = ArtefactEvidence(planned, records, pd.DataFrame(), trials=planned)
    trials = evidence.trials()
    rates = [item.cell.recipe.training.lr for item in planned if item.trial == 1]
    chosen = trials.loc[trials["chosen"], "options"].tolist()
    assert chosen == [{"training.lr": rate} for rate in rates]
    shown = ", ".join(f"{rate:.3g}" for rate in rates)
    assert chosen_text([{}, *chosen]) == f"training.lr {shown}"
    assert chosen_text([{}, {}]) == ""


def test_what_validation_chose_is_a_column_of_tables_and_of_load(
    here: Here, tmp_path: Path
) -> None:
    (path := tmp_path / "tests.toml").write_text(SEARCHED)
    results = tmp_path / "results"
    asked = ("--grid", path, "--artefact", "tests/rates", "--results", results)
    assert here("run", *asked, "--executor", "inline").code == 0
    searched = plan(Selection(files=[path], artefacts=["tests/rates"]))
    table = repfl.table("tests/rates", results=results, grids=path)
    (number,) = table.to_dict("records")
    rates = {item.cell.id: f"{item.cell.recipe.training.lr:.3g}" for item in searched}
    chosen = f"training.lr {', '.join(rates[cell] for cell in number['runs'])}"
    assert number["chosen"] == chosen
    note = f"two clients, chosen by validation, by seed. FedAvg: {chosen}."
    assert note in table.attrs["notes"]
    low, *_, high = sorted(item.cell.recipe.training.lr for item in searched)
    sentence = (
        "In every seed the best of 2 trials by validation accuracy; tried: training.lr"
        f" {low:.3g} to {high:.3g}."
    )
    assert sentence in table.attrs["caption"]
    cells = repfl.load(results, grids=path, measured=False)
    assert set(cells.index) == rates.keys()
    texts = {cell: f"training.lr {rates[cell]}" for cell in number["runs"]}
    assert cells.loc[cells["chosen"] != "", "chosen"].to_dict() == texts
    assert set(repfl.load(results, measured=False)["chosen"]) == {""}
    assert here("report", *asked, "--out", tmp_path / "report").code == 0
    written = pd.read_csv(tmp_path / "report" / "numbers.csv")
    assert written["chosen"].tolist() == [chosen]
