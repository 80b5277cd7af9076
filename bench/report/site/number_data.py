"""What the pages of an artefact's numbers are made from, as JSON within its page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from repfl.bench.grid import catalog
from repfl.bench.report.numbers import Number
from repfl.bench.report.sheet import Book, Sheet
from repfl.bench.report.site import words
from repfl.datasets.core.partition import partitioners


def of_artefact(sheet: Sheet, book: Book) -> dict[str, Any]:
    """Return what the pages of an artefact's numbers are made from. Recipes are shared."""
    used = dict.fromkeys(cell for number in sheet.numbers for cell in number.runs)
    recipes: list[Any] = []
    runs = {}
    for cell in used:
        run = dict(book.runs.get(cell, {}))
        if not run:
            continue
        if run["recipe"] not in recipes:
            recipes.append(run["recipe"])
        runs[cell] = run | {"recipe": recipes.index(run["recipe"])}
    return {
        "key": sheet.key,
        "title": sheet.title,
        "judged": sheet.judged,
        "numbers": [_plain(number) for number in sheet.numbers],
        "runs": runs,
        "recipes": recipes,
        "meanings": _meanings(runs, recipes, book),
        "wants": sheet.wants,
        "datasets": sheet.datasets,
        "logged": sheet.logged,
        "lines": sheet.lines,
        "command": sheet.command,
        "notes": [note.replace("README, ", "notes, ") for note in sheet.notes],
        "scales": {name: texts[0] for name, texts in words.SCALES.items()},
        "records": book.records,
        "repository": book.repository,
        "source": f"paper_tables/{sheet.paper.replace('-', '_')}",
    }


def _meanings(
    used: Mapping[str, Mapping[str, Any]], recipes: Sequence[Mapping[str, Any]], book: Book
) -> dict[str, Mapping[str, Any]]:
    """Return what the settings of runs mean: by method, by partition rule, and of any recipe."""
    methods = dict.fromkeys(run["method"] for run in used.values())
    rules = dict.fromkeys(recipe["partition"]["rule"] for recipe in recipes)
    known = {name: book.methods.get(name, {}).get("hyperparameters", ()) for name in methods}
    return {
        "recipe": catalog.recipe_meanings() if recipes else {},
        "methods": {name: _by_name(options) for name, options in known.items()},
        "rules": {
            rule: _by_name(catalog.partition_facts(rule)["options"])
            for rule in rules
            if rule in partitioners()  # a plug-in's may be absent
        },
    }


def _by_name(options: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {str(option["name"]): str(option["meaning"]) for option in options}


SHOWN = ("printed_text", "ours_text", "interval_text", "difference_text", "verdict_text", "founded")


def _plain(number: Number) -> dict[str, Any]:
    """Return what a number's page shows, without what is empty."""
    fields = vars(number) | {name: getattr(number, name) for name in SHOWN}
    fields["reason"] = number.reason.replace("README, ", "notes, ")
    fields |= {"stale": True} if number.stale else {}
    if number.has_wide_interval:
        fields |= {"difference_low": None, "difference_high": None}
    return {name: _rounded(value) for name, value in fields.items() if value not in ("", None, ())}


def _rounded(value: Any) -> Any:
    """Return a number with as many decimals as a page needs; anything else as it is."""
    return round(value, 6) if isinstance(value, float) else value
