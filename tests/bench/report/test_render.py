"""Numbers as readers see them, sheets, the first screen and the terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from repfl.bench.report import overview
from repfl.bench.report.formats import formatting, render, terminal
from repfl.bench.report.sheet import Sheet as Told
from repfl.bench.report.sheet import sheet_of
from repfl.paper_tables.core import ranking, tables
from repfl.paper_tables.core.result import State, Table
from repfl.paper_tables.core.statistics import seeds
from repfl.paper_tables.core.statistics.seeds import SeedResult
from tests.bench.report import sample


def test_a_figure_carries_its_finding_and_its_source_in_text_of_one_size(tmp_path: Path) -> None:
    """A name with a hyphen and a number with its unit stay on one line."""
    figure = replace(
        sample.small_figure(),
        scale="desk",
        stamp="Reduced run: digits, 1 seed (1)",
        findings=("Lines cross: one has 50 %, one on the data set Fashion-MNIST has 60 %.",),
    )
    render.write([figure], lambda result: sheet_of(result, {}), tmp_path)
    text = (tmp_path / "paper-a" / "fig1.svg").read_text("utf-8")
    for words in ("Lines cross", "Fashion-MNIST", "60\N{NO-BREAK SPACE}%", "Reduced run: digits"):
        assert words in text
    assert "reduced runs" in text
    assert "paper-a/fig1" in text
    head = re.search(r'<svg [^>]*viewBox="0 0 ([\d.]+) ', text)
    width = re.search(r'<svg [^>]* width="(\d+)"', text)
    assert head
    assert width
    assert int(width[1]) == round(render.PIXELS * float(head[1]))


def test_interactive_curves_have_the_names_of_their_columns() -> None:
    assert list(sheet_of(sample.small_figure(), {}).lines) == ["easy"]
    named = sheet_of(sample.small_figure(), {}, panels={"easy": "CIFAR-10, α = 0.1"})
    assert list(named.lines) == ["CIFAR-10, α = 0.1"]


def of_other_seeds() -> Table:
    """One column, in which a row has five seeds and the other their first, where it leads."""
    table = sample.small_table()
    frame = table.frame[table.frame["column"] == "easy"].iloc[:2]
    more = tuple(SeedResult(seed, 50.0 + seed, 60.0 + seed) for seed in range(1, 6))
    less = (SeedResult(1, 52.0, 61.0),)
    frame = frame.assign(by_seed=[more, less], ours=[53.0, 52.0], floor=[63.0, 61.0])
    return replace(table, frame=frame)


def test_rows_of_different_seeds_are_not_ranked() -> None:
    found = of_other_seeds()
    assert formatting.marks(found, "ours") == {}
    assert set(formatting.marks(found, "printed").values()) == {"best", "second"}
    first = replace(found, frame=found.frame.assign(by_seed=[(SeedResult(1, 51.0),)] * 2))
    assert "best" in formatting.marks(first, "ours").values()


def test_floors_and_orders_are_of_the_seeds_that_all_rows_have() -> None:
    found = of_other_seeds()
    assert formatting.floors(found) == {"easy": 61.0}
    remarks = tables.remarks(found.frame, found.layout.columns)
    assert any("the floor is that of seed 1" in each for each in remarks)
    (order,) = ranking.orderings(found.frame, found.layout.columns[:1])
    assert order.ours == (found.frame["row"].iloc[1],)
    assert list(seeds.paired(found.frame)["ours"]) == [51.0, 52.0]


def test_best_and_second_share_ties_at_the_printed_precision() -> None:
    table = sample.small_table(
        sample.SmallEvidence(
            found={**sample.FOUND, ("FedAvg", "easy"): sample.FOUND["Ours & co_", "easy"]}
        )
    )
    marks = formatting.marks(table, "ours")
    assert {
        row for (row, column), mark in marks.items() if column == "easy" and mark == "best"
    } == {"FedAvg", "Ours & co_"}
    assert marks["Separate", "easy"] == "second"
    assert all(row != "Ours, dense" for row, _ in marks)


def sheets() -> list[Told]:
    return [sheet_of(result, {}) for result in sample.results()]


# -- the first screen ------------------------------------------------------------------------------


def test_summaries_count_verdicts_and_claims() -> None:
    first, second = overview.summaries(sheets(), {"paper-a": {"title": "A paper"}})
    assert (first.title, len(first.sheets), first.published) == ("A paper", 2, 9)
    assert {name: n for name, n in first.verdicts.items() if n} == {
        "reproduced": 1, "differs": 1, "undecided": 6, "not measured": 1,
    }  # fmt: skip
    ((origin, total, parts),) = first.bars
    assert (origin, total, first.origins) == (overview.ORIGINS[0], 9, (9, 0))
    assert sum(count for _, _, count in parts) == total
    (tally,) = first.tally
    assert (tally.what, tally.total, tally.single) == ("trained, in print", 9, 0)
    assert {name: n for name, n in tally.verdicts.items() if n} == {
        "reproduced": 1, "differs": 1, "undecided": 6, "not measured": 1,
    }  # fmt: skip
    agree = "(1 agrees with the paper's own numbers)"
    assert (
        first.standing == f"A paper: of 3 claims 1 holds, 1 does not hold, 1 is undecided {agree}."
    )
    undecided = [replace(claim, state=State.OPEN) for _, claim in first.claims]
    none = replace(first, sheets=(replace(first.sheets[0], claims=tuple(undecided)),))
    assert none.standing == f"A paper: nothing is decided yet; of 3 claims 3 are undecided {agree}."
    assert second.standing == ""
    assert (len(second.numbers), second.published) == (0, 0)
    # whatever becomes of log values, the printed numbers keep their own outcome
    table, *_ = sheets()
    numbers = [replace(n, source=f"author_{n.source}") for n in table.numbers if n.source]
    logs = replace(table, numbers=tuple(numbers))
    counts = "1 reproduced, 1 differs, 6 undecided"
    printed = f"8 re-run printed numbers: {counts}"
    assert overview.title(overview.summaries([table], {})) == printed
    both = f"{printed}; 8 re-run values of authors' logs: {counts}"
    assert overview.title(overview.summaries([table, logs], {})) == both


# -- the terminal ----------------------------------------------------------------------------------


def test_verdicts_and_sentences_add_up_to_the_published_numbers() -> None:
    console = Console(width=200, file=StringIO(), markup=False)
    terminal.show(sheets(), console)
    said = console.file.getvalue().partition("Published numbers")[2]  # type: ignore[attr-defined]
    lines = [line.strip("│┃").replace("│", "┃").split("┃") for line in said.splitlines()]
    heads, *rows = [[word.strip() for word in line] for line in lines if len(line) > 2]
    end = heads.index("in sentences") + 1
    counts = [[int(word) if word.isdigit() else 0 for word in row[1:end]] for row in rows]
    assert counts
    assert all(printed + filed == sum(parts) > 0 for printed, filed, *parts in counts)


def test_names_of_rows_are_whole_in_every_block_of_columns() -> None:
    table = sheets()[0]
    long = {name: f"{name}, with a name that is long" for name in table.layout.rows}
    told = replace(
        table,
        layout=replace(table.layout, rows=tuple(long.values())),
        numbers=tuple(replace(each, row=long[each.row]) for each in table.numbers),
    )
    told = replace(told, remarks=(), claims=(), notes=(), findings=())
    for width, blocks in ((80, 3), (104, 3), (138, 2)):
        console = Console(width=width, file=StringIO(), markup=False)
        terminal.show([told], console)
        said = console.file.getvalue().partition("Published numbers")[0]  # type: ignore[attr-defined]
        assert max(map(len, said.splitlines()[2:])) <= width
        assert all(said.count(f"│{name} ") == blocks for name in told.layout.rows[:-1])
        assert all(head.label in said for head in told.layout.columns)
        assert "…" not in said
