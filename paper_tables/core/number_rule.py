"""What counts as a number, for all papers: one rule for reports, pages and tests.

* A number is a result that a paper prints in a table or states in a sentence, once for every place
  where it stands.
* A value of its authors' files, such as a log, stands in no paper and is counted apart. Its csv is
  called `author_*.csv`.
* A setting says how runs are set up. It is no number, wherever it stands.
* A curve is drawn, not printed. It is counted as a curve.
"""

from __future__ import annotations

from collections.abc import Iterable

AUTHOR_FILES = "author_"
SETTING = "setting"
"""The kind of such a value in a table, and the state of a claim about some."""


def is_counted(kind_or_state: str) -> bool:
    """Return whether published values of this kind, or of claims in this state, are numbers."""
    return kind_or_state != SETTING


def is_printed(source: str) -> bool:
    """Return whether a number, by its file and line, stands in the paper itself."""
    return not source.startswith(AUTHOR_FILES)


def split(sources: Iterable[str]) -> tuple[int, int]:
    """Count numbers: those that are printed, and those of the authors' files."""
    printed = [is_printed(source) for source in sources]
    return sum(printed), len(printed) - sum(printed)
