"""Write every part of the pages that quotes results.

python -m repfl.bench.pages             RESULTS.md and its figure, STATISTICS.md; coverage,
                                        findings and excerpts in every paper's own page, and its
                                        CLAIMS.md
python -m repfl.bench.pages --floors    first compute the floors again, as far as the data are here
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from repfl.bench.errors import INPUT, UserError
from repfl.bench.grid import grid as grids
from repfl.bench.pages import (
    claims,
    coverage,
    excerpts,
    findings,
    floors,
    parts,
    results,
    statistics,
)


def main(arguments: Sequence[str]) -> None:
    """Write them all."""
    if strange := set(arguments) - {"--floors"}:
        raise UserError(
            "python -m repfl.bench.pages takes --floors and nothing else, not"
            f" {', '.join(sorted(strange))}"
        )
    if arguments:
        floors.keep()
    parts.write(results.PAGE, "results", results.block())
    results.draw(results.FIGURE)
    parts.write(statistics.PAGE, "operating", statistics.block())
    statistics.draw(statistics.FIGURE)
    for paper in coverage.documented():
        page = coverage.page_of(paper)
        parts.write(page, "coverage", coverage.block(paper))
        parts.write(page, "findings", findings.block(paper))
        excerpts.write(page, paper)
        if paper in grids.printed():
            claims.page_of(paper).write_text(claims.page(paper), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(INPUT)
