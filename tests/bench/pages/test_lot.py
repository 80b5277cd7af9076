"""An audit's lot draws statements, and the same ones for the same seed."""

from __future__ import annotations

from repfl.bench.pages import coverage, lot, results

PAGE = """# A heading that is long enough to be a statement, and is none

<!-- excerpt
table = "table1"
-->
| quoted from the values by a command, and no statement | 1 |
<!-- end of excerpt -->
The first statement of this page stands here,
on two lines. And the second one follows it on the same line.

| # | what is said | where it is seen |
|---|---|---|
| 1 | a row of a table is one statement as well | table1 |

```
nothing in a block of code is a statement, however long it is.
```
"""


def test_sentences_and_rows_are_statements_with_their_lines() -> None:
    found = list(lot.statements(PAGE))
    assert [line for line, _ in found] == [8, 8, 13]
    assert found[0][1] == "The first statement of this page stands here, on two lines."
    assert found[2][1].startswith("| 1 | a row")


def test_a_seed_draws_the_same_statements_again() -> None:
    assert lot.draw(20, 1) == lot.draw(20, 1) != lot.draw(20, 2)
    drawn = {page for page, _, _ in lot.draw(100, 17)}
    assert drawn >= {results.PAGE, *(coverage.page_of(paper) for paper in coverage.documented())}
