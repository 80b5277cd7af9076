"""The table and the figure of my paper: what the paper prints, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable

from repfl.paper_tables.core import builders
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Column, Figure, Result, Table
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Place, Row

PAPER = "my-paper"
ROWS = (Row("Local"), Row("FedAvg"), Row("FedPer"))
"""Labels of the grid. Where the paper prints another name: Row("FedAvg", published="Fed-Avg")."""
COLUMNS = (Column("few", "8 clients"), Column("many", "16 clients"))
"""Recipes of the grid, with the headings of the table."""
PLACES = {"few": Place("digits", "8 clients"), "many": Place("digits", "16 clients")}
"""Dataset and setting of each column in published/table1.csv."""
PRINTING = Printing(runs=3, deviation=True, rule="last")
"""Runs behind each printed number, whether its ± is their standard deviation, and which round they
report, as far as the paper tells.
"""


def table1(evidence: Evidence) -> Table:
    """Three methods in two settings."""
    return builders.table(
        evidence,
        (PAPER, "table1"),
        "Table 1: accuracy",
        "Personalised accuracy of three methods.",
        number="1",
        rows=ROWS,
        columns=COLUMNS,
        places=PLACES,
        printing=PRINTING,
    )


def fig1(evidence: Evidence) -> Figure:
    """The same by round, with few clients."""
    return builders.by_round(
        evidence,
        (PAPER, "fig1"),
        "Figure 1: accuracy by round",
        "Accuracy by round of three methods.",
        rows=[row.label for row in ROWS],
        columns=COLUMNS[:1],
    )


ARTEFACTS: dict[str, Callable[[Evidence], Result]] = {"table1": table1, "fig1": fig1}
"""By the names that the grid gives them."""
