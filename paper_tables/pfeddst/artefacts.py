"""Every artefact of the PFedDST paper, by name."""

from __future__ import annotations

from collections.abc import Callable

from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Result
from repfl.paper_tables.pfeddst import curves, peers, speed

ARTEFACTS: dict[str, Callable[[Evidence], Result]] = {
    "table2": speed.table2,
    "fig2": peers.fig2,
    "fig3": curves.fig3,
    "fig3-long": curves.fig3_long,
    "fig4": curves.fig4,
}
