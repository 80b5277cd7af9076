"""Sentences of a paper, held against its own printed numbers and against ours.

A sentence on accuracies is written once, as a condition on cells of a table (`every(cell(a, c) >
cell(b, c) for c in columns)`), and weighed on both sides. Print has no noise. Of ours a difference
counts as there when its interval leaves out zero, as absent when the interval lies on the other
side, and is open else, also where a number is missing; conditions join such answers (Kleene's
logic), so that one clear exception refutes "always", and missing numbers refute nothing.
Cells are held against each other over the seeds that all of them have: each seed may deal other
clients. `Claim.holds` keeps what smaller scales suggest from being a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf, isfinite, sqrt

import pandas as pd
from scipy import special

from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.core.seeds import OfSeed, of_runs, shared
from repfl.paper_tables.core.statistics import LEVEL

Place = tuple[str, str]
"""A row and a column."""


@dataclass(frozen=True, eq=False)
class Form:
    """A sum of cells, each with its factor, and a constant."""

    factors: Mapping[Place, float]
    constant: float = 0.0

    def __add__(self, other: Form | float) -> Form:
        if not isinstance(other, Form):
            return Form(self.factors, self.constant + other)
        places = dict.fromkeys([*self.factors, *other.factors])
        joined = {p: self.factors.get(p, 0.0) + other.factors.get(p, 0.0) for p in places}
        return Form(joined, self.constant + other.constant)

    def __mul__(self, factor: float) -> Form:
        return Form({p: factor * f for p, f in self.factors.items()}, factor * self.constant)

    def __sub__(self, other: Form | float) -> Form:
        return self + other * -1

    def __gt__(self, other: Form | float) -> Condition:
        return Condition(difference=self - other)

    def __ge__(self, other: Form | float) -> Condition:
        return Condition(difference=self - other, strict=False)


def cell(row: str, column: str) -> Form:
    """One number of a table."""
    return Form({(row, column): 1.0})


def mean(forms: Iterable[Form]) -> Form:
    """Their mean."""
    every = list(forms)
    return sum(every, Form({})) * (1 / len(every))


@dataclass(frozen=True)
class Condition:
    """A difference that must be above zero, or so many of several conditions."""

    difference: Form = Form({})
    strict: bool = True
    """Whether equality in print is not enough."""
    parts: tuple[Condition, ...] = ()
    least: int = 0
    slack: float = 0.0
    """How far the difference may lie below zero in print, and ..."""
    margin: float = 0.0
    """... of ours."""

    def leaves(self) -> Iterator[Condition]:
        """The differences that it is about."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


def at_least(least: int, conditions: Iterable[Condition]) -> Condition:
    """So many of them."""
    return Condition(parts=tuple(conditions), least=least)


OPEN = Condition(difference=Form({}, float("nan")))
"""What nothing can answer yet."""


def every(conditions: Iterable[Condition]) -> Condition:
    """All of them."""
    parts = tuple(conditions)
    return at_least(len(parts), parts)


def some(conditions: Iterable[Condition]) -> Condition:
    """One of them, or more."""
    return at_least(1, conditions)


def best(row: str, others: Iterable[str], columns: Iterable[str]) -> Condition:
    """One row lies above others in all columns."""
    rivals = list(others)
    return every(cell(row, c) > cell(other, c) for c in columns for other in rivals)


def near(form: Form, stated: float, *, slack: float, margin: float) -> Condition:
    """A stated number: met in print up to rounding, of ours within the margin."""
    gap = form - stated
    return every(
        Condition(difference=side, strict=False, slack=slack, margin=margin)
        for side in (gap, gap * -1)
    )


def led_by(leads: Iterable[Form], stated: float, *, slack: float, margin: float) -> Condition:
    """The least of several leads is a stated number: none is less, and one is no more."""
    every_lead = list(leads)

    def bound(gap: Form) -> Condition:
        return Condition(difference=gap, strict=False, slack=slack, margin=margin)

    return every(
        [
            every(bound(lead - stated) for lead in every_lead),
            some(bound(lead * -1 + stated) for lead in every_lead),
        ]
    )


# -- what a table says -----------------------------------------------------------------------------


@cache
def _quantile(level: float, df: float) -> float:
    """Half of a t interval, in standard errors."""
    return float(special.stdtrit(df, (1 + level) / 2))


@dataclass(frozen=True)
class Known:
    """A number, and what is known of its noise: the variance of the number, and degrees of
    freedom.
    """

    value: float
    variance: float
    df: float

    def half(self, level: float = LEVEL) -> float:
        """Half of its interval; zero in print, NaN where the noise is not known."""
        if self.variance == 0:
            return 0.0
        return _quantile(level, self.df) * sqrt(self.variance)

    def told(self, sign: str = "+") -> str:
        """With its interval, which print has none of."""
        half, form = self.half(), f"{{:{sign}.2f}}"
        if not half:
            return form.format(self.value)
        if not isfinite(half):
            return f"{form.format(self.value)} [no interval]"
        low, high = (form.format(self.value + side) for side in (-half, half))
        return f"{form.format(self.value)} [{low}, {high}]"


@dataclass(frozen=True)
class Side:
    """One side of a long table, `published` or `ours`."""

    frame: pd.DataFrame
    name: str

    @cached_property
    def _cells(self) -> dict[Place, dict[str, float]]:
        fields = ["published", "ours", "low", "high", "df", "seeds"]
        kept = self.frame.reindex(columns=["row", "column", *fields])
        return {
            (str(row["row"]), str(row["column"])): {f: float(row[f]) for f in fields}
            for row in kept.to_dict("records")
        }

    @cached_property
    def _runs(self) -> dict[Place, tuple[OfSeed, ...]]:
        """Where ours are means over seeds, what each seed came to."""
        if self.name != "ours" or "by_seed" not in self.frame:
            return {}
        places = zip(self.frame["row"].astype(str), self.frame["column"].astype(str), strict=True)
        told = zip(places, self.frame["by_seed"], strict=True)
        return {place: runs for place, runs in told if of_runs([runs])}

    def _common(self, form: Form) -> set[int]:
        return set(shared(self._runs.get(place) for place in form.factors))

    def _at(self, place: Place) -> dict[str, float]:
        if place not in self._cells:
            rows, columns = ({p[axis] for p in self._cells} for axis in (0, 1))
            if place[0] not in rows or place[1] not in columns:
                what, known = ("row", rows) if place[0] not in rows else ("column", columns)
                wrong = place[0] if what == "row" else place[1]
                raise LookupError(f"a claim names the {what} {wrong!r}; there are {sorted(known)}")
            return {}
        return self._cells[place]

    def of(self, form: Form) -> Known | None:
        """What a sum of cells comes to over their common seeds; none where a number is missing, or
        there is no such seed.
        """
        value, variance, df = form.constant, 0.0, inf
        if not isfinite(value):
            return None
        common = self._common(form)
        for place, factor in form.factors.items():
            found, runs = self._at(place), self._runs.get(place, ())
            if not isfinite(found.get(self.name, float("nan"))) or (runs and not common):
                return None
            kept = [run.value for run in runs if run.seed in common]
            value += factor * (sum(kept) / len(kept) if kept else found[self.name])
            if self.name == "ours":
                half = (found["high"] - found["low"]) / 2
                error = half / _quantile(LEVEL, found["df"])
                error *= sqrt(len(runs) / len(kept)) if kept else 1.0
                variance += (factor * error) ** 2
                df = min(df, found["df"])
        # rows that share partitions err together, which this leaves out
        return Known(value, variance, df)

    def answer(self, condition: Condition, level: float) -> bool | None:
        """Whether a condition holds; none where that is open."""
        if condition.parts:
            answers = [self.answer(part, level) for part in condition.parts]
            if answers.count(True) >= condition.least:
                return True
            return False if len(answers) - answers.count(False) < condition.least else None
        found = self.of(condition.difference)
        if found is None:
            return None
        value = round(found.value, 9) + (
            condition.margin if self.name == "ours" else condition.slack
        )
        half = found.half(level) if level else 0.0
        if value - half > 0 or (not condition.strict and value == half == 0):
            return True
        return False if value + half < 0 or (not half and value <= 0) else None

    def seeds(self, condition: Condition) -> str:
        """How many runs stand behind the numbers: of every difference, its common seeds."""
        known = [x.difference for x in condition.leaves() if self.of(x.difference) is not None]
        counts = sorted({n for form in known for n in self._counts(form)})
        if not counts:
            return "no run"
        told = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        common = "common " if self._runs and any(len(form.factors) > 1 for form in known) else ""
        return f"{told} {common}{'seed' if counts == [1] else 'seeds'}"

    def _counts(self, form: Form) -> set[int]:
        if common := self._common(form):
            return {len(common)}
        return {int(n) for p in form.factors if (n := self._at(p).get("seeds", 0)) > 0}


def level_of(condition: Condition) -> float:
    """The level of each difference at which all of them together have 95 % (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(1, sum(1 for _ in condition.leaves()))


def tell(side: Side, condition: Condition, about: Form | Sequence[Form] | None) -> str:
    """The numbers that a condition rests on, as one side has them."""
    level = level_of(condition)
    leaves = [leaf for leaf in condition.leaves() if side.of(leaf.difference) is not None]
    count = sum(1 for _ in condition.leaves())
    if not leaves:
        return ""
    if isinstance(about, Form):
        known = side.of(about)
        return "" if known is None else known.told("")
    if about:  # leads over several rows: the one over the best of them
        over = {form: lead for form in about if (lead := side.of(form))}
        form = min(over, key=lambda each: over[each].value)
        rival = next(place[0] for place, factor in form.factors.items() if factor < 0)
        return f"{over[form].told()} against {rival}"
    gaps = sorted((known for x in leaves if (known := side.of(x.difference))), key=_value)
    if count == 1:
        return gaps[0].told()
    met = sum(side.answer(leaf, 0.0) is True for leaf in leaves)
    told = f"{met} of {count} differences are as stated"
    if side.name == "ours":
        clear = [side.answer(leaf, level) for leaf in leaves]
        told += f", {clear.count(True)} clearly so and {clear.count(False)} clearly not"
        told += f", {count - len(leaves)} are missing" if len(leaves) < count else ""
    return f"{told}; they lie between {gaps[0].told()} and {gaps[-1].told()}"


def _value(known: Known) -> float:
    return known.value


def sentence(
    frame: pd.DataFrame,
    name: str,
    text: str,
    condition: Condition,
    *,
    scale: str,
    sources: Iterable[str] = (),
    about: Form | Sequence[Form] | None = None,
    print_: bool = True,
    in_print: Condition | None = None,
    remark: str = "",
    full_scale_only: bool = False,
) -> Claim:
    """A sentence that is a condition on a long table.

    `about` is the number that a stated one is held against, or the leads of which the least is it;
    `print_`: whether the paper prints the numbers that it takes; `in_print`: the condition there,
    where it is another.
    """
    ours, printed = Side(frame, "ours"), Side(frame, "published")
    found = ours.answer(condition, level_of(condition))
    there = in_print or condition
    mine, theirs = tell(ours, condition, about), tell(printed, there, about) if print_ else ""
    told = f"ours: {mine} ({ours.seeds(condition)})" if mine else "ours: numbers are missing"
    said = "; ".join(filter(None, [told, f"printed: {theirs}" if theirs else "", remark]))
    holds = printed.answer(there, 0.0) if print_ else None
    sources = tuple(sources)
    return Claim(name, text, found, said, scale, holds, sources, full_scale_only=full_scale_only)


def wide(frame: pd.DataFrame, side: str) -> pd.DataFrame:
    """One side of a long table, `published` or `ours`, rows against columns."""
    return frame.pivot(index="row", columns="column", values=side).astype(float)
