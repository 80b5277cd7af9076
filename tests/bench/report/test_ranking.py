"""Which ranks over a table's columns can be told apart."""

from __future__ import annotations

from typing import Any

import pytest

from repfl.bench.report.ranking import Ranking, rankings
from repfl.bench.report.sheet import Head, Number, Sheet
from repfl.bench.report.write import Book

ROWS = ("a", "b", "c")


def book(values: dict[str, tuple[float | None, ...]], **changed: Any) -> Book:
    """A table with a column per entry, each of another recipe; `same` names one that is not,
    `seeds` and `scales` what a place has of its own.
    """
    same, scales = changed.get("same", {}), changed.get("scales", {})
    seeds = changed.get("seeds", {})
    numbers = [
        Number(
            f"{row}.{column}", row, column, column,
            value=value, ids=(f"{row}{column}",), scale=scales.get((row, column), "desk"),
        )
        for column, given in values.items()
        for row, value in zip(ROWS, given, strict=True)
    ]  # fmt: skip
    runs = {
        n.ids[0]: {
            "recipe": {"data": same.get(n.column, n.column)},
            "seed": seeds.get((n.row, n.column), 1),
        }
        for n in numbers
    }
    heads = tuple(Head(c, c, c, "", "%", 2, changed.get("best", "high")) for c in values)
    sheet = Sheet(
        "paper", "table1", "table", "A table", "", "desk",
        numbers=tuple(numbers), columns=heads, rows=(*ROWS, "aside"), aside=("aside",),
    )  # fmt: skip
    return Book([sheet], runs=runs)


def only(found: Book) -> Ranking:
    (ranking,) = rankings(found)
    return ranking


def test_ranks_that_never_change_differ_and_the_gap_is_nemenyis() -> None:
    found = only(book(dict.fromkeys("uvwxyz", (3.0, 2.0, 1.0))))
    assert found.rows == (("a", 1.0), ("b", 2.0), ("c", 3.0))
    assert found.told
    assert found.gap == pytest.approx(2.343 * (3 * 4 / (6 * 6)) ** 0.5, abs=2e-3)
    assert [found.near(rank) for _, rank in found.rows] == [True, True, False]
    assert [found.at(rank) for _, rank in found.rows] == [0.0, 50.0, 100.0]


def test_ranks_that_turn_round_cannot_be_told_apart() -> None:
    found = only(book({"u": (3, 2, 1), "v": (1, 3, 2), "w": (2, 1, 3)}))
    assert not found.told
    assert all(found.near(rank) for _, rank in found.rows)


@pytest.mark.parametrize(
    "less",
    [
        {"same": {"w": "u"}},  # the same runs shown in another way
        {"scales": {("b", "w"): "paper"}},  # two scales in one column
        {"seeds": {("b", "w"): 2}},  # another seed may deal other clients
        {"best": "low"},
    ],
)
def test_what_is_no_column_of_its_own_does_not_count(less: dict[str, Any]) -> None:
    values: dict[str, tuple[float | None, ...]] = dict.fromkeys("uvw", (3.0, 2.0, 1.0))
    assert len(list(rankings(book(values)))) == 1
    assert list(rankings(book(values, **less))) == []
    assert list(rankings(book(values | {"w": (3.0, None, 1.0)}))) == []
