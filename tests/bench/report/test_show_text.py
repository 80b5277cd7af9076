"""`repfl show`: the numbers behind a claim or a published number; and what committed runs
say below the paper's scale.
"""

from __future__ import annotations

from dataclasses import replace

from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import sheet, show_text
from tests.bench.conftest import Here

PAPER, CLAIM = "star-pfl", "accuracy-gain"


def test_a_claim_has_its_numbers_at_both_scales_and_the_command_for_each(here: Here) -> None:
    said = here("show", f"{PAPER}/{CLAIM}")
    assert said.code == 0
    for scale in show_text.SCALES:
        (claim,) = (c for r in show_text.made(PAPER, scale) for c in r.claims if c.id == CLAIM)
        assert claim.why in said.out
        assert f"repfl report --scale {scale} --artefact {PAPER}/" in said.out
    assert here("show", f"{PAPER}/{claim.sources[0]}").out == said.out


def test_a_number_is_re_run_from_its_own_cells_alone(here: Here) -> None:
    said = here("show", "fedpurin/table1.csv:59")
    assert said.code == 0
    paper = said.out.partition("at the paper scale (fedpurin/table1)")[2].partition(" at the ")[0]
    asked = paper.partition("  run: repfl reproduce")[2].split()
    selected = [asked[at + 1] for at, word in enumerate(asked) if word == "--cell"]
    cells = plan(Selection(scale="paper", artefacts=["fedpurin/table1"], cells=selected))
    assert len(selected) == len(cells) == 3
    assert {(item.row, item.column) for item in cells} == {("FedPURIN", "cifar10-dir0.1")}
    # one without cells at a scale names no run of the whole table
    desk = here("show", "fedpurin/table1.csv:8").out.partition("at the desk scale")[2]
    assert "repfl plan --scale desk" in desk
    assert "repfl reproduce" not in desk


def test_an_undecided_number_names_the_planned_runs_that_would_narrow_it() -> None:
    (result,) = show_text.made("fedpurin", "paper", artefact="table1")
    numbers = sheet.sheet_of(result, {}).numbers
    number = next(each for each in numbers if each.source == "table1.csv:59")
    first, *others = show_text._planned_cells(result, number)
    assert len(others) == 2
    undecided = replace(number, verdict="undecided", runs=(first,))
    (line,) = (x for x in show_text._number_lines(result, undecided, "") if "narrow" in x)
    assert line.startswith("  2 more planned runs would narrow it; cost: repfl plan --scale paper")
    options = line.split()
    selected = [options[at + 1] for at, word in enumerate(options) if word == "--cell"]
    assert selected == [cell[:12] for cell in others]
    for settled in (
        replace(undecided, verdict="differs"),
        replace(undecided, runs=(first, *others)),
    ):
        assert "narrow" not in " ".join(show_text._number_lines(result, settled, ""))


def test_an_artefact_lists_its_numbers_with_names_that_work(here: Here) -> None:
    artefact = "fedpurin/table2"
    said = here("show", artefact)
    assert said.code == 0
    line = next(x for x in said.out.splitlines() if ".csv:" in x).split()[0]
    assert here("show", line).out.startswith(f"{line} at the paper scale ({artefact})\n")
    # below its trials, if it has validation data
    said = here("show", "star-pfl/table2").out
    assert said.index("trials are missing") < said.index("star-pfl/table2.csv:2 ")
    assert "star-pfl/first-or-second" in said
