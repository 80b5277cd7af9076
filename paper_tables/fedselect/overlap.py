"""Figure 4: which clients choose the same parameters, from recorded masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite, nan
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms, tables
from repfl.paper_tables.core.drawing import captions, figure_style, plots
from repfl.paper_tables.core.evidence import Arrays, Evidence, pick, spans, why_missing
from repfl.paper_tables.core.published import select
from repfl.paper_tables.core.result import Claim, Figure, NewCanvas, claim
from repfl.paper_tables.core.statistics.verdict import Kind
from repfl.paper_tables.fedselect.settings import ALPHAS, CIFAR10, LIMITS, PAPER, SAME_DATA

MEASURE = (
    "Overlap of two clients in the final linear layer: entries personal to both, as a share of"
    " those personal to either. Two independent masks of share a would overlap by a / (2 - a). The"
    " paper's are normalised, and it does not say how: at α = 0.80 a pair has 0.00 (README, 27)."
    " Colours compare the pairs of a row of panels."
)
ORDER = "Clients are in the order of the paper's figure; their classes stand at the axis."
PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (0, 3), (1, 4), (2, 5), (6, 9), (7, 8))
"""The classes of the paper's clients, in the order of its figure."""
STATISTICS = (".mean", ".var", ".running_mean", ".running_var")
"""How a layout names the running statistics of batch norm, which are no parameters."""


@dataclass(frozen=True)
class Overlap:
    """One run's masks, compared."""

    alpha: str
    table: np.ndarray  # [N, N], NaN on the diagonal
    labels: tuple[tuple[int, ...], ...]
    """The classes of every client, in the order of the table."""
    share: float = nan
    """Personal share of the layer, mean over clients; NaN if it is not printed."""
    sources: tuple[str, ...] = ()
    """File and line of every pair, if the overlaps are printed ones."""

    @property
    def pairs(self) -> pd.DataFrame:
        """Return every pair of clients: their overlap, and whether they have a class in common."""
        rows = [
            {
                "alpha": self.alpha,
                "first": named(a),
                "second": named(b),
                "common": bool(set(a) & set(b)),
                "overlap": float(self.table[i, j]),
            }
            for (i, a), (j, b) in combinations(enumerate(self.labels), 2)
        ]
        return pd.DataFrame(rows)


def named(classes: Sequence[int]) -> str:
    """Return a client's classes as the paper writes them."""
    return f"[{' '.join(map(str, classes))}]"


def final_layer_overlaps(arrays: Arrays) -> Arrays:
    """Reduce a run's mask tallies to its overlaps in the final linear layer; empty if it recorded
    none.
    """
    if not {"mask", "class_counts", "layout/names"} <= set(arrays):
        return {}
    places = {n: span for n, span in spans(arrays).items() if not n.endswith(STATISTICS)}
    last = [name for name in places if name.endswith(".weight")][-1].removesuffix("weight")
    # masks only grow, so what was ever personal is personal at the end
    masks = [arrays["mask"][:, span] > 0 for name, span in places.items() if name.startswith(last)]
    return compare_masks(np.concatenate(masks, axis=1), arrays["class_counts"])


def compare_masks(masks: np.ndarray, counts: np.ndarray) -> Arrays:
    """Compare final masks [N, D], given training samples per class [N, C]: overlaps, the classes of
    each client, and the personal share.
    """
    owned = [tuple(np.flatnonzero(row).tolist()) for row in counts]
    printed: dict[tuple[int, ...], int] = {classes: k for k, classes in enumerate(PAIRS)}
    order = sorted(range(len(masks)), key=lambda k: (printed.get(owned[k], len(PAIRS)), owned[k]))
    packed, sizes = np.packbits(masks[order], axis=1), masks[order].sum(axis=1)
    table = np.full((len(order), len(order)), np.nan)
    for i, j in combinations(range(len(order)), 2):
        both = int(np.bitwise_count(packed[i] & packed[j]).sum())
        either = int(sizes[i] + sizes[j]) - both
        table[i, j] = table[j, i] = both / either if either else np.nan
    return {"table": table, "classes": counts[order] > 0, "share": np.asarray(masks.mean())}


def read(evidence: Evidence) -> list[Overlap] | str:
    """Return the overlaps of every α that has run, or the reason why there are none."""
    result, reasons = [], []
    for row in LIMITS:
        planned = pick(evidence, row=row, column=CIFAR10)
        done = planned[planned["status"] == "done"]
        if done.empty:
            reasons.append(f"{row}: {why_missing(planned, evidence.scale)}")
            continue
        cell = str(done.iloc[0]["id"])
        arrays = evidence.arrays(cell, final_layer_overlaps)
        if not arrays:
            reasons.append(f"{row}: cell {cell[:12]} holds no mask tallies")
            continue
        labels = tuple(tuple(np.flatnonzero(client).tolist()) for client in arrays["classes"])
        result.append(Overlap(row, arrays["table"], labels, float(arrays["share"])))
    return result or "; ".join(reasons)


def printed_overlaps(evidence: Evidence) -> list[Overlap]:
    """Return the overlaps that the paper prints, one per α."""
    rows = select(evidence.published, table="figure 4")
    result = []
    for alpha in ALPHAS:
        lines = select(rows, setting=f"alpha={alpha}").set_index("method")
        table = np.full((len(PAIRS), len(PAIRS)), np.nan)
        sources = []
        for i, j in combinations(range(len(PAIRS)), 2):
            line = lines.loc[f"{named(PAIRS[i])} and {named(PAIRS[j])}"]
            table[i, j] = table[j, i] = line["value"]
            sources.append(str(line["source"]))
        result.append(Overlap(f"α = {alpha}", table, PAIRS, sources=tuple(sources)))
    return result


def fig4(evidence: Evidence) -> Figure:
    """Return heat maps of pairwise overlap, one per α: the printed ones, and below them ours."""
    result, printed = read(evidence), printed_overlaps(evidence)
    ours = [] if isinstance(result, str) else result
    data = [each.pairs.assign(side="ours", source="") for each in ours]
    data += [_judged(each, ours, evidence.scale) for each in printed]
    return forms.figure(
        evidence,
        (PAPER, "fig4"),
        "Figure 4: how much the clients' masks overlap",
        "Overlap of the clients' final masks in the last layer on CIFAR-10 for four limits α, as"
        f" printed{', and below it ours' if ours else '; ours has not run'}.",
        lambda new_canvas: draw(new_canvas, printed, ours),
        pd.concat(data, ignore_index=True),
        notes=(
            MEASURE,
            ORDER,
            *((result,) if isinstance(result, str) else ()),
            *forms.missing(evidence, LIMITS, [CIFAR10]),
            *forms.at_scale(evidence, smoke=SAME_DATA),
        ),
        claims=claims(ours, evidence.scale, printed),
        findings=_shared_classes(printed),
        stamp=captions.stamp(evidence) if ours else "Printed values; ours has not run",
        alt="Heat maps of the pairwise overlap of ten clients' masks, one per α, printed and ours.",
    )


def _shared_classes(printed: Sequence[Overlap]) -> tuple[str, ...]:
    """Return the printed contrast at the smallest and at the largest limit, in a sentence."""
    parts = [
        f"{each.alpha}: {common:.2f} with a class in common and {none:.2f} without"
        for each, (common, none) in ((each, _contrast(each)) for each in (printed[0], printed[-1]))
    ]
    return (f"Mean overlap of two clients as printed, {'; '.join(parts)}.",)


UNKNOWN_MEASURE = "the paper's overlap is normalised, and it does not say how"


def _judged(printed: Overlap, ours: Sequence[Overlap], scale: str) -> pd.DataFrame:
    """Return the printed overlaps of one α, with ours of the same pair of classes beside them."""
    pairs = ["first", "second"]
    # drawn classes may give two pairs of clients the same classes: then none is the printed one
    same = [
        each.pairs.drop_duplicates(pairs, keep=False).set_index(pairs)["overlap"]
        for each in ours
        if each.alpha == printed.alpha
    ]
    rows = []
    for row, source in zip(printed.pairs.to_dict("records"), printed.sources, strict=True):
        found = [values.get((row["first"], row["second"]), nan) for values in same]
        cell = {
            "column": printed.alpha,
            "printed": row["overlap"],
            "printed_std": nan,
            "ours": found[0] if found else nan,
            "std": nan,
            "seeds": int(bool(found) and isfinite(found[0])),
            "scale": scale,
            "source": source,
            "floor": nan,
            "one_model": False,
            "rule": "",
            "borrowed": None,
            "reason": "" if found else "not run yet",
        }
        judged = tables.conclude(cell, "fraction", Kind.TRAINED, why_incomparable=UNKNOWN_MEASURE)
        rows.append(row | judged | {"side": "reported"})
    return pd.DataFrame(rows)


def draw(new_canvas: NewCanvas, printed: list[Overlap], ours: list[Overlap]) -> Canvas:
    """Draw a row of squares for the paper and one for our runs, each with its own colour scale:
    the two are not measured alike.
    """
    canvas = new_canvas(11.5, 7.2 if ours else 3.9)
    columns = len(printed)
    rows = [("reported", printed), *([("ours", ours)] if ours else [])]
    squares = figure_style.panels(canvas, columns * len(rows), columns)
    for row, (name, compared) in enumerate(rows):
        by_alpha = {each.alpha: each for each in compared}
        top = max(float(np.nanmax(each.table)) for each in compared)
        panels = squares[row * columns : (row + 1) * columns]
        for panel, overlap in zip(panels, printed, strict=True):
            if overlap.alpha in by_alpha:
                draw_square(panel, by_alpha[overlap.alpha], name, top)
            else:
                figure_style.not_run(panel)
        canvas.colorbar(plots.heat_scale(top), ax=panels, label="Overlap", pad=0.01, aspect=30)
    canvas.supxlabel("Classes of a client", fontsize=9)
    canvas.supylabel("Classes of a client", fontsize=9)
    return canvas


def draw_square(panel: Axes, overlap: Overlap, name: str, top: float) -> None:
    """Draw the overlaps of all pairs at one α."""
    plots.heat(panel, overlap.table, top=top)
    names = [" ".join(map(str, labels)) for labels in overlap.labels]
    panel.set_xticks(range(len(names)), names, rotation=90, fontsize=7.5)
    panel.set_yticks(range(len(names)), names, fontsize=7.5)
    panel.set_box_aspect(1)
    share = f", personal {100 * overlap.share:.1f} %" if isfinite(overlap.share) else ""
    panel.set_title(f"{overlap.alpha}, {name}{share}", fontsize=9)


class Seen(NamedTuple):
    """What some overlaps say about the sentences of section 5.2."""

    common: bool | None
    rising: bool | None
    less_distinct: bool | None


def seen(compared: Sequence[Overlap]) -> Seen:
    """Return whether clients with a common class overlap more, overlap rises with α, and other
    clients come nearer to them; None where runs are missing.
    """
    inside = [_contrast(overlap) for overlap in compared]
    means = [float(np.nanmean(overlap.table)) for overlap in compared]
    complete = bool(inside) and bool(np.isfinite(inside).all())
    every = len(compared) == len(LIMITS)
    return Seen(
        all(common > none for common, none in inside) if complete else None,
        means == sorted(means) if every else None,
        inside[-1][1] * inside[0][0] > inside[0][1] * inside[-1][0] if every and complete else None,
    )


def claims(
    compared: Sequence[Overlap], scale: str, printed: Sequence[Overlap]
) -> tuple[Claim, ...]:
    """Return claims on the sentences of section 5.2 on masks, in our one seed and in print."""
    inside = [_contrast(overlap) for overlap in compared]
    ours, theirs = seen(compared), seen(printed)

    def by_alpha(values: list[str]) -> str:
        named_values = zip(compared, values, strict=True)
        return ", ".join(f"{each.alpha}: {value}" for each, value in named_values) or "no run"

    return (
        claim(
            "common-label-more-overlap",
            "Clients that share a label overlap more than clients that share none",
            ours.common,
            "mean overlap with a common label against none (one seed): "
            + by_alpha([f"{common:.3f} against {none:.3f}" for common, none in inside]),
            scale,
            place="5.2",
            printed=theirs.common,
        ),
        claim(
            "overlap-rises-with-limit",
            "A larger α gives more overlap",
            ours.rising,
            "mean over pairs (one seed): "
            + by_alpha([f"{float(np.nanmean(each.table)):.3f}" for each in compared]),
            scale,
            place="5.2",
            printed=theirs.rising,
        ),
        claim(
            "less-distinct-with-limit",
            "A larger α gives less distinct masks: overlap without a common label, as a share of"
            " that with one, is larger at the largest α than at the smallest",
            ours.less_distinct,
            "overlap with a common label and without (one seed): "
            + by_alpha([f"{common:.3f} and {none:.3f}" for common, none in inside]),
            scale,
            place="5.2",
            printed=theirs.less_distinct,
        ),
    )


def _contrast(overlap: Overlap) -> tuple[float, float]:
    """Return the mean overlap of pairs with and without a class in common."""
    pairs = overlap.pairs
    means = pairs.groupby("common")["overlap"].mean()
    return float(means.get(True, np.nan)), float(means.get(False, np.nan))
