"""Conditions on cells of a table: sums above zero, and several of which some must hold.

A sentence on accuracies is such a condition (`every(cell(a, c) > cell(b, c) for c in columns)`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

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
    """A difference that must be above zero, or several conditions, of which a number must hold."""

    difference: Form = Form({})
    strict: bool = True
    """Whether equality is not enough: a tie of rounded numbers leaves it open."""
    parts: tuple[Condition, ...] = ()
    least: int = 0
    slack: float = 0.0
    """How far the difference may lie below zero in print, and ..."""
    margin: float = 0.0
    """... of ours."""

    def nodes(self) -> Iterator[Condition]:
        """All conditions within it that have parts."""
        if self.parts:
            yield self
        for part in self.parts:
            yield from part.nodes()

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
