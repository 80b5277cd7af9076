"""What two methods are compared by: every run of a table, with what pairs it with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repfl.bench.report.cache import digest
from repfl.bench.report.sheet import Book, Sheet

ALONE = "local"
"""Training on one's own data only."""
OURS = "own"
"""The scale of what no paper prints: a protocol of our own, such as the board's."""
OWN = ("evaluation", "training.lr")
"""What methods of one column may have each their own of: where they are scored, and the learning
rate that was found for them.
"""


def runs(book: Book) -> list[dict[str, Any]]:
    """One line per run and row of a table of accuracies: which row, on what, how well, for how many
    bytes, and what it does to clients.
    """
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for sheet in book.sheets:
        places = {head.key for head in sheet.columns if head.unit in ("%", "percent")}
        for number in sheet.numbers:
            if number.column not in places or sheet.kind != "table":
                continue
            for cell in number.ids:
                run = book.runs.get(cell)
                if run is None or run["value"] is None or number.row in sheet.aside:
                    continue
                where = _place(run["recipe"])
                found.setdefault((number.row, where, run["seed"]), _line(sheet, number, run, where))
    lines = list(found.values())
    _harm(lines)
    return lines


def _place(recipe: Mapping[str, Any]) -> str:
    """Names what runs must share to be compared: data, partition, model, rounds."""
    shared = {
        f"{part}.{name}": value
        for part, options in recipe.items()
        for name, value in (options.items() if isinstance(options, Mapping) else [("", options)])
        if not {part, f"{part}.{name}"} & set(OWN)
    }
    return digest(shared)[:12]


def _line(sheet: Sheet, number: Any, run: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {
        "row": number.row,
        "method": run["method"],
        "place": where,
        "name": f"{sheet.paper}: {number.where}",
        "scale": run["scale"] if sheet.judged else OURS,
        "seed": run["seed"],
        "value": run["value"],
        "bytes": run["bytes"],
        "link": f"{sheet.page}#{number.id}",
        "clients": run["clients"],
    }


def _harm(lines: list[dict[str, Any]]) -> None:
    """Add the share of clients that are worse off than alone, where that is known."""
    alone = {
        (line["place"], line["seed"]): line["clients"] for line in lines if line["method"] == ALONE
    }
    for line in lines:
        own = alone.get((line["place"], line["seed"]))
        if own and len(own) == len(line["clients"]) and line["method"] != ALONE:
            pairs = zip(line["clients"], own, strict=True)
            line["harm"] = round(100 * sum(a < b for a, b in pairs) / len(own), 1)
