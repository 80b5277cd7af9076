"""Conditions on cells of a table: sums above zero, and several conditions of which some must hold.

A sentence on accuracies is such a condition (`every(cell(a, c) > cell(b, c) for c in columns)`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

CellKey = tuple[str, str]
"""A row and a column."""


@dataclass(frozen=True, eq=False)
class Form:
    """A linear form of table cells: a factor for each cell, and a constant."""

    factors: Mapping[CellKey, float]
    constant: float = 0.0

    def __add__(self, other: Form | float) -> Form:
        if not isinstance(other, Form):
            return Form(self.factors, self.constant + other)
        keys = dict.fromkeys([*self.factors, *other.factors])
        factors = {key: self.factors.get(key, 0.0) + other.factors.get(key, 0.0) for key in keys}
        return Form(factors, self.constant + other.constant)

    def __mul__(self, factor: float) -> Form:
        return Form({key: factor * f for key, f in self.factors.items()}, factor * self.constant)

    def __sub__(self, other: Form | float) -> Form:
        return self + other * -1

    def __gt__(self, other: Form | float) -> Condition:
        return Condition(difference=self - other)

    def __ge__(self, other: Form | float) -> Condition:
        return Condition(difference=self - other, strict=False)


def cell(row: str, column: str) -> Form:
    """Return one cell of a table as a form."""
    return Form({(row, column): 1.0})


def mean(forms: Iterable[Form]) -> Form:
    """Return the mean of some forms."""
    terms = list(forms)
    return sum(terms, Form({})) * (1 / len(terms))


@dataclass(frozen=True)
class Condition:
    """A difference that must be above zero, or conditions of which at least some must hold."""

    difference: Form = Form({})
    strict: bool = True
    """Whether equality is not enough: a tie of rounded numbers leaves the condition open."""
    parts: tuple[Condition, ...] = ()
    least: int = 0
    slack: float = 0.0
    """How far the difference may lie below zero in the paper's numbers, and ..."""
    margin: float = 0.0
    """... in ours."""

    def nodes(self) -> Iterator[Condition]:
        """Yield the conditions that have parts, from the outermost one inwards."""
        if self.parts:
            yield self
        for part in self.parts:
            yield from part.nodes()

    def leaves(self) -> Iterator[Condition]:
        """Yield the conditions without parts: one difference each."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


def at_least(least: int, conditions: Iterable[Condition]) -> Condition:
    """Require at least `least` conditions."""
    return Condition(parts=tuple(conditions), least=least)


OPEN = Condition(difference=Form({}, float("nan")))
"""A condition that no number can answer."""


def every(conditions: Iterable[Condition]) -> Condition:
    """Require all conditions."""
    parts = tuple(conditions)
    return at_least(len(parts), parts)


def some(conditions: Iterable[Condition]) -> Condition:
    """Require at least one condition."""
    return at_least(1, conditions)


def best(row: str, others: Iterable[str], columns: Iterable[str]) -> Condition:
    """Require one row to lie above others in all columns."""
    rivals = list(others)
    return every(cell(row, c) > cell(other, c) for c in columns for other in rivals)


def near(form: Form, stated: float, *, slack: float, margin: float) -> Condition:
    """Require a stated number: up to rounding in the paper's cells, within the margin in ours."""
    gap = form - stated
    return every(
        Condition(difference=difference, strict=False, slack=slack, margin=margin)
        for difference in (gap, gap * -1)
    )


def led_by(leads: Iterable[Form], stated: float, *, slack: float, margin: float) -> Condition:
    """Require the smallest of several leads to be a stated number."""
    all_leads = list(leads)

    def not_negative(gap: Form) -> Condition:
        return Condition(difference=gap, strict=False, slack=slack, margin=margin)

    return every(
        [
            every(not_negative(lead - stated) for lead in all_leads),
            some(not_negative(lead * -1 + stated) for lead in all_leads),
        ]
    )
