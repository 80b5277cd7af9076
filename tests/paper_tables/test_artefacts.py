"""What all artefacts of all papers keep, from invented evidence: everything printed is shown once,
and what is missing says so.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd
import pytest

from repfl.bench.grid.grid import printed, read
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.run import cost
from repfl.paper_tables.core.drawing.figure_style import new_canvas, style
from repfl.paper_tables.core.result import Absent, Claim, Figure, Result, State, Table
from tests.paper_tables.papers import PAPERS
from tests.paper_tables.planned import Paper, as_table, planned

SCALES = ("smoke", "desk", "paper")
NO_RUNS = {("fedobp", "table1"), ("fedobp", "table2")}
"""Tables with numbers that are there without a result."""
CLOSED = NO_RUNS | {("fedpurin", "table3"), ("star-pfl", "table3")}
"""Tables with numbers that follow from sizes at every scale."""


def runs_of(column: str) -> str:
    """The column of the grid that a table's quantity is read off."""
    return column.partition("/")[0]


class Seed(NamedTuple):
    """A run of a table that may change or fail, and how many of its cell are left without it."""

    table: str
    row: str
    column: str
    seed: int
    left: int

    def of(self, item: Planned) -> bool:
        own = (self.row, runs_of(self.column), self.seed)
        return (item.row, item.column, item.cell.seed) == own


class Expected(NamedTuple):
    """What is known of a paper."""

    numbers: int
    """Lines of its published files."""
    absent: str
    """Artefacts that are nothing without a result."""
    one: Seed
    smoke: tuple[int, int]
    """Cells, and clients of a cell, at the smoke scale, at most."""


EXPECTED = {
    "fedobp": Expected(
        32 + 32 + 104 + 104 + 32 + 72 + 449 + 10 + 176 + 24,
        "fig6",
        Seed("table3", "APFL", "cifar10-dir0.1", 42, left=3),
        smoke=(140, 10),
    ),
    "fedpurin": Expected(
        63 + 36 + 27 + 5,
        "fig5 fig6",
        Seed("table1", "pFedSD", "cifar10-dir0.5", 1, left=2),
        smoke=(140, 8),
    ),
    "fedselect": Expected(
        40 + 16 + 32 + 9 + 180, "", Seed("table1", "Ditto", "mini", 1, left=2), smoke=(185, 10)
    ),
    "pfeddst": Expected(
        18, "fig2", Seed("table2", "Dis-PFL", "cifar100/last", 1, left=2), smoke=(60, 12)
    ),
    "star-pfl": Expected(
        36 + 36 + 3, "fig1 fig2", Seed("table2", "FedBN", "axial-dir1", 1, left=2), smoke=(60, 20)
    ),
}
NAMES = [(paper.name, name) for paper in PAPERS.values() for name in paper.artefacts]
FIGURES = [(paper, name) for paper, name in NAMES if name.startswith("fig")]
JUDGED = [place for place in NAMES if place not in {*FIGURES, *CLOSED}]
of_papers = pytest.mark.parametrize("paper", PAPERS.values(), ids=str)


def reasons(result: Result) -> list[str]:
    return [str(reason) for reason in result.frame["reason"]] if isinstance(result, Table) else []


def draw(figure: Figure) -> Any:
    with style():
        return figure.draw(new_canvas)


def test_these_are_all_papers_that_print_numbers() -> None:
    assert list(EXPECTED) == list(PAPERS)
    assert set(PAPERS) == set(printed())


@of_papers
def test_the_grid_and_the_functions_name_the_same_artefacts(paper: Paper) -> None:
    there = set(read(paper.folder / "grid.toml").file.artefacts)
    for scale in SCALES:
        assert (
            {item.artefact for item in planned(paper.name, scale)} == set(paper.artefacts) == there
        )


@pytest.mark.parametrize("scale", ["desk", "paper"])
@of_papers
def test_every_published_number_stands_in_exactly_one_place(paper: Paper, scale: str) -> None:
    results = paper.all(scale)
    frames = [r.frame for r in results if isinstance(r, Table)]
    frames += [r.data for r in results if isinstance(r, Figure) and "source" in r.data]
    shown = [source for frame in frames for source in frame["source"] if source]
    claimed = [source for r in results for claim in r.claims for source in claim.sources]
    expected = [
        f"{path.name}:{line}"
        for path in (paper.folder / "published").glob("*.csv")
        for line in range(2, 2 + len(pd.read_csv(path)))
    ]
    assert Counter(shown + claimed) == Counter(expected)
    assert len(expected) == EXPECTED[paper.name].numbers


@pytest.mark.parametrize("scale", ["smoke", "paper"])
@pytest.mark.parametrize(("paper", "name"), FIGURES)
def test_every_figure_draws_what_its_frame_has(paper: str, name: str, scale: str) -> None:
    figure = PAPERS[paper].make(name, scale)
    assert isinstance(figure, Figure)
    assert figure.key == f"{paper}/{name}"
    assert figure.ids
    assert len(figure.data)
    kinds = ("lines", "patches", "images", "collections")
    drawn = draw(figure).axes
    assert all(any(len(getattr(axes, kind)) for kind in kinds) for axes in drawn)
    if {"label", "round", "mean"} <= set(figure.data):
        curves = figure.data.dropna(subset=["round", "mean"])
        shown = {
            point for axes in drawn for line in axes.lines for point in rounded(*line.get_data())
        }
        assert rounded(curves["round"], curves["mean"]) <= shown


BESIDE_REPORTED = [
    *[("fedpurin", name) for name in ("fig3", "fig4")],
    ("fedselect", "fig2"),
    *[("pfeddst", name) for name in ("fig3", "fig4")],
]


@pytest.mark.parametrize(("paper", "name"), BESIDE_REPORTED)
def test_reported_values_stand_beside_curves_of_full_runs_alone(paper: str, name: str) -> None:
    named = {}
    for scale in ("desk", "paper"):
        figure = PAPERS[paper].make(name, scale)
        assert isinstance(figure, Figure)
        texts = [text for legend in draw(figure).legends for text in legend.get_texts()]
        named[scale] = {text.get_text() for text in texts}
        assert figure.findings[0].startswith("Highest after the last round")
    assert "reported" in named["paper"]
    assert "reported" not in named["desk"]


def rounded(x: Iterable[float], y: Iterable[float]) -> set[tuple[float, float]]:
    """Points, to what arithmetic leaves of them."""
    return {(round(float(a), 6), round(float(b), 6)) for a, b in zip(x, y, strict=True)}


of_scales = pytest.mark.parametrize("scale", ["smoke", "desk"])


@pytest.mark.parametrize(("paper", "name"), NAMES)
def test_an_artefact_without_a_single_result_says_why(paper: str, name: str) -> None:
    found = PAPERS[paper].make(name, fails=lambda item: True)
    said = " ".join((found.caption, *found.notes, *reasons(found)))
    needs_none = {("fedobp", "table1"), ("fedobp", "fig-finetuned")}
    assert "out of memory" in said or (paper, name) in needs_none
    assert isinstance(found, Absent) == (name in EXPECTED[paper].absent.split())
    if isinstance(found, Table) and (paper, name) not in NO_RUNS:
        assert set(found.frame["verdict"].dropna()) == {"not measured"}
        # claims on printed numbers and on equations need no result
        held = [claim for claim in found.claims if claim.state == State.HOLDS]
        assert not any(claim.seeds and not claim.ours for claim in held)
    if isinstance(found, Figure):
        draw(found)


def moved(before: Table, after: Table) -> pd.DataFrame:
    """The cells of a table that have another value than before."""
    old, new = before.frame["ours"], after.frame["ours"]
    return after.frame[(old != new) & new.notna()]


@of_papers
def test_a_changed_record_changes_exactly_the_cells_that_depend_on_it(paper: Paper) -> None:
    one = EXPECTED[paper.name].one
    given = paper.evidence(one.table, "paper")
    items = [item for item in planned(paper.name, "paper") if item.artefact == one.table]
    (cell,) = (item.cell.id for item in items if one.of(item))
    given.cells.loc[given.cells["id"] == cell, "accuracy"] += 0.01
    changed = moved(paper.table(one.table, "paper"), as_table(paper.artefacts[one.table](given)))
    assert list(zip(changed["row"], changed["column"], strict=True)) == [(one.row, one.column)]


@of_papers
def test_a_failed_seed_shows_with_its_reason_and_the_others_count(paper: Paper) -> None:
    one = EXPECTED[paper.name].one
    after = paper.table(one.table, "paper", one.of)
    cell = after.cell(one.row, one.column)
    assert cell is not None
    assert cell["seeds"] == one.left
    changed = moved(paper.table(one.table, "paper"), after)
    assert (one.row, one.column) in set(zip(changed["row"], changed["column"], strict=True))
    assert {row.partition(",")[0] for row in changed["row"]} == {one.row}
    assert set(map(runs_of, changed["column"])) == {runs_of(one.column)}
    assert set(changed["reason"]) == {f"failed (seed {one.seed}): out of memory"}


@of_scales
@pytest.mark.parametrize(("paper", "name"), JUDGED)
def test_smaller_scales_are_never_called_a_match(paper: str, name: str, scale: str) -> None:
    found = set(PAPERS[paper].table(name, scale).frame["verdict"].dropna())
    logged = (paper, name) in (("fedobp", "table3"), ("fedobp", "table4"))  # some rows are not run
    at_smoke = scale == "smoke" and not logged
    assert found <= ({"not comparable"} if at_smoke else {"not comparable", "not measured"})
    assert "not comparable" in found


@of_papers
def test_a_method_that_somebody_adds_gets_a_row_and_competes(paper: Paper) -> None:
    one = EXPECTED[paper.name].one
    given = paper.evidence(one.table)
    added = given.cells[given.cells["row"] == one.row].assign(row="mine", guest="mine")
    given.cells = pd.concat([given.cells, added], ignore_index=True)
    layout = as_table(paper.artefacts[one.table](given)).layout
    assert "mine" in layout.rows
    assert "mine" not in layout.aside


def verdicts(result: Result) -> set[str]:
    numbers = getattr(result, "frame", getattr(result, "data", {}))
    return set(numbers["verdict"].dropna()) if "verdict" in numbers else set()


@of_papers
def test_at_the_paper_s_scale_every_printed_number_has_one_of_ours_beside(paper: Paper) -> None:
    for result in paper.all("paper"):
        assert "not measured" not in verdicts(result), result.name


# -- claims ----------------------------------------------------------------------------------------


def claims(paper: Paper, scale: str) -> dict[str, Claim]:
    found = [claim for result in paper.all(scale) for claim in result.claims]
    assert len({claim.id for claim in found}) == len(found)
    return {claim.id: claim for claim in found}


@of_scales
@of_papers
def test_below_the_paper_s_scale_only_what_is_free_of_scale_is_judged(
    paper: Paper, scale: str
) -> None:
    found = claims(paper, scale)
    assert list(found) == list(claims(paper, "paper"))
    for claim in found.values():
        assert claim.scale == scale
        assert claim.place, claim.id
        if claim.state in (State.HOLDS, State.FAILS):
            assert claim.difference != claim.difference, claim.id  # it is no contrast of runs


QUOTED = {"eight-compared", "epochs-on-axis", "margin-emnist-0.1", "quoted-cifar10"}
IN_PRINT: dict[str, tuple[int, set[str]]] = {
    "fedobp": (33, QUOTED | {"quoted-globalnorm"}),
    "fedpurin": (15, set()),
    "fedselect": (13, {"ablations-worse-0.50", "lattice-table3"}),
    "pfeddst": (0, set()),
    "star-pfl": (8, set()),
}
"""How many claims hold in their paper's own numbers, and which do not."""
OWN = {"sweeps-met", "organs-measure-learning", "rows-repeated", "close-on-fashion"}


@of_papers
def test_claims_that_their_paper_s_own_numbers_contradict_are_these(paper: Paper) -> None:
    said = {name: claim.printed for name, claim in claims(paper, "paper").items()}
    held = sum(each is True for each in said.values())
    assert (held, {name for name, each in said.items() if each is False}) == IN_PRINT[paper.name]


def test_what_no_paper_states_is_a_check_of_ours() -> None:
    every_one = [claim for paper in PAPERS.values() for claim in claims(paper, "paper").values()]
    assert {claim.id for claim in every_one if claim.ours} >= OWN


@of_papers
def test_every_cell_that_a_sentence_names_is_in_its_table(paper: Paper) -> None:
    paper.all("paper")
    for sentence, cells in paper.judged:
        named = {c for group in sentence.groups for one in group for c in one.weights}
        assert named, sentence.id
        assert named <= cells, sentence.id
    content = tomllib.loads((paper.folder / "claims.toml").read_text(encoding="utf-8"))
    judged = {sentence.id for sentence, _ in paper.judged}
    assert judged == {entry["id"] for entry in content["claim"]}


# -- the grid --------------------------------------------------------------------------------------


@of_papers
def test_smoke_needs_no_data_and_stays_small(paper: Paper) -> None:
    items = unique(planned(paper.name, "smoke"))
    cells, clients = EXPECTED[paper.name].smoke
    assert {item.cell.recipe.dataset for item in items} == {"digits"}
    assert len(items) <= cells
    assert max(item.cell.recipe.clients for item in items) <= clients
    assert max(item.cell.rounds for item in items) <= 8


@of_papers
def test_the_desk_scale_takes_six_hours_on_two_cores_at_most(paper: Paper) -> None:
    items = unique(planned(paper.name, "desk"))
    assert sum(map(cost.static, items)) <= 2 * 6 * 3600
