"""Every artefact of the FedSelect paper, by name."""

from __future__ import annotations

from collections.abc import Callable

from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Result
from repfl.paper_tables.fedselect import accuracy, curves, overlap

ARTEFACTS: dict[str, Callable[[Evidence], Result]] = {
    "table1": accuracy.table1,
    "table2": accuracy.table2,
    "table3": accuracy.table3,
    "fig2": curves.fig2,
    "fig2-start": curves.fig2_start,
    "fig3": curves.fig3,
    "fig4": overlap.fig4,
}
