"""A small report with one of everything, from fixed evidence. Run as a module, it writes the golden
files anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from repfl.bench.report import numbers
from repfl.bench.report.formats.latex import latex
from repfl.bench.report.formats.markdown import markdown
from repfl.bench.report.sheet import sheet_of
from repfl.bench.store.contents import Metrics, Point, Round
from repfl.paper_tables.core import ranking, tables
from repfl.paper_tables.core.drawing import captions, figure_style, plots
from repfl.paper_tables.core.evidence import Arrays, Evidence, Reduce
from repfl.paper_tables.core.result import (
    CURVE_GAP_FIELDS,
    Absent,
    Canvas,
    Column,
    Figure,
    NewCanvas,
    Result,
    Table,
    claim,
)
from repfl.paper_tables.core.statistics.curve_gap import compare_curves
from repfl.paper_tables.core.statistics.noise import Noise
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Place, Row

GOLDEN = Path(__file__).parent / "golden"
COLUMNS = (
    Column("easy", "α = 0.1", "CIFAR-10"),
    Column("hard", "α = 0.5", "CIFAR-10"),
    Column("other", "α = 0.1", "CIFAR-100"),
)
PLACES = {
    "easy": Place("CIFAR-10", "alpha=0.1"),
    "hard": Place("CIFAR-10", "alpha=0.5"),
    "other": Place("CIFAR-100", "alpha=0.1"),
}
ROWS = (
    Row("Separate"),
    Row("FedAvg"),
    Row("Ours & co_"),
    Row("Ours, dense", published="", source="Ours & co_", point="dense", aside=True),
)
METHODS = {"Separate": "local", "FedAvg": "fedavg", "Ours & co_": "fedpurin"}
PRINTED = {
    ("Separate", "easy"): (81.97, 1.33),
    ("Separate", "hard"): (60.78, 1.04),
    ("Separate", "other"): (46.93, nan),
    ("FedAvg", "easy"): (84.15, 1.77),
    ("FedAvg", "hard"): (66.33, 1.96),
    ("FedAvg", "other"): (51.47, nan),
    ("Ours & co_", "easy"): (85.90, 1.53),
    ("Ours & co_", "hard"): (71.53, 1.29),
    ("Ours & co_", "other"): (54.23, nan),
}
FOUND = {
    ("Separate", "easy"): (0.82, 0.822, 0.81),
    ("Separate", "hard"): (0.50, 0.51, 0.52),
    ("Separate", "other"): (0.469, 0.4692, 0.4695),
    ("FedAvg", "easy"): (0.84, 0.86, 0.85),
    ("FedAvg", "hard"): (0.69, 0.70, 0.695),
    ("FedAvg", "other"): (0.52, 0.53, nan),
    ("Ours & co_", "easy"): (0.86, 0.865, 0.85),
    ("Ours & co_", "hard"): (nan, nan, nan),
    ("Ours & co_", "other"): (0.57, 0.56, 0.58),
}


class SmallEvidence:
    """Three methods, three columns, three seeds, some of them gone wrong."""

    def __init__(
        self, scale: str = "paper", found: Mapping[tuple[str, str], tuple[float, ...]] = FOUND
    ) -> None:
        self.scale = scale
        self.seeds: tuple[int, ...] = (1, 2, 3)
        self.cells = pd.DataFrame(
            [
                _cell(row, column, seed, value)
                for (row, column), v in found.items()
                for seed, value in enumerate(v, 1)
            ]
        )
        self.noise: Noise = {}
        self.published = pd.DataFrame(
            [_published(place, key, values) for place, (key, values) in enumerate(PRINTED.items())]
        )

    def rounds(self, ids: Any, *names: str) -> pd.DataFrame:
        return pd.DataFrame(columns=["id", "round", "name", "value"])

    def clients(self, ids: Sequence[str]) -> pd.DataFrame:
        return pd.DataFrame(columns=["id", "client", "correct", "total"])

    def arrays(self, cell: str, reduce: Reduce) -> Arrays:
        return {}


def _cell(row: str, column: str, seed: int, value: float) -> dict[str, Any]:
    done = value == value
    dense = Point(
        max=Round(mean=value + 0.001, pooled=value, round=3),
        last={"mean": value, "decile": value / 2},
        best_val=None,
    )
    scored = Metrics(value=value, round=200, points={"pre_agg": dense, "dense": dense})
    return {
        "id": f"{METHODS[row]}{column}{seed}".encode().hex().ljust(64, "0"),
        "artefact": "paper-a/table1",
        "row": row,
        "column": column,
        "method": METHODS[row],
        "seed": seed,
        "status": "done" if done else "diverged",
        "reason": "" if done else "not finite after round 7",
        "accuracy": value,
        "dataset": "cifar10",
        "recipe.clients": 20,
        "recipe.training.rounds": 200,
        "recipe.evaluation.rule": "max",
        "recipe.evaluation.average": "clients",
        "recipe.evaluation.point": "pre_agg",
        "floor.clients": {"easy": 0.7, "hard": 0.4, "other": 0.46}[column] if done else nan,
        "metrics": scored if done else None,
    }


def _published(place: int, key: tuple[str, str], values: tuple[float, float]) -> dict[str, Any]:
    where = PLACES[key[1]]
    return {
        "table": "1",
        "dataset": where.dataset,
        "setting": where.setting,
        "method": key[0],
        "metric": "accuracy",
        "mean": f"{values[0]:.2f}",
        "value": values[0],
        "std": values[1],
        "source": f"table1.csv:{place + 2}",
    }


def small_curves() -> pd.DataFrame:
    """Two runs of one row that lie two points below a figure's curve."""
    runs = pd.DataFrame({"seed": [1, 1, 2, 2], "round": [1, 2, 1, 2], "value": 80.0})
    found = compare_curves(runs, pd.Series(82.0, [1, 2]), [(1, 2)])
    about = {"row": "FedAvg", "column": "easy", "setting": "momentum 0", "beside": "paper-a/fig1"}
    return found.assign(**about)[list(CURVE_GAP_FIELDS)]


def small_table(evidence: Evidence | None = None) -> Table:
    """The table of the golden files."""
    evidence = evidence or SmallEvidence()
    frame = tables.accuracy_frame(
        evidence, "1", ROWS, COLUMNS, PLACES, Printing(runs=3, deviation=True, rule="max")
    )
    claims = (
        claim("best", "Ours is best", None, "3 of 9 are missing", "paper", place="4", printed=True),
        claim("beats", "FedAvg beats Separate", True, "3 of 3", "paper", place="4", seeds=3),
        claim("less", "Less than 1 % of <all>", False, "ours: 2 %", "desk", place="4", exact=True),
    )
    return Table(
        "paper-a",
        "table1",
        "Table 1: accuracy",
        captions.caption(evidence, "A small table."),
        evidence.scale,
        ("A note with 100 % & more.",),
        claims,
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, ROWS, COLUMNS),
        ranking.orderings(frame, COLUMNS),
        ranking.summary(evidence, frame, ROWS),
        curve_gaps=small_curves(),
    )


def small_figure() -> Figure:
    """Two lines."""
    data = pd.DataFrame(
        {
            "label": ["a", "a", "b", "b"],
            "round": [1, 2, 1, 2],
            "mean": [10.0, 20.0, 15.0, 1 / 3],
            "column": "easy",
            "scale": "smoke",
        }
    )

    def draw(new_canvas: NewCanvas) -> Canvas:
        canvas = new_canvas(4, 3)
        (axes,) = figure_style.panels(canvas, 1, 1)
        plots.curves(axes, data, figure_style.looks(["a", "b"]))
        axes.set_xlabel("Round")
        return canvas

    return Figure(
        "paper-a",
        "fig1",
        "Figure 1: curves",
        "Two lines.",
        "smoke",
        ids=("ab" * 32,),
        draw=draw,
        data=data,
        alt="Two lines.",
    )


def results() -> list[Result]:
    """One of everything, for two papers."""
    gone = Absent(
        "paper-b",
        "table2",
        "Table 2: bytes",
        "No cell is done: run `repfl run --paper paper-b`.",
        "desk",
    )
    return [small_table(), small_figure(), gone]


def golden() -> dict[str, str]:
    """What the golden files must hold."""
    table = small_table()
    return {
        "table1.csv": numbers.as_csv(numbers.frame(sheet_of(table, {}).numbers)),
        "table1.md": markdown(sheet_of(table, {})),
        "table1.tex": latex(sheet_of(table, {})),
        "fig1.csv": numbers.as_csv(small_figure().data),
    }


if __name__ == "__main__":
    for file, text in golden().items():
        (GOLDEN / file).write_text(text, encoding="utf-8")
