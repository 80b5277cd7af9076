"""Figures 2 and 3: accuracy against rounds, and against the number of training images.

The markers of both were read from the images in the paper's PDF by `studies/figures.py`; the last
ones of Figure 2 beside Table 1 tell the reading error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms, tables
from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence, folded, pick, scores
from repfl.paper_tables.core.number_text import signed
from repfl.paper_tables.core.published import drawn_lines
from repfl.paper_tables.core.result import Claim, Figure, NewCanvas, joined_gaps
from repfl.paper_tables.core.statistics.curve_gap import compare_curves
from repfl.paper_tables.core.statistics.intervals import spread
from repfl.paper_tables.fedselect.settings import (
    CIFAR10,
    COLUMNS,
    DATASETS,
    FOLDER,
    METHODS,
    OURS,
    PAPER,
    PLACES,
    SAME_DATA,
    SUFFIXES,
    TUNED,
)

AFTER = ("FedAvg", *TUNED)
"""Methods whose curve is that of the global or fine-tuned model."""
DRAWN = (
    ([name for name in METHODS if name not in AFTER], tuple(DATASETS), "pre_agg/mean"),
    (AFTER, tuple(DATASETS), "post_agg/mean"),
)
"""Rows, columns and the stored curve that is drawn."""
SIZES = ("cifar10-n20", "cifar10-n40", CIFAR10, "cifar10-n200")
SIZES_READ = (
    "The numbers of images are those of the paper's axis: 20, 40, 100 and 200 (README, 26). Test"
    " images and rounds are those of Table 1."
)


# -- figure 2 --------------------------------------------------------------------------------------


def fig2(evidence: Evidence) -> Figure:
    """Return figure 2: one panel per data set, one line per method, with Table 1's values."""
    evidence = folded(evidence, *SUFFIXES)
    runs = [forms.run_curves(evidence, *lines) for lines in DRAWN]
    printed = {
        (key, name): tables.published_row(evidence.published, "1", place, name)
        for key, place in PLACES.items()
        for name in METHODS
    }
    return forms.by_round(
        evidence,
        (PAPER, "fig2"),
        "Figure 2: accuracy against rounds",
        "Lines: mean over seeds. FedAvg + FT and FedBABU are scored after fine-tuning, rarely.",
        rows=METHODS,
        columns=COLUMNS,
        data=joined([forms.mean_curves(r, *d[:2]) for r, d in zip(runs, DRAWN, strict=True)]),
        own=OURS,
        reported={key: float(row["value"]) for key, row in printed.items() if row is not None},
        notes=forms.at_scale(evidence, smoke=SAME_DATA),
        claims=(smoothness(pd.concat(runs, ignore_index=True), evidence.scale),),
        alt="Test accuracy against communication rounds for ten methods, one panel per data set.",
    )


def joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return several parts of a figure's data; without any, one of them, which has the columns."""
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def smoothness(runs: pd.DataFrame, scale: str) -> Claim:
    """Return the claim of section 5.2. Methods that are scored rarely are left out."""
    text = "FedSelect converges more smoothly than the other baselines"
    rivals = [name for name in METHODS if name not in (OURS, *TUNED)]
    return shared_claims.smoothest(runs, DATASETS, rivals, OURS, ("smoother", text, "5.2", scale))


# -- figure 3 --------------------------------------------------------------------------------------


def fig3(evidence: Evidence) -> Figure:
    """Return figure 3: ten methods, three or four numbers of training images per client."""
    evidence = folded(evidence, *SUFFIXES)
    data = size_curves(evidence)
    return forms.figure(
        evidence,
        (PAPER, "fig3"),
        "Figure 3: accuracy against the number of training images",
        "CIFAR-10, training images per client from few to many; mean over seeds.",
        lambda new_canvas: draw_sizes(new_canvas, data),
        data,
        notes=(
            SIZES_READ,
            *forms.missing(evidence, METHODS, SIZES),
            *forms.at_scale(evidence, smoke=SAME_DATA),
        ),
        claims=size_claims(evidence),
        findings=_leaders(data) if evidence.scale != "smoke" else (),
        alt="Test accuracy on CIFAR-10 against training images per client, one line per method.",
        accuracy=True,
    )


def size_curves(evidence: Evidence) -> pd.DataFrame:
    """Return reported accuracy by method and number of training images."""
    lines = []
    for label in METHODS:
        for key in SIZES:
            done = pick(evidence, row=label, column=key, done=True)
            if len(done):
                cell, accuracy = done.iloc[0], spread(scores(done))
                images = int(cell["partition.train"]) * int(cell["partition.classes"])
                lines.append((label, images, accuracy.mean, accuracy.std, accuracy.count))
    return pd.DataFrame(lines, columns=["label", "images", "mean", "std", "seeds"])


def _leaders(data: pd.DataFrame) -> tuple[str, ...]:
    """Return which method is highest with each number of images, in a sentence."""
    parts = []
    for images, lines in data.groupby("images"):
        best = lines["mean"].max()
        names = " and ".join(lines.loc[lines["mean"] == best, "label"])
        parts.append(f"{names} with {images} images ({best:.1f} %)")
    runs = " (one run each)" if len(data) and data["seeds"].max() == 1 else ""
    return (f"Highest{runs}: {'; '.join(parts)}.",) if parts else ()


def draw_sizes(new_canvas: NewCanvas, data: pd.DataFrame) -> Canvas:
    """Draw one line per method on a logarithmic axis."""
    canvas = new_canvas(4.4, 4.6)
    axes = canvas.subplots()
    plots.curves(axes, data, figure_style.looks(METHODS, OURS), x="images")
    plots.focus(axes, data)
    sizes = sorted(data["images"].unique())
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes], minor=False)
    axes.minorticks_off()
    axes.set(xlabel="Training images per client", ylabel="Accuracy (%)")
    figure_style.legend_below(canvas, [axes])
    return canvas


FALLEN = ("FedBABU", "FedPer")


def size_claims(evidence: Evidence) -> tuple[Claim, ...]:
    """Section 5.2 on few samples: two numbers, and the order of methods."""
    fewest = tables.lines_frame(evidence, (OURS, *FALLEN), SIZES[:1])
    return judge_all(evidence, FOLDER, "fig3", fewest)


# -- the first forty rounds of figure 2, by several rules ------------------------------------------

COLUMN = "cifar10-40"
RULES = ("Algorithm 3, p = 0.05", "Code's rules, p = 0.25", "Algorithm 3, p = 0.25")
RATES = ("Code's rules, learning rate 0.1", "Code's rules, learning rate 0.02")
ROWS = (*RULES, *RATES)
BASELINES = {"FedPer": COLUMN, "LG-FedAvg": COLUMN, "FedRep": COLUMN, "FedAvg": "cifar10-40-single"}
"""Baselines whose first rounds were run, with the column of each."""
TRIED = (
    "FedPer, learning rate 0.02", "FedPer, learning rate 0.01", "FedPer, 6 epochs",
    "FedPer, batches of 10", "FedPer, batches of 10, learning rate 0.01",
    "FedPer, batches of 10, learning rate 0.01, momentum 0.5",
    "LG-FedAvg, batches of 10, learning rate 0.01, momentum 0.5",
)  # fmt: skip
"""Baselines under other ways to train; compared, and not drawn."""
PRINTED = "Figure 2"
ROUNDS = 40
SEEN = (10, ROUNDS)
"""The markers that are compared."""
NEAR = 2
"""Rounds to either side of a marker over which ours is averaged."""
READING = (
    "The markers of Figure 2 are read from its image, to about 0.1 points. Its round 0 is drawn at"
    " our round 1, the first that is scored."
)
POINTS = {"pre_agg/mean": "before averaging", "post_agg/mean": "after averaging"}
BESIDE = "baselines"
MARKER = ", Figure 2"
"""Ends the label of a baseline's markers."""


def fig2_start(evidence: Evidence) -> Figure:
    """Return the curves of three rules, one panel per scoring point."""
    data = joined(
        [
            forms.accuracy_curves(evidence, ROWS, [COLUMN], name).assign(point=point)
            for name, point in POINTS.items()
        ]
    )
    found: dict[str, Any] = {}
    if evidence.scale == "paper":
        others, distances = baselines(evidence), gaps(evidence)
        found = {"findings": findings(distances), "curve_gaps": distances}
        drawn = [markers().assign(label=PRINTED, point=each) for each in POINTS.values()]
        ran = others["label"].unique()
        beside = [markers(name).assign(label=name + MARKER, point=BESIDE) for name in ran]
        data = pd.concat([data, *drawn, *beside, *([others] if len(others) else [])])
    data = data.assign(column=data["point"])
    return forms.figure(
        evidence,
        (PAPER, "fig2-start"),
        "FedSelect's first forty rounds beside Figure 2",
        "CIFAR-10, α = 0.30, the ten clients of Figure 4.",
        lambda new_canvas: draw_start(new_canvas, data),
        data,
        notes=(
            READING,
            *forms.missing(evidence, ROWS, [COLUMN]),
            *forms.at_scale(evidence, smoke=SAME_DATA),
        ),
        alt="Accuracy of FedSelect in the first forty rounds by three rules, before and after"
        " averaging, and of baselines.",
        accuracy=True,
        **found,
    )


def gaps(evidence: Evidence) -> pd.DataFrame:
    """Return how far our curves lie from the markers of Figure 2 that can be seen, by row and
    scoring point; ours is the mean of the rounds within two of a marker's.
    """
    points = [(row, COLUMN, curve) for row in ROWS for curve in POINTS]
    points += [(name, column, _drawn_point(name)) for name, column in BASELINES.items()]
    points += [(row, COLUMN, _drawn_point(_baseline(row))) for row in TRIED]
    parts = []
    for row, column, curve in points:
        runs = forms.run_curves(evidence, [row], [column], curve).sort_values(["seed", "round"])
        near = runs.groupby("seed")["value"].rolling(2 * NEAR + 1, center=True, min_periods=1)
        ours = runs.assign(value=near.mean().to_numpy())
        drawn_at = markers(_baseline(row) or OURS).set_index("round")["mean"]
        about: dict[str, Any] = {"row": row, "column": column, "setting": POINTS[curve]}
        about["beside"] = f"{PAPER}/fig2"
        parts += [compare_curves(ours, drawn_at, [SEEN]).assign(**about)] if len(ours) else []
    return joined_gaps(parts)


def findings(beside: pd.DataFrame) -> tuple[str, ...]:
    """Return how far the rules lie from the markers, once all have run, and each baseline."""
    says, rules = [], beside[beside["row"].isin(RULES)]
    if set(rules["row"]) == set(RULES):
        near = rules.sort_values("rms").iloc[0]
        says.append(
            f"{len(RULES)} rules, each scored before and after averaging (one seed): from round 10"
            f" on they differ from Figure 2 by {near['rms']:.1f} to {rules['rms'].max():.1f} points"
            f" (root mean square). The nearest is {near['row']} {near['setting']},"
            f" {signed(near['difference'], 1)} on average."
        )
    for what, names in (("Baselines", tuple(BASELINES)), ("Trained in other ways", TRIED)):
        others = beside[beside["row"].isin(names)].to_dict("records")
        words = ", ".join(f"{each['row']} {signed(each['difference'], 1)}" for each in others)
        if words:
            end = "minus their markers on average"
            says.append(f"{what}, ours {end}: {words} points (one seed).")
    return tuple(says)


def _baseline(row: str) -> str:
    """Return the baseline that a row runs, or nothing for FedSelect's."""
    name = row.partition(",")[0]
    return name if name in BASELINES else ""


def baselines(evidence: Evidence) -> pd.DataFrame:
    """Return the baselines' curves, each at the point at which Figure 2 scores it."""
    parts = []
    for name, column in BASELINES.items():
        parts.append(forms.accuracy_curves(evidence, [name], [column], _drawn_point(name)))
    return joined(parts).assign(point=BESIDE)


def _drawn_point(baseline: str) -> str:
    """Return the stored curve of a baseline that Figure 2 draws."""
    return "post_agg/mean" if baseline in AFTER else "pre_agg/mean"


def markers(method: str = OURS) -> pd.DataFrame:
    """Return a method's printed markers of the first rounds."""
    line = drawn_lines(FOLDER / "published")["fig2", DATASETS[CIFAR10], method].loc[:ROUNDS]
    rounds = line.index.to_series().clip(lower=1).to_numpy()
    return pd.DataFrame({"round": rounds, "mean": line.to_numpy()})


def draw_start(new_canvas: NewCanvas, data: pd.DataFrame) -> Canvas:
    """Draw a panel per scoring point, and one of baselines once they have run."""
    points = list(dict.fromkeys([*POINTS.values(), *data["point"]]))
    beside = [name + end for name in BASELINES for end in ("", MARKER)]
    canvas = new_canvas(9.5, 4.4)
    panels = figure_style.panels(canvas, len(points), len(points), sharey=True)
    for axes, point in zip(panels, points, strict=True):
        lines = data[data["point"] == point]
        plots.curves(axes, lines, figure_style.looks([PRINTED, *ROWS, *beside], PRINTED))
        if lines.empty:
            figure_style.not_run(axes)
        axes.set(title=point, xlabel="Round", ylabel="Accuracy (%)")
    figure_style.legend_below(canvas, panels, columns=len(RULES))
    return canvas
