"""Every table of the suite as LaTeX that a compiler would take; checked without one, which few
machines have.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repfl.bench.cells.plan import Selection, plan
from repfl.bench.evidence.artefacts import make
from repfl.bench.evidence.library import Library
from repfl.bench.records.store import Store
from repfl.bench.report import render
from repfl.paper_tables.core.result import Result, Table
from tests.bench.report import sample

KNOWN = {
    "usepackage",
    "begin",
    "end",
    "centering",
    "caption",
    "label",
    "resizebox",
    "textwidth",
    "toprule",
    "midrule",
    "bottomrule",
} | {
    *("multicolumn", "cmidrule", "quad", "textbf", "underline", "textbackslash"),
    *(
        "pm",
        "leq",
        "geq",
        "times",
        "uparrow",
        "downarrow",
        "rightarrow",
        "infty",
        "alpha",
        "beta",
        "lambda",
        "tau",
        "theta",
        "Delta",
    ),
}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """All artefacts as they are before anything has run: all words, rows and published numbers, and
    none of ours.
    """
    nothing = tmp_path_factory.mktemp("nothing")
    made = make(plan(Selection()), Library(Store(nothing / "results")), nothing)
    assert made.problems == []
    return made.results


def faults(text: str) -> list[str]:
    """What a compiler would refuse."""
    found, depth = [], 0
    for mark in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if mark == "{" else -1
        if depth < 0:
            found.append("a brace closes nothing")
    found += ["braces stay open"] if depth else []
    found += [f"character {c!r}" for c in sorted(set(text)) if ord(c) > 0xFF]
    found += [f"command {name}" for name in sorted(set(re.findall(r"\\([A-Za-z]+)", text)) - KNOWN)]
    body = text.split("\n", 1)[1]  # the first line is a comment
    found += [
        f"unescaped {c}"
        for c in "#%_^~"
        if re.search(rf"(?<!\\)\{c}", re.sub(r"\{%\n|\\label\{.*?\}", "", body))
    ]
    found += ["dollar signs do not pair"] if len(re.findall(r"(?<!\\)\$", body)) % 2 else []
    return found + _rows(text)


def _rows(text: str) -> list[str]:
    """Rows that have more or fewer cells than the table has columns."""
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text)[1])  # type: ignore[index]
    found = []
    for line in text.splitlines():
        if line.endswith(r"\\"):
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            cells = len(re.findall(r"(?<!\\)&", line)) + 1 + sum(spans) - len(spans)
            found += (
                [f"{cells} cells for {columns} columns: {line[:60]}"] if cells != columns else []
            )
    return found


def test_every_table_of_the_suite_is_well_formed(everything: list[Result]) -> None:
    tables = [result for result in everything if isinstance(result, Table)]
    assert len(tables) == 14
    assert {table.key: found for table in tables if (found := faults(render.latex(table)))} == {}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("FedAvg &", "FedAvg", "3 cells for 4 columns"),
        ("FedAvg &", "Fed_Avg &", "unescaped _"),
        ("FedAvg &", "FedAvg\u221e &", "character"),
        ("FedAvg &", "{FedAvg &", "braces stay open"),
        ("FedAvg &", "FedAvg $ &", "dollar signs"),
        (r"\midrule", r"\mindrule", "command mindrule"),
    ],
)
def test_a_slip_would_be_noticed(before: str, after: str, said: str) -> None:
    text = render.latex(sample.small_table())
    assert faults(text) == []
    assert said in "; ".join(faults(text.replace(before, after, 1)))


def test_escaped_words_are_what_was_meant() -> None:
    assert render.tex_escape("50 % of a_b & {c}") == r"50 \% of a\_b \& \{c\}"


def test_the_header_names_the_packages_that_the_table_needs(tmp_path: Path) -> None:
    text = render.latex(sample.small_table())
    assert text.startswith("% \\usepackage{booktabs,graphicx}\n")
    assert r"\toprule" in text
    assert r"\resizebox" in text
