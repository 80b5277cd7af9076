"""Text as LaTeX, and what a style makes of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repfl.bench.report import numbers

TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "<": r"$<$",
    ">": r"$>$",
    "^": r"\^{}",
    "~": r"\~{}",
    "[": "{[}",  # the first of a row would else belong to the line break before it
    "*": "{*}",
    "\n": " ",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "→": r"$\rightarrow$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "λ": r"$\lambda$",
    "τ": r"$\tau$",
    "θ": r"$\theta$",
    "Δ": r"$\Delta$",
    "·": r"$\cdot$",
    "“": "``",
    "”": "''",
    numbers.MINUS: "$-$",
    numbers.BLANK: "--",
    **{mark: f"$^{{{word[0]}}}$" for word, mark in numbers.MARKS.items()},
}
WRAP = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "": "%s"}


def escape(text: str) -> str:
    """Plain text for LaTeX."""
    return re.sub("|".join(map(re.escape, TEX)), lambda m: TEX[m.group()], text)


@dataclass(frozen=True)
class Row:
    """A row of the table: a label, and one or more lines of texts, by column."""

    lines: tuple[tuple[str, Mapping[str, str]], ...]
    rule: bool = False
    """Whether a rule stands above it."""
    foot: bool = False
    """Whether it only goes with what stands above."""


@dataclass(frozen=True)
class Look:
    """What a style makes of a table."""

    rows: Sequence[Row]
    kinds: Mapping[str, str]
    """The LaTeX type of every column."""
    notes: Sequence[str]
    packages: str
    caption: str
