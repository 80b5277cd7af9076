"""Tables and figures without code: grids of one's own, and methods that join a table."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pandas as pd
import pytest

import repfl
from repfl.bench.cli.main import call
from repfl.bench.grid import plugins
from repfl.paper_tables.core import default_forms
from tests.bench.conftest import FAULTY, GRID

LATE = "newcomers = { share = 0.3, samples = 9, epochs = 2 }"
GUEST = "test-slow[seconds=0.0]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a grid of one's own, with a method from a file in its table."""
    folder = tmp_path_factory.mktemp("own")
    grid = GRID.replace("clients = 3", f"clients = 3\n{LATE}")
    asking = 'clients = 2\nevaluation = { metrics = ["macro-f1", "loss"] }'
    grid = grid.replace('kind = "table"', 'kind = "table"\ncaption = "In my own words."', 1)
    (folder / "tests.toml").write_text(grid.replace("clients = 2", asking))
    where = ["--results", str(folder / "results"), "--out", str(folder / "report")]
    asked = ["--grid", str(folder / "tests.toml"), "--artefact", "tests/table1"]
    added = ["--plugin", str(FAULTY), "--method", GUEST]
    assert call(["run", *asked, *where[:2], "--executor", "inline"]) == 0
    with plugins.isolated():
        assert call(["reproduce", *asked, *added, *where, "--executor", "inline"]) == 0
    return folder / "report"


def test_what_a_method_is_worth_to_newcomers_stands_aside_where_there_are_any(folder: Path) -> None:
    lines = list(csv.DictReader((folder / "tests/table1.csv").open()))
    late = {(line["row"], line["column"]) for line in lines if "newcomers" in line["row"]}
    assert late == {(f"{row}: newcomers", "three") for row in ("Local", "FedAvg", GUEST)}
    statistics = (folder / "tests/table1.md").read_text().split("Statistics over all columns")[1]
    assert "newcomers" not in statistics


def test_a_caption_of_ones_own_replaces_the_generated_one(folder: Path) -> None:
    for form in ("md", "tex"):
        text = (folder / f"tests/table1.{form}").read_text()
        assert "In my own words." in text
        assert "Test accuracy in percent" not in text


def test_metrics_beside_accuracy_have_columns_of_their_own(folder: Path) -> None:
    loaded = repfl.load(folder.parent / "results", measured=False).query("`recipe.clients` == 2")
    lines = {
        (line["row"], line["column"]): float(line["ours"])
        for line in csv.DictReader((folder / "tests/table1.csv").open())
    }
    for metric in ("macro-f1", "loss"):
        for row, runs in loaded.groupby("method"):
            label = {"local": "Local", "fedavg": "FedAvg"}.get(str(row), GUEST)
            assert lines[label, f"two {metric}"] == pytest.approx(runs[metric].mean(), rel=1e-4)
    assert loaded["loss"].gt(0).all()
    text = (folder / "tests/table1.md").read_text()
    assert "| Method | accuracy | loss | macro-f1 |" in text
    assert "loss" not in text.split("Statistics over all columns")[1].split("**Notes**")[0]


def test_rows_below_the_floor_are_named(folder: Path) -> None:
    text = (folder / "tests/table1.md").read_text()
    lines = csv.DictReader((folder / "tests/table1.csv").open())
    low = {
        (line["where"].removesuffix(", accuracy"), line["row"])
        for line in lines
        if line["floor"]
        and float(line["ours"]) < float(line["floor"])
        and line["method"] != "fedavg"
        and "newcomers" not in line["row"]
    }
    told = {
        (label, row)
        for label, rows in re.findall(r"^- (.*?): below the floor .*?: (.*)\.$", text, re.MULTILINE)
        for row in re.findall(r"(\S+) \d+\.\d\d", rows)
    }
    assert told == low != set()


def test_a_line_of_one_round_beside_others_is_named() -> None:
    rows = [("FedAvg", 1), ("FedAvg", 2), ("fine-tuned", 2)]
    curves = pd.DataFrame(
        [(label, "two", n) for label, n in rows], columns=["label", "column", "round"]
    )
    (note,) = default_forms._once(curves)
    assert note.startswith("Scored in one round alone, a single mark: fine-tuned; evaluation.fine")
    assert list(default_forms._once(curves.iloc[:2])) == []
    assert list(default_forms._once(curves.iloc[2:])) == []
    assert list(default_forms._once(curves.iloc[:0])) == []
