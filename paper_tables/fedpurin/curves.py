"""Figures 3 and 4: accuracy against rounds on CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.curves import accuracy_curves
from repfl.paper_tables.core.evidence import Evidence, pick, why_missing
from repfl.paper_tables.core.result import Claim, Figure, Sheet
from repfl.paper_tables.fedpurin import claims
from repfl.paper_tables.fedpurin.settings import (
    ALPHAS,
    BN_ROWS,
    CIFAR10,
    OURS,
    PAPER,
    PLACES,
    TAU_ROWS,
)

GRADIENT = (
    "The paper does not say which gradient these runs use; ours use the exact one, as its"
    " tables do."
)
BN_ARM = (
    "“w/ BN” may mean that BN weights are masked like all others (primary), or sent in full; the"
    " code has both, and both are drawn."
)


def fig3(evidence: Evidence) -> Figure:
    """BN weights kept local, masked and shared, or shared in full."""
    what = "Lines: mean over seeds; bands: lowest to highest."
    return _figure(
        evidence,
        "fig3",
        "Figure 3: BN kept local or collaborated",
        what,
        BN_ROWS,
        (BN_ARM, GRADIENT),
        claims.batch_norm,
    )


def fig4(evidence: Evidence) -> Figure:
    """Five shares of critical parameters."""
    what = "Lines: mean over seeds; bands: lowest to highest."
    title = "Figure 4: the share τ of critical parameters"
    return _figure(evidence, "fig4", title, what, TAU_ROWS, (GRADIENT,), claims.sparsity)


def _figure(
    evidence: Evidence,
    name: str,
    title: str,
    what: str,
    rows: Sequence[str],
    notes: tuple[str, ...],
    judge: Callable[[pd.DataFrame, str], tuple[Claim, ...]],
) -> Figure:
    data = accuracy_curves(evidence, rows, CIFAR10, "pre_agg/mean")
    printed = {key: _printed(evidence, key) for key in CIFAR10 if evidence.scale == "paper"}
    if printed:
        what += " Dotted: the best value printed in Table 1 for FedPURIN."
    return Figure(
        PAPER,
        name,
        title,
        captions.caption(evidence, what, floor=False),
        evidence.scale,
        notes + _gaps(evidence, rows),
        judge(tables.lines_frame(evidence, rows, CIFAR10), evidence.scale),
        tables.done_ids(evidence),
        stamp=captions.stamp(evidence),
        draw=lambda sheet: draw_curves(sheet, data, rows, printed),
        data=data,
        alt=(
            f"Test accuracy against communication rounds on CIFAR-10 for {', '.join(rows)}; one"
            " panel per α."
        ),
    )


def _printed(evidence: Evidence, key: str) -> float:
    row = tables.published_row(evidence.published, "1", PLACES[key], OURS)
    return float("nan") if row is None else float(row["value"])


def _gaps(evidence: Evidence, rows: Sequence[str]) -> tuple[str, ...]:
    """One note per line that is absent or rests on fewer seeds."""
    found: dict[tuple[str, str], list[str]] = {}
    for key in CIFAR10:
        for row in rows:
            reason = why_missing(pick(evidence, row=row, column=key), evidence.scale)
            if reason:
                found.setdefault((key, reason), []).append(row)
    return tuple(f"{key}: {', '.join(labels)}: {reason}" for (key, reason), labels in found.items())


def draw_curves(
    sheet: Sheet, data: pd.DataFrame, rows: Sequence[str], printed: Mapping[str, float]
) -> Canvas:
    """One panel per α."""
    canvas = sheet(10.5, 3.6)
    axes = figures.panels(canvas, len(CIFAR10), 3)
    last = int(data["round"].max()) if len(data) else 2
    for place, (panel, key, alpha) in enumerate(zip(axes, CIFAR10, ALPHAS["cifar10"], strict=True)):
        lines = data[data["column"] == key]
        figures.curves(panel, lines, rows, band=True)
        panel.set_xlim(1, max(2, last))
        if key in printed:
            panel.axhline(
                printed[key],
                color="0.35",
                linestyle=":",
                linewidth=1.1,
                label="Table 1 of the paper",
            )
        if lines.empty:
            figures.not_run(panel)
        panel.set_title(f"({'abc'[place]}) CIFAR-10, α = {alpha}")
        panel.set_xlabel("Round")
    axes[0].set_ylabel("Test accuracy (%)")
    figures.legend_below(canvas, figures.fullest(axes), columns=6)
    return canvas
