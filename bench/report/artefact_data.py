"""The contents of a report as plain data, which every page and the terminal read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repfl.bench.report.numbers import Number


@dataclass(frozen=True)
class ClaimData:
    """A claim, and what became of it."""

    id: str
    text: str
    """In our words."""
    place: str
    """Where the paper says so."""
    state: str
    why: str
    """The numbers behind the state."""
    printed: bool | None
    sources: tuple[str, ...] = ()
    verbatim: tuple[str, ...] = ()
    """In the paper's words, as far as the published files quote them."""
    ours: bool = False
    """Whether it is a check of this suite that the paper does not state."""
    scale: str = "paper"
    """The scale of the runs behind it."""

    @property
    def line(self) -> str:
        """Everything in one line."""
        prefix = "Our own check: " if self.ours else ""
        why = f"{self.why[:1].upper()}{self.why[1:]}"
        if self.scale != "paper" and self.why.startswith("ours"):
            why = f"Reduced run: {self.why}"
        return f"{prefix}{self.text} ({self.place}): {self.state}. {why}. ({self.id})"


@dataclass(frozen=True)
class Head:
    """One column."""

    key: str
    label: str
    name: str
    group: str
    unit: str
    digits: int
    floor: str = ""


@dataclass(frozen=True)
class Order:
    """Whether a column ranks the rows as the paper does."""

    column: str
    rows: str
    tau: str
    printed: str
    ours: str


@dataclass(frozen=True)
class ArtefactData:
    """One artefact."""

    paper: str
    name: str
    kind: str
    title: str
    caption: str
    scale: str
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    claims: tuple[ClaimData, ...] = ()
    numbers: tuple[Number, ...] = ()
    columns: tuple[Head, ...] = ()
    rows: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    corner: str = ""
    legend: str = ""
    judged: bool = False
    """True if any of its numbers is published."""
    orders: tuple[Order, ...] = ()
    summary: tuple[tuple[str, ...], ...] = ()
    """Statistics over all columns: a head, and a line per row."""
    tested: str = ""
    """What the statistics are computed from."""
    lines: Mapping[str, Mapping[str, list[list[float]]]] = field(default_factory=dict)
    """A figure's curves: panel, label, points of round and accuracy."""
    alt: str = ""
    files: tuple[str, ...] = ()
    """Its other forms, relative to the report."""
    command: str = ""
    datasets: Mapping[str, str] = field(default_factory=dict)
    """By column."""
    logged: Mapping[str, list[list[float]]] = field(default_factory=dict)
    """By source, the accuracy by round that the authors logged."""
    wants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By row and column, the runs that are missing: command, cells, seconds."""

    @property
    def of_a_paper(self) -> bool:
        """Return whether it follows a paper's protocol, not a user's own grid."""
        from repfl.bench.grid.grid import files

        return self.judged or self.paper in files()

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.name}"

    @property
    def page(self) -> str:
        return f"{self.paper}/{self.name}.html"

    @property
    def groups(self) -> list[tuple[str, list[Head]]]:
        """Return columns under their common headings, in order."""
        names = dict.fromkeys(head.group for head in self.columns)
        return [(name, [head for head in self.columns if head.group == name]) for name in names]

    def at(self) -> dict[tuple[str, str], Number]:
        """Return the numbers by row and column."""
        return {(number.row, number.column): number for number in self.numbers}

    @property
    def printed(self) -> list[Number]:
        """Return the numbers that the paper prints; a dash is none."""
        return [number for number in self.numbers if number.source and number.verdict]


@dataclass(frozen=True)
class Book:
    """Everything that the pages of a report show."""

    sheets: Sequence[ArtefactData]
    papers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By paper: title, year, and where it and its code are."""
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By cell, the facts about a run."""
    open: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By paper, the cells of its own scale that nobody has computed, and their cost."""
    test: Mapping[str, Any] = field(default_factory=dict)
    """The self-test."""
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    datasets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    records: str = ""
    """The folder of records, relative to the report."""
    out: str = "."
    """Where the report is written."""
    findings: str = ""
    """What was found over all papers, as Markdown."""
    repository: str = ""
    """The web address of the repository, if known."""

    def name(self, paper: str) -> str:
        """Return how pages call a paper: by its method, which begins its title."""
        return str(self.papers.get(paper, {}).get("title", paper)).partition(":")[0]
