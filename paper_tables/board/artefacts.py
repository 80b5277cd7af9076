"""The board's artefacts, by name."""

from __future__ import annotations

from collections.abc import Callable

from repfl.paper_tables.board import figures, tables
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Result

ARTEFACTS: dict[str, Callable[[Evidence], Result]] = {
    "table1": tables.table1,
    "table2": tables.table2,
    "table3": tables.table3,
    "table4": tables.table4,
    "fig1": figures.fig1,
    "fig2": figures.fig2,
    "fig3": figures.fig3,
    "fig4": figures.fig4,
}
