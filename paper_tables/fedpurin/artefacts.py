"""Every artefact of the FedPURIN paper, by name."""

from __future__ import annotations

from collections.abc import Callable

from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Result
from repfl.paper_tables.fedpurin import accuracy, masks, traffic

ARTEFACTS: dict[str, Callable[[Evidence], Result]] = {
    "table1": accuracy.table1,
    "table2": accuracy.table2,
    "table3": traffic.table3,
    "fig2": accuracy.fig2,
    "fig3": accuracy.fig3,
    "fig4": accuracy.fig4,
    "fig5": masks.fig5,
    "fig6": masks.fig6,
}
