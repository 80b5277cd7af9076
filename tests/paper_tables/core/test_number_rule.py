"""What counts as a number, in all papers."""

from __future__ import annotations

import pytest

from repfl.bench.grid import grid as grids
from repfl.paper_tables.core import number_rule
from repfl.paper_tables.core.published import read_published
from repfl.paper_tables.core.result import State
from repfl.paper_tables.core.statistics.verdict import Kind


@pytest.mark.parametrize("paper", sorted(grids.files()))
def test_values_of_authors_files_stand_in_files_of_their_own(paper: str) -> None:
    """So that a number's file says whether the paper prints it."""
    frame = read_published(grids.files()[paper].parent / "published").frame
    filed = frame["table"].str.startswith("author ")
    assert [number_rule.is_printed(source) for source in frame["source"]] == list(~filed)


def test_settings_are_no_numbers_whether_in_a_table_or_in_a_sentence() -> None:
    assert [kind for kind in Kind if not number_rule.is_counted(kind)] == [Kind.SETTING]
    assert [state for state in State if not number_rule.is_counted(state)] == [State.SETTING]


def test_numbers_in_print_and_in_files_are_counted_apart() -> None:
    assert number_rule.split(["table3.csv:2", "author_logs.csv:9", "text.csv:4"]) == (2, 1)
