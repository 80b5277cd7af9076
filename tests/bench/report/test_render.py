"""Files of the report: byte for byte, and only what depends on a record moves with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from repfl.bench.report import latex, numbers, render
from repfl.bench.report.address import addressed, slug
from repfl.bench.report.filling import sheet_of
from repfl.bench.report.overview import counts, dots, summaries, whole
from repfl.bench.report.sheet import Sheet as Told
from repfl.bench.report.sheet import as_json
from repfl.bench.report.text import FEW, show
from repfl.paper_tables.core import ranking, seeds, tables
from repfl.paper_tables.core.result import Absent, Claim, Figure, Sheet, Table
from repfl.paper_tables.core.seeds import OfSeed
from tests.bench.report import sample


@pytest.mark.parametrize(
    "file", ["table1.csv", "table1.md", "table1.tex", "table1-paper.tex", "fig1.csv"]
)
def test_fixed_evidence_gives_the_golden_bytes(file: str) -> None:
    """If a change is meant: python -m tests.bench.report.sample."""
    assert sample.golden()[file].encode() == (sample.GOLDEN / file).read_bytes()


@pytest.mark.parametrize("form", [render.csv, render.markdown, latex.latex])
def test_a_changed_record_changes_only_the_lines_of_its_row(form: Callable[[Table], str]) -> None:
    moved = sample.FOUND | {("FedAvg", "hard"): (0.69, 0.70, 0.71)}
    before, after = (
        form(sample.small_table(sample.SmallEvidence(found=f))).splitlines()
        for f in (sample.FOUND, moved)
    )
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert changed
    texts = {"csv": 'FedAvg,hard,"CIFAR-10', "markdown": "| FedAvg |", "latex": "FedAvg &"}
    start = texts[form.__name__]
    told = (start, r"\quad difference", r"\quad verdict")
    assert all(line.startswith(told) for pair in changed for line in pair)


def test_latex_has_as_many_cells_in_every_row() -> None:
    rows = [
        line
        for line in latex.latex(sample.small_table()).splitlines()
        if line.endswith(r"\\") and "multicolumn" not in line
    ]
    assert {line.count(" & ") for line in rows} == {3}


def test_markdown_has_as_many_cells_in_every_row() -> None:
    for block in render.markdown(sample.small_table()).split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


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


def test_summaries_count_verdicts_and_claims() -> None:
    first, second = summaries(sheets(), {"paper-a": {"title": "A paper"}})
    assert (first.title, len(first.sheets), first.published) == ("A paper", 2, 9)
    assert (len(first.numbers), first.sentences) == (9, 0)
    assert first.verdicts == {
        "reproduced": 0,
        "differs": 1,
        "undecided": 7,
        "not comparable": 0,
        "not measured": 1,
    }
    assert first.held == (1, 1, 1)
    assert (len(second.numbers), second.published) == (0, 0)


def test_the_first_screen_counts_in_words() -> None:
    open_ = {"paper-a": {"missing": 3, "cells": 27, "seconds": 7200.0}}
    found = summaries(sheets(), {}, open_)
    assert whole(found) == (
        "Here 9 numbers of 1 paper stand beside our own. Of 9 that depend on training, 8 have been"
        " compared at the paper's own scale (1 different, 7 undecided), and 0 were"
        " only measured in a smaller or different setting."
    )
    assert found[0].sentence == (
        "8 of 9 trained numbers were compared at the paper's scale (1 different, 7"
        " undecided). Of 3 claims 1 hold, 1 do not, 1 are open. Still to run: 3 cells, about 2"
        " hours of one processor core."
    )


def test_the_first_screen_says_how_many_verdicts_rest_on_one_run() -> None:
    sheet = sheets()[0]
    some = tuple(replace(n, seeds=1 if n.row == "FedAvg" else 3) for n in sheet.numbers)
    told = whole(summaries([replace(sheet, numbers=some)], {}))
    assert "(1 different, 7 undecided), 3 of them from one run of ours, and" in told
    each = tuple(replace(n, seeds=1) for n in sheet.numbers)
    told = whole(summaries([replace(sheet, numbers=each)], {}))
    assert "7 undecided), each from one run of ours, and" in told


def test_every_printed_number_is_a_dot_that_leads_to_it() -> None:
    shown = dots(sheets()[0])
    assert [dot.outcome for dot in shown].count("unsure") == 7
    assert [dot.outcome for dot in shown].count("off") == 1
    (missing,) = [dot for dot in shown if dot.outcome == "open"]
    assert missing.link == "paper-a/table1.html#ours-co.hard"
    assert missing.name == "Ours & co_, CIFAR-10, α = 0.5: printed 71.53 ± 1.29, not measured"


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


def test_only_the_paper_s_own_words_stand_in_quotation_marks() -> None:
    """A claim is ours to word; the published files keep what the paper has of it."""
    said = "Bytes fall by 46 %"
    claim = Claim("bytes", said, None, "none", "desk", sources=("text.csv:2",))
    note = "“at least”, from “reducing overhead by 46% to 73%”"
    made = replace(sample.small_table(), claims=(claim,))
    (found,) = sheet_of(made, {"text.csv:2": {"note": note}}).claims
    assert found.verbatim == ("reducing overhead by 46% to 73%",)
    assert f"“{said}" not in found.line + render.markdown(made)
    assert "in our words" in render.markdown(made)


def test_the_first_screen_tells_numbers_from_sentences_wherever_it_counts() -> None:
    sheet = sheets()[0]
    held = [replace(claim, holds=True, sources=("text.csv:2",)) for claim in sheet.claims[:2]]
    found = summaries([replace(sheet, claims=tuple(held))], {})
    assert "The other 2 stand in sentences, which are judged as claims; 2 of them come" in whole(
        found
    )
    assert "set up" not in whole(found)
    kept = [replace(held[0], settings=True), held[1]]
    told = whole(summaries([replace(sheet, claims=tuple(kept))], {}))
    assert "2 of them come out again (1 say how runs are set up, and ours are set up so)." in told
    assert counts(found)["again"] == "2 (0 numbers, 2 in sentences)"
    assert counts(found)["unsure"] == "7"
