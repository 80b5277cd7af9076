"""The pages: each is one self-contained file that asks nothing of a server or a network, with
addresses that stay the same: `<paper>/<artefact>.html#<number>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from repfl.bench.report import compare, numbers, overview
from repfl.bench.report.address import linked, slug
from repfl.bench.report.sheet import Book, Number, Sheet
from repfl.paper_tables.core.verdict import EXACT, RULE, Kind

TEMPLATES = Path(__file__).parent / "templates"
SCALES = {
    "paper": "the paper's protocol, as far as it is known",
    "desk": "the real data, but fewer rounds, clients or seeds, or a smaller model",
    "smoke": "embedded digits, tiny models and few rounds: a self-test",
}
PERCENT = ("%", "percent", "")


def write(book: Book, out: Path) -> list[str]:
    """Write all pages; returns their names. The same book gives the same bytes."""
    made = []
    for name, text in pages(book):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        made.append(name)
    return made


def pages(book: Book) -> Iterator[tuple[str, str]]:
    """Every page with its name."""
    templates, summaries = (
        _environment(book),
        overview.summaries(book.sheets, book.papers, book.open),
    )

    def page(path: str, template: str, **told: Any) -> tuple[str, str]:
        root = "../" * path.count("/")
        return path, templates.get_template(template).render(root=root, **told)

    yield page("index.html", "index.html.j2", **_first_screen(book, summaries))
    for summary in summaries:
        yield page(
            f"{summary.paper}/index.html",
            "paper.html.j2",
            s=summary,
            readings=book.readings.get(summary.paper),
        )
    for sheet in book.sheets:
        yield page(sheet.page, "artefact.html.j2", **_artefact(sheet, book))
    for name, lines in _by_method(book).items():
        facts = book.methods.get(name, {})
        shown: dict[str, Any] = {"name": name, "what": "Methods", "facts": facts, "lines": lines}
        yield page(f"methods/{slug(name)}.html", "listing.html.j2", **shown)
    for name, lines in _by_dataset(book).items():
        shown = {"name": name, "what": "Datasets", "facts": {}, "lines": lines}
        yield page(f"datasets/{slug(name)}.html", "listing.html.j2", **shown)
    yield page("compare.html", "compare.html.j2", data=compare.runs(book))
    if book.test:
        rows = [row["all"] for row in book.test["rows"]]
        counts = {name: sum(row[name] for row in rows) for name in ("here", "planned", "fell")}
        learning = sum(row["above"] > 0 for row in rows)
        shown = {"here": counts["here"], "cells": counts["planned"], "fell": counts["fell"]}
        yield page("selftest.html", "selftest.html.j2", learning=learning, **shown)
    known = {word: told.removeprefix(f"{word}: ") for word, told in numbers.MEANING.items()}
    told = {"rule": RULE, "meanings": known}
    yield page("how.html", "how.html.j2", provenance=book.provenance, **told)


def _environment(book: Book) -> Environment:
    """The templates, and what every page has in common."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "emphasise": emphasise,
        "embedded": embedded,
        "slug": slug,
        "span": overview.span,
        "linked": linked,
    }
    scripts = ("plot.js", "app.js", "number.js", "compare.js")
    environment.globals |= {
        "style": Markup((TEMPLATES / "style.css").read_text("utf-8")),
        "script": Markup("".join((TEMPLATES / name).read_text("utf-8") for name in scripts)),
        "menus": _menus(book),
        "search": _search(book),
        "tested": book.test,
        "scales": SCALES,
        "commit": book.provenance.get("report made at commit", "unknown"),
        "dots": overview.dots,
        "said": overview.of_claim,
        "outcomes": overview.OUTCOMES,
        "desk": numbers.MARKS["desk"],
    }
    return environment


def _menus(book: Book) -> list[tuple[str, list[tuple[str, str]]]]:
    papers = [
        (paper, f"{paper}/index.html") for paper in dict.fromkeys(s.paper for s in book.sheets)
    ]
    methods = [(name, f"methods/{slug(name)}.html") for name in _by_method(book)]
    datasets = [(name, f"datasets/{slug(name)}.html") for name in _by_dataset(book)]
    found = [("Papers", papers), ("Methods", methods), ("Datasets", datasets)]
    return [(name, items) for name, items in found if items]


def _search(book: Book) -> list[list[str]]:
    """What can be searched for: name, kind, address."""
    found = [
        [name, menu.removesuffix("s").lower(), link]
        for menu, items in _menus(book)
        for name, link in items
    ]
    found += [[f"{each.key} {each.title}", each.kind, each.page] for each in book.sheets]
    titles = ((str(told.get("title", "")), paper) for paper, told in book.papers.items())
    return found + [[title, "paper", f"{paper}/index.html"] for title, paper in titles if title]


def _first_screen(book: Book, summaries: list[overview.Summary]) -> dict[str, Any]:
    return {
        "summaries": summaries,
        "printed": any(summary.published for summary in summaries),
        "whole": overview.whole(summaries),
        "counts": overview.counts(summaries),
        "runs": len(book.runs),
        "differing": overview.differing(book.sheets),
        "exact": EXACT,
        "points": [
            [n.printed, n.value, f"{s.page}#{n.id}", f"{s.key}: {n.row}, {n.where}", n.scale]
            for s in book.sheets
            for n in s.printed
            if n.kind in (Kind.TRAINED, Kind.LOGGED)
            and n.unit in PERCENT
            and n.measured
            and n.printed is not None
        ],
    }


def _artefact(sheet: Sheet, book: Book) -> dict[str, Any]:
    names = {head.key: head.name for head in sheet.columns}
    same = sum(order.printed == order.ours for order in sheet.orders)
    picture = next((file for file in sheet.files if file.endswith(".png")), "")
    return {
        "s": sheet,
        "sentence": overview.summaries([sheet], {})[0].sentence if sheet.judged else "",
        "cells": sheet.at(),
        "picture": picture,
        "same": same,
        "names": names,
        "data": _data(sheet, book),
        "sources": str(book.papers.get(sheet.paper, {}).get("sources", "")),
    }


def _data(sheet: Sheet, book: Book) -> dict[str, Any]:
    """What the pages of an artefact's numbers are made from. Recipes are shared."""
    used = dict.fromkeys(cell for number in sheet.numbers for cell in number.ids)
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
        "wants": sheet.wants,
        "logged": sheet.logged,
        "lines": sheet.lines,
        "command": sheet.command,
        "notes": sheet.notes,
        "scales": SCALES,
        "records": book.records,
        "source": f"paper_tables/{sheet.paper.replace('-', '_')}",
    }


def _plain(number: Number) -> dict[str, Any]:
    """The fields of a number that say anything."""
    return {name: value for name, value in vars(number).items() if value not in ("", None, ())}


def _by_method(book: Book) -> dict[str, list[tuple[Sheet, Number]]]:
    """Every number of a method, in the order of their names."""
    found: dict[str, list[tuple[Sheet, Number]]] = {}
    for sheet in book.sheets:
        for number in sheet.numbers:
            if number.method and number.kind != Kind.LOOKUP:
                found.setdefault(number.method, []).append((sheet, number))
    return dict(sorted(found.items()))


def _by_dataset(book: Book) -> dict[str, list[tuple[Sheet, Number]]]:
    """The same by data set; those of runs, so that digits that stand for sizes are none."""
    found: dict[str, list[tuple[Sheet, Number]]] = {}
    for sheet in book.sheets:
        for number in sheet.numbers:
            name = sheet.datasets.get(number.column, "")
            if name and (number.method or number.source):
                found.setdefault(name, []).append((sheet, number))
    return dict(sorted(found.items()))


def embedded(value: Any) -> Markup:
    """JSON within a page: nothing in it can end the script that holds it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def emphasise(text: str) -> Markup:
    """Words between asterisks in italics."""
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", str(escape(text))))
