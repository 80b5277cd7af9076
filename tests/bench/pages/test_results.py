"""The page of results: from committed measured values and floors, never typed."""

from __future__ import annotations

import re

import pytest

from repfl.bench.grid import grid as grids
from repfl.bench.pages import committed, floors, parts, results
from repfl.bench.report import filling, overview
from repfl.paper_tables.core.published import load
from repfl.paper_tables.core.verdict import Kind


def page() -> str:
    found = parts.read(results.PAGE, "results")
    assert found
    return found


@pytest.mark.parametrize("paper", ["pfeddst", "star-pfl"])
def test_the_page_counts_what_the_tables_say(paper: str) -> None:
    assert all(line in page() for line in results.verdict_lines([paper]))


PAPERS = ["fedpurin", "fedselect", "pfeddst", "star-pfl"]


def rows(lines: list[str]) -> list[list[str]]:
    return [[field.strip() for field in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("paper", PAPERS)
def test_the_counts_of_a_paper_add_up_to_its_published_numbers(paper: str) -> None:
    """Each number of published/ once: in a table, in a figure, or in a sentence; what is printed as
    a dash is no number.
    """
    published = load(grids.files()[paper].parent / "published")
    counted = results.counts(paper)
    numbers = len(published) - int((published["mean"] == "").sum())
    assert sum(each.total() for each in counted.values()) == numbers
    assert "" not in counted[str(Kind.TRAINED)]


def test_the_totals_are_the_sums_of_the_papers() -> None:
    *kinds, (_, whole, _) = rows(results.total_lines(PAPERS))
    lines = rows(results.verdict_lines(PAPERS))
    assert sum(int(count) for _, count, _ in kinds) == int(whole) == sum(int(x[2]) for x in lines)
    for kind, count, judged in kinds:
        of_kind = [line for line in lines if line[1] == kind]
        assert int(count) == sum(int(line[2]) for line in of_kind)
        told = sum(int(field or 0) for line in of_kind for field in line[3:-2])
        assert int(judged or 0) == told


def test_trained_accuracies_without_any_number_of_ours_are_not_told_as_reduced_runs() -> None:
    whole, judged, small, none = map(int, re.findall(r"\d+", results.trained_line(PAPERS)))
    lines = [x for x in rows(results.verdict_lines(PAPERS)) if x[1] == str(Kind.TRAINED)]
    assert small == sum(int(line[-2] or 0) for line in lines)
    assert none == sum(int(line[-1] or 0) for line in lines)
    assert whole == judged + small + none == sum(int(line[2]) for line in lines)
    assert min(small, none) > 0


@pytest.mark.parametrize("paper", ["pfeddst", "star-pfl"])
def test_the_first_screen_of_the_report_counts_what_the_page_counts(paper: str) -> None:
    made = committed.of(paper, "paper")
    (found,) = overview.summaries([filling.sheet_of(each, {}) for each in made], {})
    counted = results.counts(paper)
    assert found.published == sum(each.total() for each in counted.values())
    assert len(found.numbers) == sum(found.verdicts.values())
    assert found.sentences == counted[results.SENTENCE].total()


def test_every_number_is_counted_once_under_its_kind() -> None:
    _, _, *lines = results.verdict_lines(["star-pfl"])
    kinds = [line.split(" | ") for line in lines if "| sentence" not in line]
    found = results.standing(*(committed.of("star-pfl", scale) for scale in ("desk", "paper")))
    assert [line[1] for line in kinds] == ["trained accuracy", "measured cost", "closed form"]
    assert sum(int(line[2]) for line in kinds) == len(found) == 70
    assert all(
        int(line[2]) == sum(int(text.strip(" |") or 0) for text in line[3:]) for line in kinds
    )


def test_a_printed_number_has_the_verdict_of_the_largest_scale_that_measured_it() -> None:
    desk, paper = committed.of("star-pfl", "desk"), committed.of("star-pfl", "paper")
    small, large, both = (
        results.standing(desk),
        results.standing(paper),
        results.standing(desk, paper),
    )
    assert both.keys() == small.keys() == large.keys()
    assert all(
        both[source]
        == (small[source] if large[source].verdict == "not measured" else large[source])
        for source in both
    )
    assert {each.verdict for each in both.values()} > {"reproduced"}


@pytest.mark.slow
def test_the_block_is_up_to_date() -> None:
    assert results.block() in page()


def test_what_a_constant_reaches_is_told_by_column() -> None:
    place = results.PaperColumn("fedobp", "table3", "CIFAR-10, Dir(0.1)", 64.48)
    above = results.PaperColumn("fedobp", "table3", "CIFAR-10, Dir(0.5)", 35.66)
    known = [
        results.Printed(place, "FedAvg", 58.15),
        results.Printed(place, "FedPer", 84.98),
        results.Printed(above, "FedAvg", 63.98),
    ]
    head, _, *lines = results.floor_lines(known, "personal models")
    assert head.startswith("Of 3 printed accuracies of personal models")
    assert ", 1 are not above" in head
    assert lines == ["* FedOBP table3, CIFAR-10, Dir(0.1) (floor 64.48): FedAvg 58.15"]
    (all_above,) = results.floor_lines(known[1:], "one model for all clients")
    assert all_above == (
        "Of 2 printed accuracies of one model for all clients whose floor is known at the paper"
        " scale, all are above it."
    )


def test_columns_whose_seed_nobody_has_stated_have_no_floor() -> None:
    table = committed.table("fedselect", "table1", "paper")
    assert floors.by_recipe("fedselect")["cifar10"] == pytest.approx(55.0)
    assert list(results.printed([table])) == []
