"""Every artefact of the FedOBP paper, by name."""

from __future__ import annotations

from collections.abc import Callable

from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Result
from repfl.paper_tables.fedobp import (
    accuracy,
    convergence,
    downlink,
    layers,
    logs,
    normalisation,
    sizes,
    sweeps,
)

ARTEFACTS: dict[str, Callable[[Evidence], Result]] = {
    "table1": sizes.table1,
    "table2": sizes.table2,
    "table3": accuracy.table3,
    "table4": accuracy.table4,
    "table5": accuracy.table5,
    "fig2": convergence.fig2,
    "fig3": convergence.fig3,
    "fig4": sweeps.fig4,
    "fig5": normalisation.fig5,
    "fig6": layers.fig6,
    "fig7": downlink.fig7,
    "fig-finetuned": logs.finetuned_figure,
}
