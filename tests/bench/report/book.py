"""A small site: the report of the sample, with runs behind its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from repfl.bench.grid.cell import build_cell
from repfl.bench.grid.planned import Planned
from repfl.bench.report import build, sheet
from repfl.bench.report.formats import render
from repfl.bench.report.sheet import Book, Sheet
from repfl.bench.report.site import facts, pages
from repfl.paper_tables.core.result import Result, Table
from tests.bench.report import sample
from tests.datasets.tiny import recipe

RECIPE = {
    "dataset": "cifar10",
    "model": "cnn4",
    "partition": {"rule": "dirichlet"},
    "clients": 20,
    "participation": 1.0,
    "training": {"rounds": 200},
}
SECONDS = {1: 12.5, 2: 930.0, 3: 12_600.0}
BYTES = {1: 75, 2: 425_000, 3: 731_000_000}
"""By seed, so that every unit of the pages is met."""
CELLS = {"planned": 2, "done": 2, "here": 0, "fell": 0, "above": 1, "value": 91.0, "floor": 40.0}
TESTED = {
    "columns": [{"rule": "n-cls", "dealt": [2], "models": ["tiny"], "clients": [8]}],
    "rows": [{"method": "fedavg", "all": CELLS, "cells": [CELLS]}],
}


def dealt() -> list[dict[str, Any]]:
    """Two splits by different rules, and one that needs more than class counts."""
    rules = {
        "a": recipe("class-dirichlet", 20, "cifar10", 42, alpha=0.1),
        "b": recipe("client-dirichlet", 5, "cifar10", alpha=0.1),
        "c": recipe("persons", 30, "har"),
    }
    where = ("table1", "table", "FedAvg")
    cells = [
        Planned(build_cell("fedavg", {}, each, 1), "paper-a", *where, name, f"α, {name}", "paper")
        for name, each in rules.items()
    ]
    return [line for lines in facts.splits(cells).values() for line in lines]


def run(number: Any, cell: str, seed: int) -> dict[str, Any]:
    """What is known of a run of the sample."""
    return {
        "method": number.method,
        "hp": {"lr": 0.1},
        "seed": seed,
        "recipe": RECIPE | {"alpha": number.column},
        "scale": "paper",
        "status": "done",
        "reason": "",
        "value": number.ours + seed / 10,
        "round": 200,
        "floor": 40.0,
        "parameters": 1000,
        "bytes": BYTES[seed] * (1 + len(number.row)),
        "seconds": SECONDS[seed],
        "memory": 1e9,
        "device": "cpu",
        "torch": "2.11",
        "precision": "default",
        "commit": "a" * 40,
        "dirty": False,
        "contributor": "somebody",
        "finished": "2026-01-02T03:04:05",
        "partition": "b" * 64,
        "command": f"repfl run --cell {cell[:12]} --fresh",
        "from": "committed",
        "tier": "committed",
        "stale": "",
        "curve": [[r, number.ours - 30 / r] for r in range(1, 21)],
        "clients": [number.ours + place - 5 for place in range(10)],
    }


def write(out: Path) -> Book:
    """Write the sample's site and return what it shows."""
    wants = {"Ours & co_|hard": {"cells": 3, "seconds": 7200, "command": "repfl run --cell abc"}}

    def tell(result: Result) -> Sheet:
        return sheet.sheet_of(
            result,
            {},
            command=f"repfl report --artefact {result.key}",
            datasets={"easy": "cifar10", "hard": "cifar10", "other": "cifar100"},
            wants=wants if isinstance(result, Table) else {},
            logged={"table1.csv:2": [[100, 80.0], [200, 81.5]]},
        )

    sheets, failed = render.write(sample.results(), tell, out)
    assert failed == {}
    build.write_frames([n for each in sheets for n in each.numbers], pd.DataFrame(), out)
    runs = {
        cell: run(number, cell, seed)
        for each in sheets
        for number in each.numbers
        for seed, cell in enumerate(number.runs, 1)
        if number.measured
    }
    told = {"title": "A <i>paper</i>", "year": 2025, "sources": "arXiv 2102.07078, code: none"}
    notes = "# Notes\n\n| # | what |\n|---|---|\n| 17 | a [file](x.py) |\n"
    scale = {"scale": "paper", "cells": 27, "done": 24, "hours": 2.0, "devices": "cpu"}
    told |= {"notes": notes, "coverage": [scale | {"last": "2026"}]}
    book = Book(
        sheets,
        {"paper-a": told, "paper-b": {"title": "Another one"}},
        runs,
        {"paper-a": {"cells": 27, "missing": 3, "seconds": 7200.0, "command": "repfl run"}},
        TESTED,
        {
            "fedavg": {
                "title": "FedAvg",
                "paper": "McMahan 2017",
                "rule": "Averages.\n\nw_i <- SGD from w;  w <- sum_i p_i w_i.\n\nMore.",
                "hyperparameters": [{"name": "mu", "default": 0.1, "meaning": "pull"}],
            }
        },
        {
            "cifar10": {
                "title": "CIFAR-10",
                "licence": "none",
                "command": "repfl data get cifar10",
                "dealt": dealt(),
            }
        },
        {"report made at commit": "abc"},
        records="../results",
        out=str(out),
    )
    pages.write(book, out)
    return book
