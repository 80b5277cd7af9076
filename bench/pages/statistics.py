"""The parts of STATISTICS.md that are computed: how often verdicts err, and the picture of the
noise model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repfl.bench.evidence import noise as evidence
from repfl.bench.grid import grid as grids
from repfl.paper_tables.core.noise import LABELS

PAGE = grids.ROOT.parent / "bench" / "STATISTICS.md"
FIGURE = PAGE.parent / "noise.png"


def block() -> str:
    """The table of error rates."""
    head, *lines = (f"| {' | '.join(line)} |" for line in evidence.operating())
    return "\n".join((head, f"|{'---|' * (head.count('|') - 1)}", *lines)) + "\n"


def reach(paper: str) -> str:
    """Whether an accuracy of a paper can come out reproduced at all, and with how many seeds; a
    paper whose runs are not known has no such line.
    """
    if paper not in (needed := evidence.seeds_needed()):
        return ""
    if needed[paper] is None:
        told = (
            "Even an accuracy that is equal to the paper's would come out *reproduced* in fewer"
            " than half of all cases, however many seeds are run: the printed means are of too few"
            " runs for their noise. *Consistent* is then the most to expect"
        )
    else:
        seeds = "1 seed" if needed[paper] == 1 else f"{needed[paper]} seeds"
        told = (
            "An accuracy that is equal to the paper's comes out *reproduced* in half of all cases,"
            f" or more, from {seeds} of ours on"
        )
    return f"{told} ([how this is computed](../../bench/STATISTICS.md#how-often-it-errs))."


def draw(path: Path) -> None:
    """Every deviation that the model has seen, and what it expects there from all the others; one
    panel per pool.
    """
    from repfl.paper_tables.core import figures

    groups, model = evidence.groups(), evidence.fitted()
    pools = sorted(set(groups["pool"]))
    with figures.style():
        canvas = figures.sheet(7.2, 2.6 * -(-len(pools) // 2))
        for axes, pool in zip(
            figures.panels(canvas, len(pools), 2, sharex=True, sharey=True), pools, strict=True
        ):
            cells = groups[groups["pool"] == pool]
            expected = [
                model.expected(*labels) for labels in cells[list(LABELS)].itertuples(index=False)
            ]
            middle = np.sqrt([each.variance for each in expected])
            axes.plot(
                middle,
                np.sqrt(cells["variance"].astype(float)),
                "o",
                color=figures.PALETTE[0],
                markersize=3,
                alpha=0.5,
            )
            ends = np.array([middle.min(), middle.max()])
            axes.plot(ends, ends, color="0.4", linewidth=0.8)
            axes.set(
                xscale="log",
                yscale="log",
                xlabel="expected from all other cells, points",
                ylabel="seen, points",
            )
            axes.xaxis.set_minor_formatter("")
            axes.set_title(f"{pool}: {len(cells)} cells", fontsize=8)
        ours = len(evidence.noise.groups_of(evidence.measured_runs()))
        canvas.suptitle(
            f"Deviation between runs of {len(groups)} cells: {ours} with several measured seeds,"
            f" {len(groups) - ours} with a printed deviation. Line: as expected.",
            fontsize=8,
            x=0.01,
            ha="left",
        )
        canvas.savefig(path, metadata={"Software": None})
