"""What an artefact function returns: a table, a figure, or the reason why there is neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import nan
from typing import Literal

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core.statistics import curve_gap
from repfl.paper_tables.core.statistics.intervals import MIN_RUNS

CELL_FIELDS = (
    "row", "column", "printed", "printed_std", "printed_as",
    "ours", "std", "seeds", "low", "high",
    "difference", "difference_low", "difference_high", "verdict", "kind", "mark", "basis",
    "tier", "reason", "scale", "floor", "method", "source", "runs", "chosen", "by_seed",
)  # fmt: skip
"""Columns of `Table.frame`: those of the frame `numbers` that a paper's code fills in, and each
seed's share in ours as `by_seed`. Values are in the unit of their table column.
"""

CURVE_GAP_FIELDS = ("row", "column", "setting", "beside", *curve_gap.COLUMNS)
"""Columns of `Result.curve_gaps`: `beside` is the figure, as paper/name, that has the curve."""


def joined_gaps(parts: Iterable[pd.DataFrame] = ()) -> pd.DataFrame:
    """Return comparisons of curves as one frame; without any, an empty one."""
    found = [part for part in parts if len(part)] or [pd.DataFrame(columns=list(CURVE_GAP_FIELDS))]
    return pd.concat(found, ignore_index=True)[list(CURVE_GAP_FIELDS)]


class State(StrEnum):
    """The state of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    CONTRADICTED = "contradicts the paper's own numbers"
    OPEN = "undecided"
    SETTING = "setting"
    """It states how runs are set up; ours use the same settings, which tests nothing."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and what became of it."""

    id: str
    """Its name, unique among the claims of its paper."""
    text: str
    state: State
    why: str
    """The numbers behind the state."""
    scale: str
    """The scale of these numbers."""
    place: str = ""
    """Where the paper says so."""
    printed: bool | None = None
    """Whether it holds in the paper's own numbers, if that can be checked."""
    difference: float = nan
    """The contrast that decides it, in our runs, and its 95 % interval."""
    low: float = nan
    high: float = nan
    seeds: int = 0
    """Common seeds behind it."""
    sources: tuple[str, ...] = ()
    """File and line of the published numbers that are in this claim and in no table."""
    ours: bool = False
    """Whether it is a check of this suite that the paper does not state."""

    @property
    def decided(self) -> bool:
        return self.state in (State.HOLDS, State.FAILS, State.CONTRADICTED)

    @property
    def in_print(self) -> str:
        """Whether it holds in the paper's own numbers, unless the state says so."""
        if self.printed is None or self.state == State.CONTRADICTED:
            return ""
        return f"In the paper's own numbers it {'holds' if self.printed else 'does not hold'}"

    @property
    def line(self) -> str:
        """Everything in one line."""
        prefix = "Our own check: " if self.ours else ""
        why = f"{self.why[:1].upper()}{self.why[1:]}"
        if self.scale != "paper" and self.why.startswith("ours"):
            why = f"Reduced run: {self.why}"
        parts = ". ".join(filter(None, (str(self.state), self.in_print, why)))
        return f"{prefix}{self.text} ({self.place}): {parts}. ({self.id})"


def claim(
    id: str,  # noqa: A002
    text: str,
    answer: bool | None,
    why: str,
    scale: str,
    *,
    place: str = "",
    printed: bool | None = None,
    seeds: int = 0,
    difference: float = nan,
    interval: tuple[float, float] = (nan, nan),
    sources: tuple[str, ...] = (),
    exact: bool = False,
    any_run: bool = False,
    ours: bool = False,
) -> Claim:
    """Return a claim with the state that an answer gives it.

    The paper's own numbers come first: a sentence that they contradict needs no run. Else the
    answer of full-scale runs counts from three common seeds on, of `any_run` if seeds do not
    matter, and at every scale if it is `exact`: a count, a number of bytes or an identity.
    """
    decides = exact or (scale == "paper" and (any_run or seeds >= MIN_RUNS))
    if printed is False and not ours:
        state = State.CONTRADICTED
    elif answer is None or not decides:
        state = State.OPEN
    else:
        state = State.HOLDS if answer else State.FAILS
    low, high = interval
    return Claim(
        id, text, state, why, scale, place, printed, difference, low, high, seeds, sources, ours
    )


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    key: str
    label: str
    group: str = ""
    unit: str = "%"
    digits: int = 2
    best: Literal["high", "low"] | None = "high"
    """Which value is the best one; none: the column has no winner."""

    @property
    def name(self) -> str:
        """The column with its heading."""
        return (
            f"{self.group}, {self.label}" if self.group and self.group != self.label else self.label
        )


@dataclass(frozen=True)
class TableLayout:
    """How a table is laid out; everything that is not a number."""

    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    corner: str = "Method"
    floor: bool = True
    """Whether the table ends with the majority-class floor."""
    aside: tuple[str, ...] = ()
    """Rows beyond the paper's: they stand apart and do not compete for best and second."""

    @property
    def groups(self) -> list[tuple[str, list[Column]]]:
        """Return columns under their common headings, in order."""
        names = dict.fromkeys(column.group for column in self.columns)
        return [(name, [each for each in self.columns if each.group == name]) for name in names]


@dataclass(frozen=True)
class Ordering:
    """Whether one column ranks the rows as the paper does."""

    column: str
    """Its name."""
    rows: int
    """How many rows have both numbers."""
    tau: float | None
    printed: tuple[str, ...]
    """The best row, or several equal ones."""
    ours: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """One artefact of a paper, ready to be shown."""

    paper: str
    name: str
    title: str
    caption: str
    scale: str
    notes: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    ids: tuple[str, ...] = ()
    """The finished cells behind it."""
    findings: tuple[str, ...] = field(default=(), kw_only=True)
    """What our numbers say, in sentences."""
    stamp: str = field(default="", kw_only=True)
    """Kind of run, data, clients, rounds and seeds; a part of the caption, and above a picture."""
    curve_gaps: pd.DataFrame = field(default_factory=joined_gaps, kw_only=True)
    """How far our curves lie from the paper's, a line per window of rounds."""

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.name}"


TESTED = (
    "The row that ranks first is found in the same data, so p is Games-Howell's: the probability"
    " that some two of as many equal rows differ by this much. Noise is estimated per row, from"
    " residuals after removing row and seed means in each column. There is no p for fewer than"
    " three (column, seed) pairs, or without a second seed."
)


@dataclass(frozen=True)
class Table(Result):
    """A table: long data and a layout."""

    frame: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(CELL_FIELDS)))
    layout: TableLayout = TableLayout((), ())
    orderings: tuple[Ordering, ...] = ()
    summary: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Statistics per row over all columns, such as average ranks; the index names the rows."""
    tested: str = TESTED
    """What the statistics are about."""
    requested_numbers: frozenset[tuple[str, ...]] = frozenset()
    """The table, dataset, setting and method of every published number that it looks up."""

    @cached_property
    def printed(self) -> bool:
        """Whether any of its numbers is published."""
        return bool((self.frame["source"] != "").any())

    @cached_property
    def _cells(self) -> dict[tuple[str, str], pd.Series]:
        return {(cell["row"], cell["column"]): cell for _, cell in self.frame.iterrows()}

    def cell(self, row: str, column: str) -> pd.Series | None:
        """Return the numbers of one cell; None if the table has a blank there."""
        return self._cells.get((row, column))


NewCanvas = Callable[..., Canvas]
"""Makes an empty figure of a width and height in inches."""


@dataclass(frozen=True)
class Figure(Result):
    """A figure: how to draw it, and the numbers behind it."""

    draw: Callable[[NewCanvas], Canvas] = lambda new_canvas: new_canvas(4, 3)
    data: pd.DataFrame = field(default_factory=pd.DataFrame)
    alt: str = ""
    """Description for readers who cannot see the figure."""


@dataclass(frozen=True)
class Absent(Result):
    """An artefact that could not be made; its caption says why and what to do."""


def frame_of(result: Result | None) -> pd.DataFrame:
    """Return the numbers of a table or a figure; empty for other results."""
    if isinstance(result, Table):
        return result.frame
    return result.data if isinstance(result, Figure) else pd.DataFrame()


def shown(result: Result) -> pd.DataFrame:
    """Return the published numbers that a table or a figure shows, one line each: source, verdict
    and kind.
    """
    frame, fields = frame_of(result), ["source", "verdict", "kind"]
    return (
        frame.loc[frame["source"] != "", fields]
        if set(fields) <= set(frame.columns)
        else pd.DataFrame(columns=fields)
    )


def stated(result: Result) -> list[str]:
    """Return the sources of the published numbers that are in no table, but in a sentence that is
    compared with ours.
    """
    return [source for claim in result.claims for source in claim.sources]
