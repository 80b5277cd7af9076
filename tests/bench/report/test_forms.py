"""Tables as csv, Markdown and LaTeX: the golden bytes, and every table well formed."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from repfl.bench.report import show_text
from repfl.bench.report.formats import latex as tex
from repfl.bench.report.formats import markdown as md
from repfl.bench.report.numbers import as_csv, frame
from repfl.bench.report.sheet import sheet_of
from repfl.paper_tables.core.result import Table
from tests.bench.report import sample

CLASS = r"""\documentclass[twocolumn]{article}
\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}
\usepackage[textwidth=516pt,textheight=690pt]{geometry}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""


def markdown(table: Table) -> str:
    return md.markdown(sheet_of(table, {}))


def latex(table: Table) -> str:
    return tex.latex(sheet_of(table, {}))


@cache
def everything() -> list[Table]:
    """Tables of reduced runs of four papers, from committed runs."""
    papers = ("fedpurin", "fedselect", "pfeddst", "star-pfl")
    made = [result for paper in papers for result in show_text.made(paper, "desk")]
    return [result for result in made if isinstance(result, Table)]


@pytest.mark.parametrize("file", sorted(sample.golden()))
def test_fixed_evidence_gives_the_golden_bytes(file: str) -> None:
    """If a change is meant: python -m tests.bench.report.sample."""
    assert sample.golden()[file].encode() == (sample.GOLDEN / file).read_bytes()


def faults(text: str) -> list[str]:
    """What a LaTeX compiler would refuse."""
    found, columns = [], 0
    braces = re.sub(r"\\\\|\\[{}]", "", text)
    found += ["braces"] if braces.count("{") != braces.count("}") else []
    found += [f"character {c!r}" for c in sorted(set(text)) if ord(c) > 0xFF]
    body = re.sub(r"\\label\{.*?\}|^%.*", "", text)
    found += [f"unescaped {c}" for c in "#%_~" if re.search(rf"(?<!\\)\{c}", body)]
    found += ["dollar signs"] if len(re.findall(r"(?<!\\)\$", body)) % 2 else []
    for line in text.splitlines():
        if told := re.match(r"\\begin\{tabular\}\{(.+)\}$", line):
            columns = len(told[1])
        if line.endswith(r"\\") and not line.startswith(r"\begin"):
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            cells = len(re.findall(r"(?<!\\)&", line)) + 1 + sum(spans) - len(spans)
            found += [f"{cells} cells, {columns} columns: {line[:60]}"] if cells != columns else []
    return found


def test_every_table_of_the_suite_is_well_formed() -> None:
    assert len(everything()) >= 9
    found = {table.key: faults(latex(table)) for table in everything()}
    assert {key: wrong for key, wrong in found.items() if wrong} == {}
    for table in everything():
        for block in markdown(table).split("\n\n"):
            lines = [line for line in block.splitlines() if line.startswith("|")]
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) <= 1, table.key


def test_a_wide_table_is_cut_and_keeps_its_number() -> None:
    text = latex(next(table for table in everything() if table.key == "pfeddst/table2"))
    assert text.count(r"\begin{table*}") > 1
    assert text.count(r"\addtocounter{table}{-1}") == text.count(r"\begin{table*}") - 1
    assert text.count(r"\label{") == 1


def test_toy_runs_say_digits_and_stand_beside_no_reported_number() -> None:
    table = sample.small_table(sample.SmallEvidence("smoke"))
    text = markdown(table)
    assert "## digits (for CIFAR-10)" in text
    assert "81.97" not in text
    assert "81.97" not in as_csv(frame(sheet_of(table, {}).numbers))
    assert "81.97" in markdown(sample.small_table())


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_all_tables_compile(tmp_path: Path) -> None:
    body = "\n\\clearpage\n".join(latex(table) for table in everything())
    (tmp_path / "all.tex").write_text(CLASS % body, "utf-8")
    asked = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    told = subprocess.run(asked, cwd=tmp_path, capture_output=True, check=False)
    assert told.returncode == 0, told.stdout.decode("latin-1")[-1500:]
