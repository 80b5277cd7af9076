"""Statements of the pages, drawn by lot, for an audit: `python -m repfl.bench.pages.lot 100 17`
draws a hundred with the seed 17.

A statement is a sentence, or a row of a table. Code, generated blocks and headings make none.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from repfl.bench.grid import grid as grids
from repfl.bench.pages import coverage, results

BLOCKS = re.compile(
    r"```.*?```|<!-- (\w+): .*?<!-- end of \1 -->|<!-- excerpt\n.*?<!-- end of excerpt"
    r" -->|<!--.*?-->",
    flags=re.DOTALL,
)
SENTENCE = re.compile(r"(?<=[.!?:])[)*]*\s+(?=[A-Z*\"(\[`])")
SHORTEST = 40
README = grids.ROOT.parent / "README.md"
GUIDE = README.with_name("bench") / "GUIDE.md"


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Line and words of every statement of a page."""
    text = BLOCKS.sub(lambda match: "\n" * match[0].count("\n"), text)
    start, paragraph = 1, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        begins = not line.strip() or re.match(r"\s*(\*|#|\|)", line)
        if begins and paragraph:
            yield from (
                (start, sentence)
                for sentence in SENTENCE.split(paragraph)
                if len(sentence) >= SHORTEST
            )
            paragraph = ""
        if line.startswith("|") and not re.match(r"\|[\s|-]*$", line) and len(line) >= SHORTEST:
            yield number, line
        elif line.strip() and not line.startswith(("#", "|")):
            start, paragraph = (
                (number if not paragraph else start),
                f"{paragraph} {line.strip()}".strip(),
            )


def draw(count: int, seed: int) -> list[tuple[Path, int, str]]:
    """So many statements of README, GUIDE, RESULTS and the papers' pages, in their order."""
    pages = [
        README,
        GUIDE,
        results.PAGE,
        *(coverage.page_of(paper) for paper in coverage.documented()),
    ]
    every = [
        (page, line, words)
        for page in pages
        for line, words in statements(page.read_text(encoding="utf-8"))
    ]
    return [every[place] for place in sorted(random.Random(seed).sample(range(len(every)), count))]


if __name__ == "__main__":
    for page, line, words in draw(*map(int, sys.argv[1:3])):
        print(f"{page.relative_to(README.parent)}:{line}: {words}")
