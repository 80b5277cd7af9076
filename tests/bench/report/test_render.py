"""Numbers as readers see them, sheets, the first screen and the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from repfl.bench.report import numbers, overview, render
from repfl.bench.report.address import addressed, slug
from repfl.bench.report.filling import sheet_of
from repfl.bench.report.sheet import Sheet as Told
from repfl.bench.report.sheet import as_json
from repfl.bench.report.text import FEW, show
from repfl.paper_tables.core import ranking, seeds, tables
from repfl.paper_tables.core.result import Absent, Claim, Figure, Sheet, Table
from repfl.paper_tables.core.seeds import OfSeed
from tests.bench.report import sample


def of_other_seeds() -> Table:
    """One column, in which a row has five seeds and the other their first, where it leads."""
    table = sample.small_table()
    frame = table.frame[table.frame["column"] == "easy"].iloc[:2]
    more = tuple(OfSeed(seed, 50.0 + seed, 60.0 + seed) for seed in range(1, 6))
    less = (OfSeed(1, 52.0, 61.0),)
    frame = frame.assign(by_seed=[more, less], ours=[53.0, 52.0], floor=[63.0, 61.0])
    return replace(table, frame=frame)


@pytest.mark.parametrize("alone", [False, True])
def test_rows_of_different_seeds_are_not_ranked(alone: bool) -> None:
    found = of_other_seeds()
    assert numbers.marks(found, "ours", alone=alone) == {}
    assert set(numbers.marks(found, "published", alone=alone).values()) == {"best", "second"}
    first = replace(found, frame=found.frame.assign(by_seed=[(OfSeed(1, 51.0),)] * 2))
    assert "best" in numbers.marks(first, "ours", alone=alone).values()


def test_a_column_s_floor_is_that_of_the_seeds_which_all_rows_have_and_says_so() -> None:
    found = of_other_seeds()
    assert numbers.floors(found) == {"easy": 61.0}
    said = "rows have different seeds, which may deal different clients, and are not ranked"
    (remark,) = (each for each in tables.remarks(found.frame, found.layout.columns) if said in each)
    assert remark.endswith("the floor is that of seed 1, which all have")


def test_orders_are_compared_over_the_seeds_that_all_rows_have() -> None:
    found = of_other_seeds()
    (order,) = ranking.orderings(found.frame, found.layout.columns[:1])
    assert order.winners == (found.frame["row"].iloc[1],)
    assert list(seeds.paired(found.frame)["ours"]) == [51.0, 52.0]


def test_best_and_second_share_ties_at_the_printed_precision() -> None:
    table = sample.small_table(
        sample.SmallEvidence(
            found={**sample.FOUND, ("FedAvg", "easy"): sample.FOUND["Ours & co_", "easy"]}
        )
    )
    marks = numbers.marks(table, "ours")
    assert {
        row for (row, column), mark in marks.items() if column == "easy" and mark == "best"
    } == {"FedAvg", "Ours & co_"}
    assert marks["Separate", "easy"] == "second"
    assert all(row != "Ours, dense" for row, _ in marks)


@pytest.mark.parametrize(
    ("value", "said"),
    [(1.005, "1.00"), (-0.001, "0.00"), (-1.5, "−1.50"), (float("nan"), "–"), (float("inf"), "–")],
)
def test_numbers_read_well(value: float, said: str) -> None:
    assert numbers.plain(value) == said


@pytest.mark.parametrize("error", [ValueError, RuntimeError, AttributeError])
def test_what_cannot_be_drawn_is_said_and_the_rest_is_written(
    tmp_path: Path, error: type[Exception]
) -> None:
    def broken(sheet: Sheet) -> object:
        raise error("no such colour\nin any palette")

    bad = Figure("paper-a", "fig9", "Figure 9", "", "smoke", draw=broken)  # type: ignore[arg-type]
    folder = tmp_path / "paper-a"
    folder.mkdir()
    (folder / "fig9.png").write_text("what an earlier report drew")
    shown, files, failed = render.write([bad, sample.small_table()], tmp_path)
    why = f"{error.__name__}: no such colour in any palette"
    assert failed == {"paper-a/fig9": why}
    assert isinstance(shown[0], Absent)
    assert f"Could not be rendered ({why})" in shown[0].caption
    assert files["paper-a/fig9"] == []
    assert {path.name for path in folder.iterdir()} == {
        f"table1.{end}" for end in ("csv", "md", "tex")
    }


def sheets() -> list[Told]:
    """The sample as sheets, read back from the text that a cache would hold."""
    made = [sheet_of(result, {}) for result in sample.results()]
    return [as_json().validate_json(as_json().dump_json(each)) for each in made]


def test_a_sheet_comes_back_from_its_text_as_it_was() -> None:
    assert sheets() == [sheet_of(result, {}) for result in sample.results()]


def test_addresses_are_readable_and_each_stands_once() -> None:
    assert [slug(text) for text in ("α = 0.1", "FedCAC ↑", "w/o BN", "?")] == [
        "alpha-0.1", "fedcac-up", "w-o-bn", "x",
    ]  # fmt: skip
    assert addressed(["a", "b", "a"]) == ["a", "b", "a-2"]
    ids = [number.id for number in sheets()[0].numbers]
    assert len(set(ids)) == len(ids) == 12
    assert ids[0] == "separate.easy"


@pytest.mark.parametrize("width", [60, 100, 200])
def test_terminal_tables_keep_all_numbers(width: int) -> None:
    console = Console(width=width, record=True, file=None, force_terminal=False, quiet=False)
    with console.capture() as captured:
        show(sheets(), console)
    text = captured.get()
    for piece in (
        "84.15 ± 1.77 | 85.00 ± 1.00 (3)",
        "54.23 | 57.00 ± 1.00 (3)",
        "majority class",
        "not measured",
        "No cell is done",
    ):
        assert piece in text


def test_the_terminal_gets_a_line_for_each_of_many_artefacts() -> None:
    many = [replace(each, files=(f"{each.key}.md",)) for each in (*sheets(), *sheets())]
    assert len(many) > FEW
    console = Console(width=140)
    with console.capture() as captured:
        show(many, console)
    lines = captured.get().splitlines()
    (line, _) = [line for line in lines if line.startswith("paper-a/table1")]
    assert line.split()[:6] == ["paper-a/table1", "9", "1", "7", "1", "1/3"]
    assert "paper-a/table1.md" in line
    assert len(lines) < 2 * len(many) + 15
    assert "81.97" not in captured.get()


def test_numbers_are_written_alike_whatever_a_table_was_joined_from() -> None:
    table = sample.small_table()
    joined = replace(table, frame=table.frame.astype(object))
    assert render.csv(joined) == render.csv(table)


def test_what_a_paper_s_words_are_is_quoted_and_what_are_ours_is_not() -> None:
    said = "Bytes fall by 46 %"
    claim = Claim("bytes", said, None, "none", "desk", sources=("text.csv:2",))
    note = "“at least”, from “reducing overhead by 46% to 73%”"
    made = replace(sample.small_table(), claims=(claim,))
    (found,) = sheet_of(made, {"text.csv:2": {"note": note}}).claims
    assert found.verbatim == ("reducing overhead by 46% to 73%",)


# -- the first screen ------------------------------------------------------------------------------


def test_summaries_count_verdicts_and_claims() -> None:
    first, second = overview.summaries(sheets(), {"paper-a": {"title": "A paper"}})
    assert (first.title, len(first.sheets), first.published) == ("A paper", 2, 9)
    assert {name: n for name, n in first.verdicts.items() if n} == {
        "differs": 1, "undecided": 7, "not measured": 1,
    }  # fmt: skip
    assert sum(share for _, _, share in first.bar) == pytest.approx(100)
    assert first.standings == "1 holds, 1 does not hold, 1 undecided"
    assert (len(second.numbers), second.published) == (0, 0)


def test_a_sentence_that_its_own_paper_contradicts_needs_no_run() -> None:
    claims = tuple(replace(c, printed=False, found=None) for c in sample.small_table().claims)
    sheet = sheet_of(replace(sample.small_table(), claims=claims), {})
    (found,) = overview.summaries([sheet], {})
    assert found.standings == "3 contradict the paper's own numbers"


@pytest.mark.parametrize(
    ("seeds", "said"),
    [({}, ""), ({"FedAvg": 1}, ", 3 of them with one run"), (1, ", one run each")],
)
def test_the_first_screen_counts_numbers_and_runs(seeds: Any, said: str) -> None:
    sheet = sheets()[0]
    given = dict.fromkeys(sheet.rows, seeds) if seeds == 1 else seeds
    some = tuple(replace(n, seeds=given.get(n.row, 3)) for n in sheet.numbers)
    found = overview.summaries([replace(sheet, numbers=some)], {})
    verdicts = "0 reproduced, 1 differs, 7 undecided"
    assert overview.title(found) == f"4 of 8 re-run numbers lie within one point: {verdicts}"
    assert overview.lead(found) == (
        "This report checks 9 published numbers of 1 paper. 9 need training: 8 were re-run at full"
        f" scale{said}."
    )


def test_every_published_number_is_a_dot_that_leads_to_it() -> None:
    shown = overview.dots(sheets()[0])
    (missing,) = [dot for dot in shown if dot.verdict == "not measured"]
    assert len(shown) == 9
    assert missing.link == "paper-a/table1.html#ours-co.hard"
    assert missing.name == "Ours & co_, CIFAR-10, α = 0.5: reported 71.53 ± 1.29, not measured"
    counted = overview.counts(overview.summaries(sheets(), {}))
    assert (counted["undecided"], counted["differs"], counted["not measured"]) == (7, 1, 1)
