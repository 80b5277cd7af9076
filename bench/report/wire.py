"""What a method sends, beside what FedAvg sends with the same data, model and protocol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from repfl.bench.cells.needs import participants
from repfl.bench.report.cache import digest
from repfl.bench.report.sheet import Number, Sheet
from repfl.bench.report.write import Book

PLAIN = "fedavg"


@dataclass(frozen=True)
class Sent:
    """One row of a table, in one column."""

    sheet: Sheet
    number: Number
    megabytes: float
    """Both ways, per participant and round."""
    share: float | None
    """Of what FedAvg sends there."""


def sent(lines: Iterable[tuple[Sheet, Number]], book: Book) -> list[Sent]:
    """Each run once, those beside a run of FedAvg first; runs whose bytes were not kept are left
    out.
    """
    plain = {
        digest(run["recipe"]): run["bytes"]
        for run in book.runs.values()
        if run["method"] == PLAIN and run["bytes"]
    }
    found: dict[str, Sent] = {}
    for sheet, number in sorted(lines, key=lambda pair: pair[1].row in pair[0].aside):
        cell = number.ids[0] if number.ids else ""
        run = book.runs.get(cell)
        if sheet.kind != "table" or run is None or not run["bytes"] or cell in found:
            continue
        recipe = run["recipe"]
        base = plain.get(digest(recipe))
        share = run["bytes"] / base if base else None
        exchanges = participants(run["method"], recipe) * recipe["training"]["rounds"]
        found[cell] = Sent(sheet, number, run["bytes"] / exchanges / 1e6, share)
    return sorted(found.values(), key=lambda each: each.share is None)
