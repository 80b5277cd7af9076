"""The frame `numbers`: a row per number of a table or figure, the paper's beside ours.

`Number` is one row. Files, pages, counts and commands show these
values; what a page says of a number stands here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import isfinite, nan
from typing import Annotated, Any, get_type_hints

import pandas as pd

from repfl.bench.report.formats import formatting
from repfl.bench.report.links import addressed, slug
from repfl.paper_tables.core.evidence import STALE
from repfl.paper_tables.core.number_text import BLANK, signed
from repfl.paper_tables.core.result import CELL_FIELDS, Figure, Result, Table
from repfl.paper_tables.core.statistics.verdict import EXACT, UNJUDGED, Verdict

MAX_WIDTH = 20.0
"""Points; a wider interval is not shown: its two runs do not tell how noisy they are."""
MATCHES = "matches"


def in_words(verdict: str, is_trained: bool) -> str:
    """Return a verdict as readers see it: nothing is *reproduced* if nothing was trained."""
    return MATCHES if verdict == Verdict.REPRODUCED and not is_trained else verdict


@dataclass(frozen=True)
class Number:
    """One row, and what its columns mean. A value is None if there is none."""

    paper: Annotated[str, "the paper, or a grid of your own"]
    artefact: Annotated[str, "name of the table or figure"]
    id: Annotated[str, "address within its page: <paper>/<artefact>.html#<id>"]
    row: Annotated[str, "row of the table, mostly a method"]
    column: Annotated[str, "key of the column"]
    where: Annotated[str, "name of the column"]
    unit: Annotated[str, "unit of all values"] = ""
    digits: Annotated[int, "decimals that the column shows"] = 2
    printed: Annotated[float | None, "what the paper reports"] = None
    printed_std: Annotated[float | None, "its ±"] = None
    printed_as: Annotated[str, "what the paper prints, word for word"] = ""
    ours: Annotated[float | None, "mean over our runs"] = None
    std: Annotated[float | None, "standard deviation over our runs"] = None
    seeds: Annotated[int, "number of runs"] = 0
    low: Annotated[float | None, "lower end of the 95 % interval of ours"] = None
    high: Annotated[float | None, "its upper end"] = None
    difference: Annotated[float | None, "ours minus printed"] = None
    difference_low: Annotated[float | None, "lower end of its 95 % interval"] = None
    difference_high: Annotated[float | None, "its upper end"] = None
    verdict: Annotated[
        str,
        "reproduced, differs, undecided, not comparable or not measured; pages say matches"
        " for reproduced if nothing was trained",
    ] = ""
    mark: Annotated[str, "what stands beside the verdict"] = ""
    kind: Annotated[str, "trained, logged, or one that needs no training"] = ""
    basis: Annotated[str, "what the verdict rests on"] = ""
    tier: Annotated[str, "evidence of a committed run; whether it is stale"] = ""
    reason: Annotated[str, "why ours is missing or remarkable"] = ""
    scale: Annotated[str, "paper: full scale; desk: reduced run; smoke: toy run"] = ""
    floor: Annotated[
        float | None, "accuracy of always predicting a client's most frequent class"
    ] = None
    method: Annotated[str, "name of the method"] = ""
    source: Annotated[str, "file and line in paper_tables/<paper>/published"] = ""
    runs: Annotated[tuple[str, ...], "the cells that ours is computed from"] = ()
    chosen: Annotated[str, "what validation chose in a search, by run"] = ""
    ours_mark: Annotated[str, "best or second of its column"] = ""
    printed_mark: Annotated[str, "the same among the printed numbers"] = ""

    @property
    def measured(self) -> bool:
        return self.ours is not None

    @property
    def in_percent(self) -> bool:
        return self.unit in ("%", "percent", "")

    # -- as readers see them -----------------------------------------------------------------------

    @property
    def printed_text(self) -> str:
        """The paper's number, or what it prints instead; empty if it prints nothing here."""
        if not self.source:
            return ""
        if self.printed is None:
            return self.printed_as or BLANK
        return formatting.spread(self.printed, _or_nan(self.printed_std), self.digits)

    @property
    def ours_text(self) -> str:
        """Ours with its standard deviation; empty if it is missing."""
        if self.ours is None:
            return ""
        return formatting.spread(self.ours, _or_nan(self.std), self.digits)

    @property
    def interval_text(self) -> str:
        return formatting.between(_or_nan(self.low), _or_nan(self.high), self.digits)

    @property
    def difference_text(self) -> str:
        """The difference and its interval; empty if the two sides are not comparable."""
        if self.difference is None:
            return ""
        low, high = _or_nan(self.difference_low), _or_nan(self.difference_high)
        interval = formatting.between(low, high, self.digits, " [{}, {}]")
        if self.has_wide_interval:
            interval = " [too few runs for an interval]"
        return signed(self.difference, self.digits) + interval

    @property
    def has_wide_interval(self) -> bool:
        """Whether the interval of the difference is too wide to say anything."""
        width = _or_nan(self.difference_high) - _or_nan(self.difference_low)
        return self.in_percent and width > MAX_WIDTH

    @property
    def evidence(self) -> list[str]:
        """The keys of the marks beside ours. One without runs, such as a size, has none."""
        desk = ["desk"] if self.scale == "desk" and self.kind not in EXACT else []
        words = [word for word in self.tier.split(", ") if word]
        return [*words, *desk] if self.measured and self.runs else []

    @property
    def founded(self) -> str:
        """The marks for the evidence behind ours."""
        return "".join(formatting.MARKS[word] for word in self.evidence)

    @property
    def shown(self) -> str:
        """Ours; if it needs training, with its number of runs and its evidence."""
        counted = self.measured and self.kind not in EXACT
        text = self.ours_text or BLANK
        return f"{text} ({self.seeds}){self.founded}" if counted else text

    @property
    def stale(self) -> bool:
        """Whether there is a verdict that rests on a run of an earlier version."""
        return STALE in self.tier and self.verdict not in UNJUDGED | {""}

    @property
    def verdict_text(self) -> str:
        return in_words(self.verdict, self.kind not in EXACT)

    @property
    def verdict_with_mark(self) -> str:
        return " · ".join(filter(None, (self.verdict_text + " (stale)" * self.stale, self.mark)))


COLUMNS = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Number, include_extras=True).items()
}
"""The columns, and what they mean."""


def frame(numbers: Iterable[Number]) -> pd.DataFrame:
    """Return numbers as the frame."""
    return pd.DataFrame([asdict(number) for number in numbers], columns=list(COLUMNS))


def as_csv(frame: pd.DataFrame) -> str:
    """Return a frame as csv; of a cell with several values, such as ids of runs, one by one."""
    values = frame.assign(runs=frame["runs"].map(" ".join)) if "runs" in frame else frame
    # joined with a part that has no line, a column of numbers becomes one of objects, which would
    # be written in full
    exported = values.drop(columns=["by_seed"], errors="ignore").infer_objects()
    return exported.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def of_result(result: Result, printed: Mapping[str, Mapping[str, Any]]) -> tuple[Number, ...]:
    """Return the numbers of a table or figure. `printed` are the rows of the published files by
    their source.
    """
    if isinstance(result, Table):
        return tuple(_tabled(result))
    if isinstance(result, Figure):
        numbers = tuple(_pointed(result, printed))
        if result.scale != "smoke":
            return numbers
        return tuple(number for number in numbers if number.kind in EXACT)
    return ()


def _tabled(table: Table) -> Iterator[Number]:
    ours = formatting.marks(table, "ours")
    theirs = formatting.marks(table, "printed")
    columns = {column.key: column for column in table.layout.columns}
    cells = [cell for cell in table.frame.to_dict("records") if cell["column"] in columns]
    ids = addressed(f"{slug(cell['row'])}.{slug(cell['column'])}" for cell in cells)
    for id_, cell in zip(ids, cells, strict=True):
        column, key = columns[cell["column"]], (cell["row"], cell["column"])
        yield Number(
            table.paper,
            table.name,
            id_,
            where=column.name,
            unit=column.unit,
            digits=column.digits,
            **_typed(cell),
            ours_mark=ours.get(key, ""),
            printed_mark=theirs.get(key, ""),
        )


def _pointed(figure: Figure, printed: Mapping[str, Mapping[str, Any]]) -> Iterator[Number]:
    """Yield the printed numbers that a figure shows."""
    data = figure.data
    if not {"source", "verdict", "kind", "ours"} <= set(data.columns):
        return
    cells = data[data["source"] != ""].to_dict("records")
    rows = [printed.get(str(cell["source"]), {}) for cell in cells]
    names = (
        slug(f"{row.get('method', '')} {row.get('dataset', '')} {row.get('setting', '')}")
        for row in rows
    )
    for cell, row, id_ in zip(cells, rows, addressed(names), strict=True):
        where = ", ".join(filter(None, (str(row.get(k, "")) for k in ("dataset", "setting"))))
        name = str(row.get("method", ""))
        scale = _text(cell.get("scale")) or figure.scale
        place = {"row": name, "column": str(cell["column"]), "scale": scale}
        yield Number(figure.paper, figure.name, id_, where=where, **_typed(cell) | place)


def _typed(cell: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what a paper's code says of a number, each field in its type."""
    kinds = {name: kind for name, kind in get_type_hints(Number).items() if name in CELL_FIELDS}
    return {
        **{name: _text(cell.get(name)) for name, kind in kinds.items() if kind is str},
        **{name: _finite(cell.get(name)) for name, kind in kinds.items() if kind == float | None},
        "seeds": int(cell["seeds"]) if is_number(cell.get("seeds")) else 0,
        "runs": tuple(cell.get("runs", ())),
    }


def _or_nan(value: float | None) -> float:
    return nan if value is None else value


def _text(value: object) -> str:
    return str(value) if isinstance(value, str) else ""


def is_number(value: Any) -> bool:
    """Return whether a value is a number, and not NaN."""
    return isinstance(value, int | float) and value == value


def _finite(value: Any) -> float | None:
    return float(value) if is_number(value) and isfinite(value) else None
