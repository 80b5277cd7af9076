"""The pages: each is one self-contained file that needs no server or network. Addresses are
permanent: `<paper>/<artefact>.html#<number>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from repfl.bench.evidence import runs
from repfl.bench.report import numbers, overview
from repfl.bench.report.formats import formatting, pieces
from repfl.bench.report.links import (
    anchor,
    coded,
    embedded,
    emphasise,
    linked,
    noted,
    readme,
    slug,
    unbroken,
)
from repfl.bench.report.numbers import Number
from repfl.bench.report.sheet import Book, Sheet
from repfl.bench.report.site import holdings, number_data, words
from repfl.bench.report.site.leaderboard import Leaderboard, leaderboard, markdown
from repfl.paper_tables.core.result import State
from repfl.paper_tables.core.statistics.verdict import EXACT, RULE, Kind

HERE = {
    "RESULTS.md": "findings.html",
    "QUESTIONS.md": "questions.html",
    "board/README.md)": "leaderboard.html)",
    "board/PROTOCOL.md#how-to-repeat-it-and-how-to-join": "leaderboard.html#join",
    "../bench/STATISTICS.md": "how.html#verdicts",
    "../bench/GUIDE.md#how-to-contest-a-statement": "how.html#contest",
    "../README.md#cite": "how.html#cite",
    "../docs/methods/fedavg_ft.md": "fedobp/fig-finetuned.html",
}
"""Files of the repository whose contents stand on a page of the report."""
TEMPLATES = Path(__file__).parent / "templates"
FRAMES = {
    "numbers": numbers.COLUMNS,
    "runs": {name: text for name, text in runs.COLUMNS.items() if name != "metrics"},
}


def write(book: Book, out: Path) -> None:
    """Write all pages. The same book gives the same bytes."""
    for name, text in pages(book):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def pages(book: Book) -> Iterator[tuple[str, str]]:
    """Yield every page with its name."""
    board = leaderboard(book)
    summaries = overview.summaries(book.sheets, book.papers, book.open)
    templates = _environment(book, board)

    def page(path: str, template: str, **values: Any) -> tuple[str, str]:
        root = "../" * path.count("/")
        return path, templates.get_template(template).render(root=root, path=path, **values)

    yield page("index.html", "index.html.j2", **_first_screen(book, summaries, board))
    for summary in summaries:
        yield from _of_paper(summary, book, page)
    for sheet in book.sheets:
        yield page(sheet.page, "artefact.html.j2", **_artefact(sheet, book))
    for name, lines in words.by_method(book).items():
        yield page(
            f"methods/{slug(name)}.html", "method.html.j2", **_method(name, lines, book, board)
        )
    for name, lines in words.by_dataset(book).items():
        yield page(f"datasets/{slug(name)}.html", "dataset.html.j2", **_dataset(name, lines, book))
    if board:
        picture = _picture(book, board.figure) if board.figure else {}
        findings = readme(board.findings, _folder(book, "board"))
        yield page("leaderboard.html", "leaderboard.html.j2", picture=picture, findings=findings)
        yield "leaderboard.md", markdown(board)
    for name, text in book.documents.items():
        html = _document(text, book.repository)
        yield page(f"{name}.html", "document.html.j2", title=TITLES[name], text=html)
    if book.test:
        yield page("selftest.html", "selftest.html.j2", **_self_test(book.test))
    meanings = {word: text.removeprefix(f"{word}: ") for word, text in formatting.MEANING.items()}
    yield page(
        "how.html",
        "how.html.j2",
        provenance=book.provenance,
        rule=RULE,
        meanings=meanings,
        frames=FRAMES,
    )


def _of_paper(
    summary: overview.Summary, book: Book, page: Callable[..., tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield a paper's own page, its claims and its notes."""
    notes = str(book.papers.get(summary.paper, {}).get("notes", ""))
    yield page(
        f"{summary.paper}/index.html",
        "paper.html.j2",
        s=summary,
        notes=bool(notes),
        thumbs=_thumbs(summary),
        tallies={s.key: overview.summaries([s], {})[0].tally for s in summary.sheets},
    )
    if summary.claims:
        yield page(f"{summary.paper}/claims.html", "claims.html.j2", s=summary)
    if notes:
        notes = re.sub(r"\(tables/(\w+)\.md\)", r"(\1.html)", notes)
        notes = notes.replace(
            "../../bench/GUIDE.md#how-to-contest-a-statement", "../how.html#contest"
        )
        if summary.published:
            notes = re.sub(r"^# ", "# Notes on ", notes, count=1, flags=re.MULTILINE)
        text = readme(notes, _folder(book, summary.paper))
        yield page(f"{summary.paper}/notes.html", "notes.html.j2", s=summary, text=text)


def _folder(book: Book, paper: str) -> str:
    """Return the address of a paper's folder in the repository, if that is known."""
    folder = f"paper_tables/{paper.replace('-', '_')}"
    return book.repository and f"{book.repository}/blob/HEAD/{folder}"


TITLES = {"findings": "Findings, and what is not known", "questions": "Questions"}


def _document(text: str, repository: str) -> Markup:
    """Return a text about all papers, whose links to a paper's README or table lead to its notes or
    page here. A text of questions begins with their list.
    """
    if questions := re.findall(r"^### (.+\?)$", text, re.MULTILINE):
        listed = "\n".join(f"* [{each}](#{anchor(each)})" for each in questions)
        text = text.replace("\n## ", f"\n{listed}\n\n## ", 1)
    pages_of = r"\((\w+)/tables/(\w+)\.md"
    text = re.sub(pages_of, lambda m: f"({m[1].replace('_', '-')}/{m[2]}.html", text)
    for file, here in HERE.items():
        text = text.replace(f"({file}", f"({here}")
    text = re.sub(r"\((\w+)/README\.md", lambda m: f"({m[1].replace('_', '-')}/notes.html", text)
    return readme(text, repository and f"{repository}/blob/HEAD/paper_tables", "paper_tables")


MANY_ROWS = 60
"""Rows of a table from which on it scrolls in a box of its own."""

COLUMN = 365
"""Pixels of a phone's column: a wider piece of a figure scrolls, others shrink with the column."""


def _environment(book: Book, board: Leaderboard | None) -> Environment:
    """Return the templates, with the values that every page uses."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "coded": coded,
        "emphasise": emphasise,
        "unbroken": unbroken,
        "embedded": embedded,
        "slug": slug,
        "span": overview.span,
        "linked": linked,
        "noted": noted,
        "state": overview.state,
    }
    commit = str(book.provenance.get("report made at commit", "unknown"))
    scripts = ("plot.js", "app.js", "number.js")
    environment.globals |= {
        "style": Markup((TEMPLATES / "style.css").read_text("utf-8")),
        "script": Markup("".join((TEMPLATES / name).read_text("utf-8") for name in scripts)),
        "menus": words.menus(book),
        "search": words.search(book, board),
        "paper_name": book.name,
        "many": MANY_ROWS,
        "column": COLUMN,
        "tested": book.test,
        "documents": {name: TITLES[name].partition(",")[0] for name in book.documents},
        "board": board,
        "baseline": board and board.baseline,
        "scales": words.SCALES,
        "states": overview.STATES,
        "commit": commit,
        "repository": book.repository,
        "bibtex": words.BIBTEX.replace("COMMIT", commit),
        "glossary": words.GLOSSARY,
        "dots": overview.dots,
        "order": formatting.order,
        "claim_verdicts": {name: str(verdict) for name, verdict in overview.CLAIMS.items()},
        "desk": formatting.MARKS["desk"],
        "exact": EXACT,
    }
    return environment


def _first_screen(
    book: Book, summaries: list[overview.Summary], board: Leaderboard | None
) -> dict[str, Any]:
    return {
        "summaries": summaries,
        "printed": any(summary.published for summary in summaries),
        "title": overview.title(summaries),
        "lead": overview.lead(summaries),
        "counts": overview.counts(summaries),
        "longest": max((total for s in summaries for _, total, _ in s.bars), default=1),
        "runs": len(book.runs),
        "contradicted": [
            (sheet, claim)
            for sheet in book.sheets
            for claim in sheet.claims
            if claim.state == State.CONTRADICTED
        ],
        "differing": overview.differing(book.sheets),
        "points": [
            [
                round(n.printed, 6),
                round(n.ours or 0.0, 6),
                f"{s.page}#{n.id}",
                f"{s.key}: {n.row}, {n.where}",
                n.scale,
            ]
            for s in book.sheets
            for n in s.printed
            if n.kind in (Kind.TRAINED, Kind.LOGGED)
            and n.in_percent
            and n.measured
            and n.printed is not None
        ],
    }


def _thumbs(summary: overview.Summary) -> dict[str, str]:
    """Return the pictures of a paper's figures by key."""
    files = ((sheet.key, file) for sheet in summary.sheets for file in sheet.files)
    return {key: file for key, file in files if file.endswith(".png")}


def _artefact(sheet: Sheet, book: Book) -> dict[str, Any]:
    return {
        "s": sheet,
        "judged": overview.summaries([sheet], {})[0].tally if sheet.judged else [],
        "name": book.name(sheet.paper),
        "cells": sheet.at(),
        "picture": _picture(book, sheet),
        "same": sum(order.printed == order.ours for order in sheet.orders),
        "toy": sheet.scale == "smoke",
        "data": number_data.of_artefact(sheet, book),
        "sources": str(book.papers.get(sheet.paper, {}).get("sources", "")),
        "notes": bool(book.papers.get(sheet.paper, {}).get("notes")),
    }


def _picture(book: Book, sheet: Sheet) -> dict[str, Any]:
    """Return a figure as inline SVG, whose text has the colour of the page, and its pieces."""
    paths = (Path(book.out) / file for file in sheet.files if file.endswith(".svg"))
    svg = next((path.read_text("utf-8") for path in paths if path.is_file()), "")
    return {"svg": Markup(svg), **pieces.read(svg)} if svg else {}


def _method(
    name: str, lines: list[tuple[Sheet, Number]], book: Book, board: Leaderboard | None
) -> dict[str, Any]:
    facts = book.methods.get(name, {})
    first, *rest = str(facts.get("rule", "")).split("\n\n")
    rule = next((part for part in rest if re.search(r"<-|\s=\s", part)), "")
    ranked = [line for line in board.lines if line.method == name] if board else []
    title = facts.get("title", name)
    return {
        "about": [s for s in book.sheets if title in re.split(" beside |, ", s.title)],
        "name": name,
        "facts": facts,
        "first": first,
        "rule": rule,
        "after": [part for part in rest if part != rule],
        "lines": lines,
        "ranked": ranked,
        "tuned": _tuned(ranked, book),
    }


def _dataset(name: str, lines: list[tuple[Sheet, Number]], book: Book) -> dict[str, Any]:
    facts = book.datasets.get(name, {})
    # pictures first, reduced runs last
    dealt = sorted(facts.get("dealt", ()), key=lambda d: (d["scale"] == "desk", bool(d["like"])))
    rules = dict.fromkeys(each["rule"] for each in dealt)
    held = [each["held"] for each in dealt if each["held"]]
    return {
        "name": name,
        "facts": facts,
        "lines": lines,
        "dealt": dealt,
        "rules": holdings.rules(rules),
        "dirichlet": holdings.dirichlet((book.name(d["paper"]), d["rule"]) for d in dealt),
        "drawn": held,
        "many": any(len(each.classes) > holdings.MAX_ROWS for each in held),
        "shades": holdings.SHADES,
        "picture": holdings.picture,
    }


def _tuned(ranked: list[Any], book: Book) -> Mapping[str, str]:
    """Return the values that tuning chose for each hyper-parameter, over settings and studies. An
    option with a single value is left out, since nothing else may have been tried.
    """
    by_option: dict[str, dict[str, None]] = {}
    for line in ranked:
        for number in line.accuracy.values():
            for run in (book.runs[cell] for cell in number.runs if cell in book.runs):
                for key, value in run["hp"].items():
                    shown = f"{value:.3g}" if isinstance(value, float) else str(value)
                    by_option.setdefault(key, {})[shown] = None
    chosen = {key: values for key, values in by_option.items() if len(values) > 1}
    return {key: ", ".join(sorted(values, key=_order)) for key, values in chosen.items()}


def _order(text: str) -> tuple[bool, float, str]:
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


def _self_test(test: Mapping[str, Any]) -> dict[str, Any]:
    rows = [row["all"] for row in test["rows"]]
    counts = {name: sum(row[name] for row in rows) for name in ("here", "planned", "fell")}
    return {
        "learning": sum(row["above"] > 0 for row in rows),
        "here": counts["here"],
        "cells": counts["planned"],
        "fell": counts["fell"],
    }
