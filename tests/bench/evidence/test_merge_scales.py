"""The best evidence first: the paper's scale before the desk's, and smoke in place of neither."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure as Canvas

from repfl.bench.evidence import merge_scales
from repfl.bench.evidence.cell_evidence import Records
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from repfl.bench.store.store import Store
from repfl.paper_tables.core.result import Figure, NewCanvas, Result, Table, claim
from tests.bench.report import sample

FOUND = sample.FOUND
HALF = FOUND | {("FedAvg", column): (nan, nan, nan) for column in ("easy", "hard", "other")}
"""What the paper's scale has where nobody has run FedAvg at it."""


def tables() -> list[Table]:
    """The same table at two scales: all of it at the desk, FedAvg missing at the paper's."""
    return [
        sample.small_table(sample.SmallEvidence(scale, found))
        for scale, found in (("desk", FOUND), ("paper", HALF))
    ]


def merged(results: list[Result]) -> Table:
    (found,) = merge_scales.merged(results)
    assert isinstance(found, Table)
    return found


def test_every_number_is_of_the_highest_scale_that_measured_it() -> None:
    table = merged([*tables()])
    scales = {
        row: set(table.frame.loc[table.frame["row"] == row, "scale"])
        for row in ("Separate", "FedAvg")
    }
    assert scales == {"Separate": {"paper"}, "FedAvg": {"desk"}}
    assert len(table.frame) == 12
    desk = table.cell("FedAvg", "easy")
    assert desk is not None
    assert desk["ours"] == pytest.approx(85)
    assert desk["verdict"] == "not comparable"
    missing = table.cell("Ours & co_", "hard")
    assert missing is not None
    assert (missing["scale"], missing["verdict"]) == ("paper", "not measured")


def test_a_claim_is_told_from_where_its_verdict_stands() -> None:
    desk, paper = tables()
    desk = replace(desk, claims=(claim("a", "A", True, "ours: 2 of 2", "desk", seeds=5),))
    open_ = claim("a", "A", None, "nothing", "paper")
    assert merged([desk, replace(paper, claims=(open_,))]).claims == desk.claims
    judged = claim("a", "A", False, "ours: 0 of 2", "paper", seeds=1)
    assert merged([desk, replace(paper, claims=(judged,))]).claims == (judged,)


def curves(scale: str, methods: list[str], rounds: int) -> Figure:
    """A figure with one line per method, each of a cell of its own."""
    data = pd.DataFrame(
        [(method, turn, 50.0) for method in methods for turn in range(rounds)],
        columns=["label", "round", "mean"],
    )

    def draw(new_canvas: NewCanvas) -> Canvas:
        canvas = new_canvas(4, 3)
        axes = canvas.subplots()
        for label, line in data.groupby("label"):
            axes.plot(line["round"], line["mean"], label=f"{label} {len(line)}")
        return canvas

    return Figure(
        *("paper-a", "fig1", "Figure 1", "Curves.", scale),
        ids=tuple(f"{scale} {method}" for method in methods),
        data=data,
        stamp=f"{scale} scale: six clients",
        draw=draw,
    )


def test_a_long_curve_is_never_hidden_by_short_ones_however_many() -> None:
    desk = curves("desk", ["FedAvg", "FedPer", "APFL", "Local"], 2)
    paper = curves("paper", ["FedAvg", "FedPer"], 400)
    (found,) = merge_scales.merged([desk, paper])
    assert isinstance(found, Figure)
    assert found.scale == "paper"
    assert dict(found.data.groupby("label").size()) == {"FedAvg": 400, "FedPer": 400}
    (axes,) = found.draw(lambda width, height: Canvas(figsize=(width, height))).axes
    assert [line.get_label() for line in axes.lines] == ["FedAvg 400", "FedPer 400"]
    assert "desk scale: six clients" in found.notes[-1]


def points(scale: str, ours: list[float], ids: tuple[str, ...] = ("a",), **more: Any) -> Figure:
    return Figure(
        *("paper-a", "fig4", "Figure 4", "Points.", scale),
        ids=ids,
        stamp=f"{scale} scale",
        data=pd.DataFrame({**more, "ours": ours}),
    )


SIZES = points("paper", [nan], q=[0.1]), points("desk", [7.0], ("a", "b"), q=[0.1])
"""Sizes are known at every scale; the cells that they come from are no reason to draw them."""
SOURCES = ["f:1", "f:2", "f:3"]
BESIDE = (
    points("paper", [9.0, nan, nan], source=SOURCES, printed=1.0),
    points("desk", [5.0, 6.0, 7.0], source=SOURCES, printed=1.0),
)


@pytest.mark.parametrize(
    ("made", "scale"),
    [
        ((curves("desk", ["FedAvg"], 2), curves("paper", [], 0)), "desk"),
        ((curves("desk", ["FedAvg"], 2), curves("paper", ["FedAvg"], 400)), "paper"),
        (SIZES, "desk"),
        ((SIZES[1], replace(SIZES[0], data=SIZES[1].data)), "paper"),
        (BESIDE, "paper"),
        ((points("paper", [9.0]), points("desk", [5.0, 6.0])), "desk"),
    ],
)
def test_a_figure_is_of_the_highest_scale_that_has_its_points(
    made: tuple[Figure, Figure], scale: str
) -> None:
    (found,) = merge_scales.merged([*made])
    assert isinstance(found, Figure)
    (chosen,) = (each for each in made if each.scale == scale)
    assert (found.scale, found.ids) == (scale, chosen.ids)
    assert found.data is chosen.data
    if made is BESIDE:
        assert "desk scale" in found.notes[-1]


def test_the_caption_of_a_mixed_table_says_how_many_numbers_are_of_which_scale() -> None:
    desk, paper = (
        replace(table, caption=f"A table. {stamp}. Mean.", stamp=stamp)
        for table, stamp in zip(tables(), ("Reduced run: digits", "Full scale: toy"), strict=True)
    )
    told = "A table. Full scale, 7 numbers: toy. Reduced run, 3 numbers: digits. Mean."
    assert merged([desk, paper]).caption == told
    assert merged([paper]).caption == paper.caption


def planned(**asked: Any) -> list[Planned]:
    return [
        item
        for scale in merge_scales.COMPARED
        for item in plan(Selection(scale=scale, **asked), beside=True)
    ]


def test_only_scales_of_which_something_is_known_are_made(tmp_path: Path) -> None:
    items = planned(papers=["star-pfl"])
    kept = merge_scales.with_evidence(items, Records(Store(tmp_path)))
    assert {item.scale for item in kept if item.artefact == "table3"} == {"paper", "desk"}
    assert {item.scale for item in kept if item.artefact == "table2"} == {"desk"}
    nothing = merge_scales.with_evidence(items, Records(Store(tmp_path)), tmp_path)
    assert {item.scale for item in nothing} == {"paper"}
