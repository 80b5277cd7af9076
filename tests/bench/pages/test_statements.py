"""`repfl evidence`: the numbers behind a claim or a published number, and one line for a name that
is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from repfl.bench.grid.plan import plan
from repfl.bench.grid.planned import Selection
from repfl.bench.pages import committed, statements
from repfl.paper_tables.core.result import Table
from tests.bench.conftest import Said

PAPER, CLAIM = "star-pfl", "accuracy-gain"
Here = Callable[..., Said]


def test_a_claim_is_told_at_both_scales_with_its_numbers_and_how_to_make_them_again(
    here: Here,
) -> None:
    said = here("evidence", f"{PAPER}/{CLAIM}")
    assert said.code == 0
    for scale in statements.SCALES:
        (result, claim), *others = [
            (result, claim)
            for result in committed.of(PAPER, scale)
            for claim in result.claims
            if claim.id == CLAIM
        ]
        assert not others
        assert (
            f"{PAPER}/{CLAIM} at the {scale} scale ({result.key})\n  {claim.text} (in our words)"
            in said.out
        )
        assert f"repfl report --scale {scale} --artefact {result.key}" in said.out
        assert claim.detail in said.out
        assert f"stated in published/: {claim.sources[0]}" in said.out


def test_a_published_number_of_a_table_is_told_with_its_verdict(here: Here) -> None:
    (table,) = (r for r in committed.of(PAPER, "paper") if r.name == "table3")
    assert isinstance(table, Table)
    cell = table.frame[table.frame["verdict"] == "reproduced"].iloc[0]
    said = here("evidence", f"{PAPER}/{cell['source']}")
    assert said.code == 0
    assert f"{PAPER}/{cell['source']} at the paper scale ({PAPER}/table3)" in said.out
    assert f"{cell['row']}, {cell['column']}: printed {cell['published']:.2f}, ours" in said.out
    assert "equal (closed form): held to the printed digits" in said.out


def test_a_number_that_stands_in_a_sentence_leads_to_its_claim(here: Here) -> None:
    (claim,) = (c for r in committed.of(PAPER, "paper") for c in r.claims if c.id == CLAIM)
    said = here("evidence", f"{PAPER}/{claim.sources[0]}")
    assert said.code == 0
    assert f"{claim.text} (in our words)" in said.out


def test_a_number_is_made_again_from_its_own_cells_alone(here: Here) -> None:
    said = here("evidence", "fedpurin/table1#fedpurin.cifar10-dir0.1")
    assert said.code == 0
    paper = said.out.partition("at the paper scale (fedpurin/table1)")[2].partition(" at the ")[0]
    asked = paper.partition("  anew:  repfl reproduce")[2].split()
    selected = [asked[at + 1] for at, word in enumerate(asked) if word == "--cell"]
    cells = plan(Selection(scale="paper", artefacts=["fedpurin/table1"], cells=selected))
    assert len(selected) == len(cells) == 3
    assert {(item.row, item.column) for item in cells} == {("FedPURIN", "cifar10-dir0.1")}


def test_an_artefact_lists_its_numbers_with_addresses_that_are_taken(here: Here) -> None:
    said = here("evidence", f"{PAPER}/table2")
    assert said.code == 0
    line, anchor, *_ = next(x for x in said.out.splitlines() if "table2.csv:" in x).split()
    shown = here("evidence", anchor.rstrip(":")).out
    assert shown.startswith(f"{line} at the paper scale ({PAPER}/table2)\n")
    assert shown == here("evidence", line).out


def test_a_point_of_a_curve_has_the_address_that_its_page_gives_it(here: Here) -> None:
    said = here("evidence", "fedobp/fig4")
    assert said.code == 0
    line, anchor, *_ = next(x for x in said.out.splitlines() if ".csv:" in x).split()
    assert re.search(r"#i-f-cifar10-.*q-[\d.]+:$", anchor)
    shown = here("evidence", anchor.rstrip(":")).out
    assert shown.startswith(f"{line} at the paper scale (fedobp/fig4)\n")
    assert shown == here("evidence", line).out


def test_an_artefact_without_printed_numbers_lists_its_claims(here: Here) -> None:
    said = here("evidence", "fedobp/fig2")
    assert said.code == 0
    (result,) = (r for r in committed.of("fedobp", "paper") if r.name == "fig2")
    assert result.claims
    for claim in result.claims:
        assert f"\n  fedobp/{claim.id}: {claim.text}" in said.out


def test_the_address_of_a_page_of_the_report_is_taken(here: Here) -> None:
    anchor = "#fedavg.cifar10-dir0.1"
    said = here("evidence", f"fedobp/table3.html{anchor}")
    assert said.code == 0
    assert said.out == here("evidence", f"fedobp/table3{anchor}").out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{PAPER}/accuracy-gian", "unknown claim 'accuracy-gian'; did you mean accuracy-gain"),
        (f"{PAPER}/table2.csv:333", "unknown number 'table2.csv:333'; did you mean table2.csv:33"),
        (f"{PAPER}/tabel2.csv:3", "unknown number 'tabel2.csv:3'; did you mean table2.csv:3"),
        ("starpfl/accuracy-gain", "unknown paper 'starpfl'; did you mean star-pfl"),
        ("table1", "or PAPER/ARTEFACT, such as fedobp/table3, not 'table1'"),
        (f"{PAPER}/table2#fedavgg", "unknown number 'table2#fedavgg'; did you mean table2#"),
        ("Star-PFL/accuracy-gain", "unknown paper 'Star-PFL'; did you mean star-pfl?"),
        (f"{PAPER}/", "evidence is for PAPER/CLAIM, PAPER/FILE:LINE or PAPER/ARTEFACT"),
    ],
)
def test_a_wrong_name_costs_one_line_with_the_nearest_and_code_2(
    here: Here, name: str, words: str
) -> None:
    said = here("evidence", name)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert said.err.count("\n") == 1
