"""Changes under which FedSelect's claims that are no condition on a table hold, and fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from repfl.paper_tables.core.result import Claim, Result
from repfl.paper_tables.fedselect import curves, facts, overlap
from tests.paper_tables.doctored import (
    Case,
    Doctored,
    as_it_is,
    frame,
    giving,
    rendered_anew,
    working,
)


def off_the_lattice(evidence: Doctored) -> None:
    """Printed numbers of all tables that no whole number of test images gives, each moved by
    itself; another set-up.
    """
    evidence.published["value"] += 0.013 + 0.001 * np.arange(len(evidence.published))
    for field in ("partition.train", "recipe.clients"):
        if field in evidence.cells:
            evidence.move(field, 1)


def on_the_lattice(evidence: Doctored) -> None:
    evidence.state(lambda v: (20 * v).round() / 20, table="3")
    evidence.state(lambda v: (20 * v).round() / 20, table="2")


def improved(evidence: Doctored, result: Result, own: float) -> Sequence[Claim]:
    values = frame(result)
    ours = pd.Series(50.0, index=values.index).where(values["row"] != facts.OURS, own)
    return (facts.gain(evidence, values.assign(ours=ours)),)


def as_fedavg(evidence: Doctored) -> None:
    """Without a limit, in every seed the accuracy that FedAvg's clients start a round with."""
    twins = evidence.cells[evidence.cells["row"] == "FedAvg"].set_index("seed")["metrics"]
    last = twins.map(lambda each: each["points"]["pre_agg"]["last"]["mean"])
    own = evidence.cells["row"] == "α = 0"
    evidence.cells.loc[own, "value"] = evidence.cells.loc[own, "seed"].map(last)


def everything_personal(evidence: Doctored) -> None:
    """All parameters personal, and as many bytes as ever."""
    evidence.note(personal=1.0)
    evidence.curve = lambda f: f.assign(value=0.5)


def shaken(evidence: Doctored, result: Result, own: float) -> Sequence[Claim]:
    """Figure 2 with curves that go up and down, FedSelect's by a given number of points."""
    evidence.shake(curves.OURS, own)
    return (curves.smoothness(curves.folded(evidence)),)


def compared(evidence: Doctored, result: Result, turned: bool) -> Sequence[Claim]:
    """Figure 4, or with all overlaps turned round."""
    found = overlap.read(evidence)
    assert not isinstance(found, str)
    kept = [replace(each, table=1 - each.table) if turned else each for each in found]
    return overlap.claims(kept, "paper", overlap.printed_overlaps(evidence))


SHOWN = ("set-up", "lattice-table1", "best-limit-shown")
LIMITED = ("stops-at-limit", "cheaper-over-time")
PRINTED = ("lattice-table3", "rows-repeated")
OVERLAP = ("common-label-more-overlap", "overlap-rises-with-limit", "less-distinct-with-limit")
CASES = (
    Case("table1", ("average-improvement",), improved, giving(60.0), giving(50.0)),
    Case("table1", SHOWN, rendered_anew, as_it_is, off_the_lattice),
    Case("table2", ("lattice-table2",), rendered_anew, as_it_is, off_the_lattice),
    Case("table2", ("no-limit-is-fedavg",), rendered_anew, as_fedavg, as_it_is),
    Case("table2", LIMITED, rendered_anew, as_it_is, everything_personal),
    Case("table3", PRINTED, rendered_anew, on_the_lattice, off_the_lattice),
    working("similar-complexity", "table1", "FedSelect"),
    Case("fig2", ("smoother",), shaken, giving(1.0), giving(3.0)),
    Case("fig4", OVERLAP, compared, giving(False), giving(True)),
)
