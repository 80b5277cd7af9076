"""What two methods are compared by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from repfl.bench.report.sheet import Book
from repfl.bench.report.site import compare


def among(book: Book, column: str, **changes: Any) -> list[dict[str, Any]]:
    """The lines of one of the sample's columns, the runs of some methods changed."""
    label = next(n.where for sheet in book.sheets for n in sheet.numbers if n.column == column)
    runs = {cell: run | changes.get(run["method"], {}) for cell, run in book.runs.items()}
    lines = compare.runs(Book(book.sheets, runs=runs))
    return [line for line in lines if line["name"].endswith(f": {label}")]


def test_a_learning_rate_or_place_of_scoring_of_its_own_keeps_no_method_from_others(
    book: Book,
) -> None:
    mine: dict[str, Any] = next(iter(book.runs.values()))["recipe"] | {"alpha": "easy"}
    searched = mine | {"training": mine["training"] | {"lr": 0.3}, "evaluation": {"every": 5}}
    lines = among(book, "easy", fedavg={"recipe": searched}, local={"recipe": mine})
    assert {line["method"] for line in lines} >= {"fedavg", "local"}
    assert len({line["place"] for line in lines if line["method"] in ("fedavg", "local")}) == 1


@pytest.mark.parametrize("change", [{"model": "lenet5"}, {"training": {"rounds": 10}}])
def test_another_model_or_other_rounds_do(book: Book, change: dict[str, Any]) -> None:
    mine = next(iter(book.runs.values()))["recipe"] | {"alpha": "easy"}
    lines = among(book, "easy", fedavg={"recipe": mine | change}, local={"recipe": mine})
    assert len({line["place"] for line in lines if line["method"] in ("fedavg", "local")}) == 2


def test_harm_is_the_share_of_clients_that_are_below_their_own_local_model(book: Book) -> None:
    lines = among(
        book,
        "easy",
        fedavg={"clients": [50.0, 60.0, 70.0, 80.0]},
        local={"clients": [55.0, 60.0, 65.0, 70.0]},
    )
    harm = {line["method"]: line.get("harm") for line in lines}
    assert harm["fedavg"] == 25.0
    assert harm["local"] is None


def test_what_no_paper_prints_has_a_scale_of_its_own(book: Book) -> None:
    assert {line["scale"] for line in compare.runs(book)} == {"paper"}
    ours = Book([replace(sheet, judged=False) for sheet in book.sheets], runs=book.runs)
    assert {line["scale"] for line in compare.runs(ours)} == {compare.OURS}
