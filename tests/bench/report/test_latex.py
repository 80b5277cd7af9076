"""Every table of the suite as LaTeX, in both styles: well formed as far as can be told without a
compiler, and compiled where there is one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from math import nan
from pathlib import Path

import pytest

from repfl.bench.evidence.artefacts import make
from repfl.bench.evidence.library import Library
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import latex
from repfl.bench.store.store import Store
from repfl.paper_tables.core.result import Table
from tests.bench.report import sample

KNOWN = {
    *("usepackage", "begin", "end", "centering", "footnotesize", "caption", "label", "item"),
    *(
        "setlength",
        "sisetup",
        "tabcolsep",
        "addtocounter",
        "toprule",
        "midrule",
        "bottomrule",
        "medskip",
        "shortstack",
        "smallskip",
    ),
    *(
        "multicolumn",
        "cmidrule",
        "quad",
        "textbf",
        "underline",
        "bfseries",
        "textbackslash",
        "num",
        "pm",
    ),
    *("leq", "geq", "times", "uparrow", "downarrow", "rightarrow", "infty", "cdot"),
    *("alpha", "beta", "lambda", "tau", "theta", "Delta"),
}
CLASS = r"""\documentclass[twocolumn]{article}
\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}
\usepackage[textwidth=516pt,textheight=690pt]{geometry}
\usepackage{booktabs,siunitx,threeparttable}
\begin{document}
%s
\end{document}
"""


@cache
def everything() -> list[Table]:
    """All tables at the desk scale, as they come with the code."""
    planned = [item for item in plan(Selection(scale="desk")) if item.kind == "table"]
    made = make(planned, Library(Store(Path("no results here"))))
    assert made.problems == []
    return [result for result in made.results if isinstance(result, Table)]


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
        for c in "#%_~"
        if re.search(rf"(?<!\\)\{c}", re.sub(r"\\label\{.*?\}", "", body))
    ]
    found += ["dollar signs do not pair"] if len(re.findall(r"(?<!\\)\$", body)) % 2 else []
    return found + _rows(text)


def _rows(text: str) -> list[str]:
    """Rows that have more or fewer cells than their tabular has columns."""
    found, columns = [], 0
    for line in text.splitlines():
        if told := re.match(r"\\begin\{tabular\}\{(.+)\}$", line):
            columns = len(re.sub(r"\[[^\]]*\]", "", told[1]))
        if line.endswith(r"\\"):
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            cells = len(re.findall(r"(?<!\\)&", line)) + 1 + sum(spans) - len(spans)
            found += (
                [f"{cells} cells for {columns} columns: {line[:60]}"] if cells != columns else []
            )
    return found


@pytest.mark.parametrize("style", latex.STYLES)
def test_every_table_of_the_suite_is_well_formed(style: str) -> None:
    assert len(everything()) == 14
    found = {table.key: faults(latex.latex(table, style)) for table in everything()}
    assert {key: wrong for key, wrong in found.items() if wrong} == {}


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
    text = latex.latex(sample.small_table())
    assert faults(text) == []
    assert said in "; ".join(faults(text.replace(before, after, 1)))


def test_escaped_words_are_what_was_meant() -> None:
    assert latex.escape("50 % of a_b & {c}") == r"50 \% of a\_b \& \{c\}"


def test_a_caption_does_not_number_what_latex_numbers() -> None:
    assert latex.title("Table III: accuracy") == "accuracy"
    text = latex.latex(sample.small_table())
    assert r"\caption{Accuracy. A small table." in text
    assert "resizebox" not in text


def test_a_table_to_be_submitted_has_our_numbers_and_no_verdicts() -> None:
    text = latex.latex(sample.small_table(), "paper")
    assert "FedAvg & {\\underline{\\num{85.00 +- 1.00}}} &" in text
    assert r"\bfseries 85.83 +- 0.76" in text
    assert "81.97" not in text  # printed
    assert "Ours, dense" not in text  # a row of ours that the paper has not
    assert not re.search("published|differs|consistent|inconclusive|verdict", text)
    assert r"\item Best in bold, second underlined" in text
    assert r"S[table-format=2.2(3)]" in text


def test_a_number_of_a_smaller_scale_is_never_submitted_in_silence() -> None:
    table = sample.small_table(sample.SmallEvidence("desk"))
    assert "The numbers are of the desk scale: not the protocol of the paper" in latex.latex(
        table, "paper"
    )


def test_a_column_without_a_number_is_not_submitted_and_that_is_said() -> None:
    found = {key: value for key, value in sample.FOUND.items() if key[1] != "hard"}
    gone = {key: (nan, nan, nan) for key in sample.FOUND if key[1] == "hard"}
    table = sample.small_table(sample.SmallEvidence("paper", found | gone))
    text = latex.latex(table, "paper")
    assert r"\item Left out, without any number: CIFAR-10: $\alpha$ = 0.5." in text
    assert r"\begin{tabular}{lS[table-format=2.2(3)]S[table-format=2.2(3)]}" in text
    assert "Left out" not in latex.latex(sample.small_table(), "paper")


def test_numbers_of_two_scales_in_a_column_are_told_apart() -> None:
    small, full = (sample.small_table(sample.SmallEvidence(s)) for s in ("desk", "paper"))
    mixed = (full.frame["row"] == "FedAvg") & (full.frame["column"] == "easy")
    frame = small.frame.where(~mixed, full.frame)
    text = latex.latex(replace(small, frame=frame), "paper")
    assert "of the desk scale, but for FedAvg in CIFAR-10, $\\alpha$ = 0.1: not" in text


def test_headings_are_folded_and_wide_groups_are_cut_evenly() -> None:
    wide = next(table for table in everything() if table.key == "star-pfl/table3")
    text = latex.latex(wide)
    assert r"{\shortstack[b]{one client\\ $\uparrow$, on the\\ wire}}" in text
    columns = [len(each.split("{", 1)[1]) - 2 for each in re.findall(r"tabular\}\{l.*", text)]
    assert len(columns) > 1
    assert len(set(columns)) == 1


def test_what_is_too_wide_is_cut_and_keeps_its_number() -> None:
    wide = next(table for table in everything() if table.key == "pfeddst/table2")
    text = latex.latex(wide)
    assert text.count(r"\begin{table*}") > 1
    assert text.count(r"\addtocounter{table}{-1}") == text.count(r"\begin{table*}") - 1
    assert text.count(r"\label{") == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
@pytest.mark.parametrize("style", latex.STYLES)
def test_all_tables_compile_and_stay_on_the_page(tmp_path: Path, style: str) -> None:
    body = "\n\\clearpage\n".join(latex.latex(table, style) for table in everything())
    (tmp_path / "all.tex").write_text(CLASS % body, "utf-8")
    told = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    log = told.stdout.decode("latin-1")
    if "siunitx.sty' not found" in log:
        pytest.skip("the TeX of this machine has no siunitx")
    assert told.returncode == 0, log[-1500:]
    over = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)]
    assert max(over, default=0.0) < 6, log
    assert "Float too large" not in log
