"""Claims of papers: their states, the sentences of `claims.toml`, and those that are code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from repfl.paper_tables.core.claims import sentences
from repfl.paper_tables.core.claims.sentences import (
    Proposition,
    Sentence,
    all_met,
    judge_propositions,
    runs_of,
)
from repfl.paper_tables.core.claims.shared_claims import smoothest
from repfl.paper_tables.core.errors import PaperError
from repfl.paper_tables.core.result import Claim, State, claim
from repfl.paper_tables.core.statistics.seeds import SeedResult


def test_a_line_says_what_holds_in_print_and_which_comparison_is_the_least_favourable() -> None:
    groups = sentences._groups(
        {"rows": ["Ours"], "over": ["A", "B"], "columns": ["c"]}, "more_than", 0.0, {}
    )
    runs = pd.DataFrame(
        [("Ours", "c", 1, 50.0), ("A", "c", 1, 49.0), ("B", "c", 1, 52.5)],
        columns=["row", "column", "seed", "value"],
    )
    cells = {("Ours", "c"): 60.0, ("A", "c"): 59.0, ("B", "c"): 58.0}
    open_ = sentences.judge(Sentence("id", "Ours is best", groups), runs, "paper", cells)
    assert open_.line.count("own numbers") == 1
    assert "In the paper's own numbers it holds" in open_.line
    assert "1 of 2 comparisons" in open_.why
    assert "Ours minus B, c: −2.50" in open_.why
    refuted = sentences.judge(
        Sentence("id", "Ours is best", groups), runs, "paper", cells | {("B", "c"): 61.0}
    )
    assert refuted.state == State.CONTRADICTED
    assert refuted.in_print == ""


@pytest.mark.parametrize("answer", [True, False, None])
def test_runs_decide_at_the_paper_s_scale_from_three_seeds_on(answer: bool | None) -> None:
    decided = {True: State.HOLDS, False: State.FAILS, None: State.OPEN}[answer]

    def at(scale: str, **basis: Any) -> State:
        return claim("id", "words", answer, "numbers", scale, **basis).state

    assert at("paper", seeds=3) == at("paper", any_run=True) == at("desk", exact=True) == decided
    assert at("paper", seeds=2) == at("desk", seeds=5) == at("desk", any_run=True) == State.OPEN


def test_what_the_paper_s_own_numbers_contradict_needs_no_run() -> None:
    assert claim("id", "words", None, "", "desk", printed=False).state == State.CONTRADICTED
    assert claim("id", "words", None, "", "desk", printed=False, ours=True).state == State.OPEN
    assert claim("id", "words", None, "", "desk", printed=True).state == State.OPEN


# -- claims.toml -----------------------------------------------------------------------------------

FILE = """
[names]
others = ["b", "z"]
both = ["c", "d"]
[[claim]]
id = "one"
artefact = "table1"
place = "4.2"
text = "a lies above the others"
"""
PUBLISHED = pd.DataFrame({"metric": ["margin"], "value": [0.5], "source": ["text.csv:2"]})


def read(tmp_path: Path, lines: str) -> Sentence:
    (tmp_path / "claims.toml").write_text(FILE + lines, encoding="utf-8")
    sentences._file.cache_clear()
    (found,) = sentences.sentences(tmp_path, "table1", PUBLISHED)
    return found


def test_rows_rivals_and_columns_are_multiplied_out(tmp_path: Path) -> None:
    found = read(tmp_path, 'rows = ["a"]\nover = "others"\ncolumns = "both"\nleast = 3')
    (group,) = found.groups
    assert [dict(each.weights) for each in group] == [
        {("a", column): 1.0, (row, column): -1.0} for row in "bz" for column in "cd"
    ]
    assert (found.least, found.place) == (3, "4.2")
    by_column = read(tmp_path, 'rows = ["a"]\nover = "others"\ncolumns = "both"\neach = "column"')
    assert [len(group) for group in by_column.groups] == [2, 2]


def test_lists_are_means_and_tables_are_weights(tmp_path: Path) -> None:
    found = read(tmp_path, 'rows = [["others"]]\nover = ["a"]\ncolumns = [{ d = 1, c = -1 }]')
    ((contrast,),) = found.groups
    assert contrast.weights == {
        ("b", "d"): 0.5, ("b", "c"): -0.5,
        ("z", "d"): 0.5, ("z", "c"): -0.5,
        ("a", "d"): -1.0, ("a", "c"): 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "said"), [((3.0, 2.5, 1.0), True), ((3.0, 2.6, 1.0), False), ((3.0, 1, 1), False)]
)
def test_the_smallest_lead_is_a_published_number(
    tmp_path: Path, printed: tuple[float, ...], said: bool
) -> None:
    bound = 'smallest = { metric = "margin" }\nrounding = 0.001'
    found = read(tmp_path, f'rows = ["a"]\nover = "others"\ncolumns = ["c"]\n{bound}')
    assert found.sources == ("text.csv:2",)
    cells = {(row, "c"): value for row, value in zip("abz", printed, strict=True)}
    assert sentences.judge(found, NO_RUNS, "paper", cells).printed is said


NO_RUNS = pd.DataFrame(columns=["row", "column", "seed", "value"])


def test_a_mistake_in_a_file_costs_one_line(tmp_path: Path) -> None:
    with pytest.raises(PaperError, match=r"claims.toml: claim 'one': unknown row; valid: "):
        read(tmp_path, 'row = ["a"]\ncolumns = ["c"]')
    with pytest.raises(LookupError, match="in no csv"):
        read(tmp_path, 'rows = ["a"]\ncolumns = ["c"]\nnear = { metric = "another" }')


def test_runs_of_a_table_have_a_line_per_seed() -> None:
    frame = pd.DataFrame(
        {
            "row": ["a", "b"],
            "column": "c",
            "by_seed": [(SeedResult(1, 70.0), SeedResult(2, 71.0)), ()],
        }
    )
    assert runs_of(frame).to_numpy().tolist() == [["a", "c", 1, 70.0], ["a", "c", 2, 71.0]]


# -- claims that are code --------------------------------------------------------------------------


def test_curves_are_compared_run_by_run_over_common_seeds() -> None:
    """The mean of a rival's two runs would be smoother than each, and so than ours."""
    ours, up = [0.0, 2.0, 0.0, 2.0, 0.0, 2.0], [0.0, 3.0, 0.0, 3.0, 0.0, 3.0]
    lines = {("a", s): ours for s in (1, 2, 3)} | {("b", s): up for s in (1, 2, 3)}
    lines |= {("b", 4): up[::-1], ("c", 4): [0.0] * 6}
    runs = pd.DataFrame(
        [
            {"column": "x", "label": row, "seed": seed, "round": round_, "value": value}
            for (row, seed), values in lines.items()
            for round_, value in enumerate(values)
        ]
    )

    def said(*rivals: str) -> Claim:
        return smoothest(runs, {"x": "X"}, rivals, "a", ("id", "words", "5.2", "paper"))

    assert said("b").state == State.HOLDS
    assert said("b", "c").state == State.OPEN  # c has no seed in common
    assert said("b", "c").why.startswith("X: 1 of 2 baselines")
    runs.loc[runs["label"] == "b", "value"] /= 2
    assert said("b").state == State.FAILS
    assert "b 1.50 against 2.00" in said("b").why


def test_statements_on_equations_are_checks_of_ours_that_can_stay_open() -> None:
    places = {"quantity": "cosine", "round": [1, 1, 3, 3], "seed": [0, 1] * 2}

    def said(*values: float) -> Claim:
        numbers = pd.DataFrame(places | {"value": values})
        statement = Proposition("id", "words", "3.2", "cosine")
        (found,) = judge_propositions(numbers, "smoke", [statement])
        assert found.ours
        return found

    states = [said(*[value] * 4).state for value in (0.95, 0.6, 0.3)]
    assert states == [State.HOLDS, State.OPEN, State.FAILS]
    assert said(1.1, 0.7, 0.9, 0.9).why == "cosine (means of 2 seeds): round 1 0.90, round 3 0.90"


def test_some_of_the_numbers_have_to_meet_a_condition() -> None:
    numbers = {"a": 1.0, "b": -1.0, "c": float("nan")}

    def above(value: float) -> bool:
        return value > 0

    assert all_met(numbers, above) is False
    assert all_met(numbers, above, 0.3) is True
    assert all_met(numbers, above, 0.6) is None
    assert all_met({}, above) is None
