"""Files of the report: byte for byte, and only what depends on a record moves with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from repfl.bench.report import numbers, render, write_report
from repfl.bench.report.overview import heat_map, summaries
from repfl.bench.report.text import FEW, show
from repfl.paper_tables.core.result import Absent, Figure, Sheet, Table
from tests.bench.report import sample


@pytest.mark.parametrize("file", ["table1.csv", "table1.md", "table1.tex", "fig1.csv"])
def test_fixed_evidence_gives_the_golden_bytes(file: str) -> None:
    """If a change is meant: python -m tests.bench.report.sample."""
    assert sample.golden()[file].encode() == (sample.GOLDEN / file).read_bytes()


@pytest.mark.parametrize("form", [render.csv, render.markdown, render.latex])
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
    assert all(line.startswith((start, r"\quad difference")) for pair in changed for line in pair)


def test_latex_has_as_many_cells_in_every_row() -> None:
    rows = [
        line
        for line in render.latex(sample.small_table()).splitlines()
        if line.endswith(r"\\") and "multicolumn" not in line
    ]
    assert {line.count(" & ") for line in rows} == {3}


def test_markdown_has_as_many_cells_in_every_row() -> None:
    for block in render.markdown(sample.small_table()).split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


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


def test_the_whole_report_is_the_same_bytes_again(tmp_path: Path) -> None:
    facts = {"commit": "abc", "papers": {"paper-a": {"title": "A paper", "year": 2025}}}
    pages = [
        write_report(
            sample.results(), tmp_path / name, facts, {"paper-a/table1": "repfl reproduce"}
        ).page
        for name in ("a", "b")
    ]
    files = [
        sorted(p.relative_to(page.parent) for p in page.parent.rglob("*") if p.is_file())
        for page in pages
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 1 + 3 + 3
    for file in files[0]:
        assert (pages[0].parent / file).read_bytes() == (pages[1].parent / file).read_bytes(), file


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
    page, failed = write_report([bad, sample.small_table()], tmp_path, {}, {})
    why = f"{error.__name__}: no such colour in any palette"
    assert failed == {"paper-a/fig9": why}
    assert f"Could not be rendered ({why})" in page.read_text("utf-8")
    assert {path.name for path in folder.iterdir()} == {
        f"table1.{end}" for end in ("csv", "md", "tex")
    }


def test_summaries_count_verdicts_and_claims() -> None:
    first, second = summaries(sample.results(), {"paper-a": "A paper"})
    assert (first.title, first.artefacts, first.published) == ("A paper", 2, 9)
    assert (first.tables, first.figures, first.sentences) == (9, 0, 0)
    assert first.verdicts == {
        "equal": 0,
        "reproduced": 0,
        "consistent": 3,
        "inconclusive": 3,
        "differs": 2,
        "not comparable": 0,
        "not measured": 1,
    }
    assert first.kinds["trained accuracy"] == (9, 8)
    assert (
        sum(count for count, _ in first.kinds.values())
        == sum(first.verdicts.values())
        == first.published
    )
    assert (first.holds, first.fails, first.open) == (1, 1, 1)
    assert (second.absent, second.published) == (1, 0)


def test_the_heat_map_averages_over_the_settings_of_a_data_set() -> None:
    heat = heat_map(sample.results())
    assert heat.columns == [("paper-a", "CIFAR-10", "paper"), ("paper-a", "CIFAR-100", "paper")]
    values = {
        method: [None if c is None else round(c.value, 2) for c in cells]
        for method, cells in heat.rows
    }
    assert values["fedavg"] == [77.25, 52.5]
    assert values["local"][0] == pytest.approx((81.73 + 51) / 2, abs=0.01)
    assert isinstance(sample.results()[-1], Absent)


def test_the_heat_map_takes_the_first_of_several_columns_of_one_setting() -> None:
    table = sample.small_table()
    columns = tuple(
        replace(c, key="easy/best") if c.key == "hard" else c for c in table.layout.columns
    )
    frame = table.frame.replace({"column": {"hard": "easy/best"}})
    heat = heat_map([replace(table, frame=frame, layout=replace(table.layout, columns=columns))])
    values = {method: cells[0].value for method, cells in heat.rows if cells[0]}
    assert values["fedavg"] == pytest.approx(85)


@pytest.mark.parametrize("width", [60, 100, 200])
def test_terminal_tables_keep_all_numbers(width: int) -> None:
    console = Console(width=width, record=True, file=None, force_terminal=False, quiet=False)
    with console.capture() as captured:
        show(sample.results(), console)
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
    many = [*sample.results(), *sample.results()]
    assert len(many) > FEW
    console = Console(width=140)
    with console.capture() as captured:
        show(many, console, {"paper-a/table1": "paper-a/table1.md"})
    lines = captured.get().splitlines()
    (line, _) = [line for line in lines if line.startswith("paper-a/table1")]
    assert line.split()[:7] == ["paper-a/table1", "9", "3", "3", "2", "1", "1/3"]
    assert "paper-a/table1.md" in line
    assert len(lines) < 2 * len(many) + 15
    assert "81.97" not in captured.get()


def test_numbers_are_written_alike_whatever_a_table_was_joined_from() -> None:
    table = sample.small_table()
    joined = replace(table, frame=table.frame.astype(object))
    assert render.csv(joined) == render.csv(table)
