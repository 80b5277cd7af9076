"""What plots show is read back from their artists and compared with the frame that they were drawn
from: every value once, on its own line, in its own colour, on its own side.
"""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer

from repfl.paper_tables.core.drawing import figure_style, plots

LABELS = ("Separate", "FedAvg", "Ours")
ROUNDS = (1, 2, 5, 9)
LOOKS = figure_style.looks(list(LABELS), "Ours")


@pytest.fixture
def axes() -> Axes:
    with figure_style.style():
        (panel,) = figure_style.panels(figure_style.new_canvas(5, 4), 1, 1)
    return panel


def value(line: int, place: int) -> float:
    """No two values are alike, nor as far from each other."""
    return 40.0 + 7.3 * line + 1.7 * place + 0.13 * line * place**2


@pytest.fixture
def lines() -> pd.DataFrame:
    """Our curves with bands, and the authors' log of two of them, over more rounds."""
    rows = []
    for index, label in enumerate(LABELS):
        for place, round_ in enumerate(ROUNDS):
            mean = value(index, place)
            rows.append((label, round_, mean, mean - 0.5 - index, mean + 0.7 + place, "run"))
        for place, round_ in enumerate((*ROUNDS, 12) if index else ()):
            log = value(index, place) + 20.0
            rows.append((label, round_, log, nan, nan, plots.LOG))
    frame = pd.DataFrame(rows, columns=["label", "round", "mean", "low", "high", "kind"])
    return frame.sample(frac=1.0, random_state=1)  # in no order


def points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in line.get_xydata()]


def rows_of(frame: pd.DataFrame, column: str) -> list[tuple[float, float]]:
    ordered = frame.sort_values("round")
    return list(zip(ordered["round"].astype(float), ordered[column], strict=True))


def is_hollow(line: Any) -> bool:
    return to_hex(line.get_markerfacecolor()) == "#ffffff"


def test_curves_show_every_round_of_every_line_in_its_colour(
    axes: Axes, lines: pd.DataFrame
) -> None:
    plots.curves(axes, lines, LOOKS, bands=("FedAvg",))
    shown = {(to_hex(line.get_color()), is_hollow(line)): line for line in axes.lines}
    assert len(shown) == len(axes.lines) == 5
    for label in LABELS:
        for logged in (False, True):
            own = lines[(lines["label"] == label) & ((lines["kind"] == plots.LOG) == logged)]
            line = shown.get((to_hex(LOOKS[label]["color"]), logged))
            assert (points(line) if line else []) == rows_of(own, "mean"), label
    (band,) = axes.collections
    own = lines[(lines["label"] == "FedAvg") & (lines["kind"] == "run")]
    corners = {(float(x), round(float(y), 9)) for x, y in band.get_paths()[0].vertices}
    edges = rows_of(own, "low") + rows_of(own, "high")
    assert corners == {(x, round(y, 9)) for x, y in edges}
    assert to_hex(band.get_facecolor()[0]) == to_hex(LOOKS["FedAvg"]["color"])


def test_a_legend_names_every_line_with_its_own_colour(axes: Axes, lines: pd.DataFrame) -> None:
    plots.curves(axes, lines, LOOKS)
    handles, names = axes.get_legend_handles_labels()
    named = {name: to_hex(handle.get_color()) for name, handle in zip(names, handles, strict=True)}
    assert named == {label: to_hex(LOOKS[label]["color"]) for label in LABELS}


def test_reported_values_stand_behind_the_last_round_in_their_lines_colours(
    axes: Axes, lines: pd.DataFrame
) -> None:
    plots.curves(axes, lines[lines["kind"] == "run"], LOOKS)
    drawn = len(axes.lines)
    values = {"Ours": 71.5, "Separate": 44.25}
    plots.at_the_end(axes, 9.0, values, LOOKS)
    shown = {to_hex(line.get_color()): line for line in axes.lines[drawn:]}
    assert len(shown) == len(values)
    for label, expected in values.items():
        ((x, y),) = points(shown[to_hex(LOOKS[label]["color"])])
        assert y == expected
        assert 9.0 < x <= axes.get_xlim()[1]
    named = [line.get_label() for line in axes.lines[drawn:]]
    assert sum(name == "reported" for name in named) == 1


def test_limits_leave_out_no_line_but_those_that_are_named(axes: Axes, lines: pd.DataFrame) -> None:
    plots.focus(axes, lines)
    low, high = axes.get_ylim()
    late = lines[lines["round"] >= lines["round"].max() / 5]["mean"]
    assert low < late.min() < late.max() < high


GROUPS = ("easy", "hard")


@pytest.fixture
def means() -> pd.DataFrame:
    """Means and deviations of both sides, no two alike; one of ours is missing."""
    index = pd.MultiIndex.from_product([LABELS, GROUPS], names=["row", "column"])
    count = np.arange(len(index), dtype=float)
    frame = pd.DataFrame(
        {
            "ours": 50.0 + 3.1 * count,
            "std": 0.4 + 0.11 * count,
            "printed": 51.0 + 2.3 * count,
            "printed_std": 1.5 + 0.17 * count,
        },
        index=index,
    )
    frame.loc[("FedAvg", "hard"), ["ours", "std"]] = nan
    return frame


def bars(container: ErrorbarContainer) -> list[tuple[float, float, float]]:
    """Place, mean and half length of the bars of a group of marks."""
    line, _, (lengths,) = container.lines
    there = [(x, y) for x, y in points(line) if not isnan(y)]
    ends = [np.array(each)[:, 1] for each in lengths.get_segments() if len(each)]
    assert [each.mean() for each in ends] == pytest.approx([y for _, y in there])
    return [(x, y, float(np.ptp(each)) / 2) for (x, y), each in zip(there, ends, strict=True)]


def test_marks_show_both_sides_with_their_own_deviations(axes: Axes, means: pd.DataFrame) -> None:
    plots.dots(axes, means, GROUPS, LOOKS)
    shown = {
        (to_hex(each.lines[0].get_color()), is_hollow(each.lines[0])): bars(each)
        for each in axes.containers
        if isinstance(each, ErrorbarContainer)
    }
    assert len(shown) == 2 * len(LABELS)
    for label in LABELS:
        for hollow, mean, std in ((False, "ours", "std"), (True, "printed", "printed_std")):
            expected = [
                (group, means.loc[(label, name), mean], means.loc[(label, name), std])
                for group, name in enumerate(GROUPS)
                if not isnan(means.loc[(label, name), mean])
            ]
            found = shown[to_hex(LOOKS[label]["color"]), hollow]
            assert [round(x) for x, _, _ in found] == [group for group, _, _ in expected]
            assert [each[1:] for each in found] == [pytest.approx(each[1:]) for each in expected]
    assert [text.get_text() for text in axes.get_xticklabels()] == list(GROUPS)


def test_densities_stand_on_the_rows_that_name_them(axes: Axes) -> None:
    """The first sample on top; the peak of each where its shares lie."""
    peaks = {"first": 0.2, "second": 0.5, "third": 0.9}
    plots.ridge(axes, [np.full(50, peak) for peak in peaks.values()], list(peaks), 0.01)
    rows = {
        text.get_text(): place
        for text, place in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)
    }
    for line in axes.lines:
        x, y = np.array(line.get_xdata()), np.array(line.get_ydata())
        (name,) = [name for name, place in rows.items() if place == round(float(y.min()))]
        assert x[y.argmax()] == pytest.approx(peaks[name], abs=0.02)
    assert len(axes.lines) == len(peaks)


def test_a_histogram_counts_every_share_in_the_bin_of_its_round(axes: Axes) -> None:
    """Of eight rounds: shares are eighths, and 0 and 1 have a whole bin each."""
    plots.ridge(axes, [np.array([0.0, 0.0, 0.25, 1.0])], ["only"], 1 / 8)
    (line,) = axes.lines
    heights = dict(zip(np.round(line.get_xdata(), 6), line.get_ydata(), strict=True))
    assert len(heights) == 9
    top = heights.pop(0.0)
    assert {x: y / top for x, y in heights.items() if y} == {0.25: 0.5, 1.0: 0.5}


def test_a_legend_of_dots_names_every_mark_and_the_line() -> None:
    data = pd.DataFrame(
        {"panel": "a", "row": ["x", "y"], "value": [1.0, nan], "filled": [True, False]}
    )
    marks = {"filled": "chosen", "hollow": "other", "cross": "diverged"}
    with figure_style.style():
        canvas = plots.dot_panels(
            figure_style.new_canvas, data, ["x", "y"], {"a": "A"}, marks=marks, line="x"
        )
    (legend,) = canvas.legends
    assert [text.get_text() for text in legend.get_texts()] == [*marks.values(), "x"]
    filled, hollow, cross, line = legend.get_lines()
    assert not is_hollow(filled)
    assert is_hollow(hollow)
    assert cross.get_marker() == "x"
    assert line.get_linestyle() == "--"


def test_a_map_shows_its_values_from_bottom_to_top(axes: Axes) -> None:
    values = np.array([[0.0, 0.25, 0.5], [0.75, 1.0, 0.1]])
    plots.heat(axes, values, top=0.8)
    (image,) = axes.images
    assert np.array_equal(np.asarray(image.get_array()), values)
    assert image.get_clim() == (0.0, 0.8)
    scale = plots.heat_scale(0.8)
    assert (scale.norm.vmin, scale.norm.vmax) == (0.0, 0.8)
    assert np.allclose(scale.to_rgba([0.1, 0.7]), image.to_rgba([0.1, 0.7]))
