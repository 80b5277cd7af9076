"""Captions: what is shown, by which metric and rule, at which scale, from which seeds."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from repfl.paper_tables.core.evidence import Evidence, setting
from repfl.paper_tables.core.tables import FLOOR

RULE_WORDS = {
    "last": "after the last round",
    "max": "in the best round, chosen on the test images as the paper does",
    "best-val": "in the round that is best on validation images",
}
POINT_WORDS = {
    "pre_agg": "after local training and before aggregation",
    "post_agg": "after aggregation",
    "start": "at the start of a round",
}
EMBEDDED = "digits"
SCALES = {"paper": "full scale", "desk": "reduced run", "smoke": "toy run"}
"""How captions call the scales."""
AVERAGE_WORDS = {"clients": "unweighted mean over clients", "pooled": "pooled over all test images"}


def kind_of_run(scale: str) -> str:
    """Return how a sentence begins that names a scale."""
    return SCALES.get(scale, "runs").capitalize()


def caption(
    evidence: Evidence, what: str, *, floor: bool = True, accuracy: bool = True, size: str = ""
) -> str:
    """Return a caption: what is shown, metric and rule if it is accuracy, scale, seeds and floor.
    `size` replaces the scale's name. It describes the finished runs, or else the planned ones.
    """
    cells = evidence.cells
    if cells.empty:
        return f"{what} Nothing is planned at the {evidence.scale} scale."
    done = cells[cells["status"] == "done"]
    cells = cells if done.empty else done

    def in_words(name: str, wording: Mapping[str, str]) -> str:
        values = sorted(cells[name].dropna().unique()) if name in cells else []
        return wording.get(str(values[0]), str(values[0])) if len(values) == 1 else ""

    metric = ", ".join(
        word
        for word in (
            in_words("recipe.evaluation.average", AVERAGE_WORDS),
            in_words("recipe.evaluation.point", POINT_WORDS),
            in_words("recipe.evaluation.rule", RULE_WORDS),
        )
        if word
    )
    scale = _size(cells, size or _kind(evidence, cells))
    if not accuracy:
        return f"{what} {scale}."
    text = (
        f"{what} Test accuracy in percent on the clients' own test images ({metric}). {scale}. Mean"
        " ± standard deviation over seeds"
    )
    return f"{text} (ddof 1)." + (
        f" Majority-class baseline: the accuracy of {FLOOR}." if floor else ""
    )


def stamp(evidence: Evidence, cells: pd.DataFrame | None = None, kind: str = "") -> str:
    """Return the line above a figure: kind of run, data, clients, rounds and seeds of the finished
    runs, or of those among `cells`. `kind` replaces the scale's name.
    """
    cells = evidence.cells if cells is None else cells
    done = cells[cells["status"] == "done"]
    if done.empty:
        return f"{kind_of_run(evidence.scale)}: nothing has run"
    return _size(done, kind or _kind(evidence, done))


def _kind(evidence: Evidence, cells: pd.DataFrame) -> str:
    """Return the kind of run; toy runs are of digits, not of the data of a grid of one's own."""
    own = (
        evidence.scale == "smoke"
        and "dataset" in cells
        and not (cells["dataset"] == EMBEDDED).any()
    )
    return "Runs" if own else kind_of_run(evidence.scale)


def _size(cells: pd.DataFrame, kind: str) -> str:
    if kind != kind_of_run("smoke") and "dataset" in cells:
        # runs that only count bytes or entries are made on digits: no size of an experiment
        real = cells[cells["dataset"] != EMBEDDED]
        cells = real if len(real) else cells
    seeds = sorted(set(cells["seed"]))
    count = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
    return f"{kind}: {setting(cells)}, {count} ({', '.join(map(str, seeds))})"
