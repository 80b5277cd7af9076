"""Every artefact of the Star-PFL paper, by name."""

from __future__ import annotations

from collections.abc import Callable

from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Result
from repfl.paper_tables.star_pfl import accuracy, costs, parameter_paths

ARTEFACTS: dict[str, Callable[[Evidence], Result]] = {
    "table2": accuracy.table2,
    "table3": costs.table3,
    "fig1": parameter_paths.fig1,
    "fig2": parameter_paths.fig2,
}
