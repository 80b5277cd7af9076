"""What a method sends, per participant and round."""

from __future__ import annotations

from typing import Any

from repfl.bench.report import wire
from repfl.bench.report.sheet import Number, Sheet
from repfl.bench.report.write import Book

SHEET = Sheet("paper-a", "table1", "table", "Table 1", "", "paper")
LATE = {"share": 0.5, "samples": 10, "epochs": 0}


def megabytes(method: str, **fields: Any) -> float:
    """What is said of a run that sends 12 MB in two rounds."""
    recipe = {"clients": 6, "participation": 1.0, "training": {"rounds": 2}, **fields}
    run = {"method": method, "recipe": recipe, "bytes": 12_000_000}
    lines = [(SHEET, Number("1", "row", "column", "where", ids=("a",)))]
    (found,) = wire.sent(lines, Book([SHEET], runs={"a": run}))
    return found.megabytes


def test_what_is_sent_is_shared_by_those_who_train() -> None:
    assert megabytes("fedavg", participation=0.5) == 2.0
    assert megabytes("dis-pfl", participation=0.5) == 1.0  # without a server everybody trains
    assert megabytes("fedavg", newcomers=LATE) == 2.0  # newcomers come when it is over
