"""Claims: when they give a verdict, and what decides the conditions that they are."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, nan, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtrit

from repfl.paper_tables.core.claims.claim_evidence import Side
from repfl.paper_tables.core.claims.conditions import (
    OPEN,
    Condition,
    Form,
    at_least,
    best,
    cell,
    every,
    led_by,
    mean,
    near,
    some,
)
from repfl.paper_tables.core.claims.sentences import (
    Proposition,
    Sentence,
    judge,
    judge_propositions,
)
from repfl.paper_tables.core.claims.shared_claims import smoothest
from repfl.paper_tables.core.result import Claim, State
from repfl.paper_tables.core.statistics.intervals import Prior, spread
from repfl.paper_tables.core.statistics.seeds import SeedResult


@pytest.mark.parametrize("found", [True, False, None])
def test_a_claim_gives_a_verdict_at_the_paper_s_scale_or_free_of_it(found: bool | None) -> None:
    def at(scale: str, *, free: bool = False, few_seeds: bool = False) -> Claim:
        return Claim("id", "words", found, "numbers", scale, free=free, few_seeds=few_seeds)

    assert at("paper").holds is at("desk", free=True).holds is found
    assert at("desk").holds is at("paper", few_seeds=True).holds is None
    assert at("desk").suggests is at("paper", few_seeds=True).suggests is found
    assert at("paper").suggests is None


def test_settings_are_compared_whatever_has_run() -> None:
    claim = Claim("id", "words", True, "numbers", "paper", settings=True)
    assert claim.holds is True


def test_curves_are_compared_run_by_run_over_common_seeds() -> None:
    """The mean of a rival's two runs would be smoother than each, and so than ours."""
    ours, up = [0.0, 2.0, 0.0, 2.0, 0.0, 2.0], [0.0, 3.0, 0.0, 3.0, 0.0, 3.0]
    lines = {("a", 1): ours, ("b", 1): up, ("b", 2): up[::-1], ("c", 2): [0.0] * 6}
    runs = pd.DataFrame(
        [
            {"column": "x", "label": row, "seed": seed, "round": round_, "value": value}
            for (row, seed), values in lines.items()
            for round_, value in enumerate(values)
        ]
    )

    def said(*rivals: str) -> Claim:
        return smoothest(runs, {"x": "X"}, rivals, "a", ("id", "words", "paper"))

    assert said("b").answer is True
    assert said("b").holds is None  # one common seed
    assert said("b", "c").answer is None  # c has no seed in common
    assert said("b", "c").detail.startswith("X: 1 of 2 baselines")
    runs.loc[runs["label"] == "b", "value"] /= 2
    assert said("b", "c").answer is False
    assert "b 1.50 against 2.00" in said("b", "c").detail


# -- conditions ------------------------------------------------------------------------------------


def frame(
    published: dict[str, float], ours: dict[str, float] | None = None, half: float = 0.1
) -> pd.DataFrame:
    """One column c; `half` is that of the 95 % intervals of ours."""
    mine = ours or published
    rows = [(row, value, mine[row]) for row, value in published.items()]
    found = pd.DataFrame(rows, columns=["row", "published", "ours"])
    low, high = found["ours"] - half, found["ours"] + half
    return found.assign(column="c", low=low, high=high, df=20.0, seeds=3)


def weigh(condition: Condition, values: pd.DataFrame, scale: str = "paper") -> Claim:
    return judge(values, scale, Sentence("id", "words", condition))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("df", [1.2, 2.2, 3.0])
def test_a_difference_of_single_runs_is_within_its_interval_as_often_as_that_says(
    df: float, *, together: bool
) -> None:
    """What the noise model expects of a variance is worth few degrees of freedom; two cells do not
    have twice as many.
    """
    values = frame({"a": 1.0, "b": 1.0}, half=float(stdtrit(df, 0.975))).assign(df=df)
    known = Side(values, "ours").estimate(LEAD)
    assert known is not None
    rng = np.random.Generator(np.random.Philox(7))
    variances = df / rng.chisquare(df, (2, 100_000))
    deviations = np.sqrt(variances[[0, 0]] if together else variances)
    gaps = deviations * rng.standard_normal(deviations.shape)
    assert np.mean(np.abs(gaps[0] - gaps[1]) <= known.half_width()) >= 0.925


THREE, LEAD = {"a": 3.0, "b": 2.0, "z": 1.0}, cell("a", "c") - cell("b", "c")
CONDITIONS = {
    "above": (cell("a", "c") > cell("b", "c"), {"a": 1.0, "b": 2.0, "z": 1.0}),
    "best": (best("a", ["b", "z"], ["c"]), {"a": 1.5, "b": 2.0, "z": 1.0}),
    "some": (some([cell("z", "c") > 0.5, cell("z", "c") > 9.0]), {**THREE, "z": 0.0}),
    "two of three": (at_least(2, (cell(r, "c") > 1.5 for r in THREE)), {**THREE, "b": 1.0}),
    "mean": (mean([cell("a", "c"), cell("z", "c")]) > 1.5, {**THREE, "a": 1.0}),
    "near": (near(cell("a", "c"), 3.0, slack=0.01, margin=1.0), {**THREE, "a": 5.0}),
    "led by": (led_by([LEAD], 1.0, slack=0.01, margin=0.5), {**THREE, "a": 9.0}),
}


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_conditions_hold_fail_and_stay_open_on_both_sides(name: str) -> None:
    condition, other = CONDITIONS[name]
    held, failed = weigh(condition, frame(THREE)), weigh(condition, frame(other))
    assert held.holds is held.printed is True
    assert failed.holds is failed.printed is False
    noisy = weigh(condition, frame(THREE, other, half=30.0))
    assert noisy.holds is None
    assert noisy.printed is True
    assert weigh(condition, frame(THREE, other, half=nan)).holds is None
    assert weigh(condition, frame(THREE, dict.fromkeys(THREE, nan))).holds is None


def test_one_clear_exception_refutes_always_and_missing_numbers_refute_nothing() -> None:
    always = every(cell(row, "c") > 1.5 for row in THREE)
    assert weigh(always, frame(THREE, {"a": nan, "b": 2.0, "z": 1.0})).holds is False
    assert weigh(always, frame(THREE, {"a": nan, "b": 2.0, "z": 2.0})).holds is None
    assert weigh(OPEN, frame(THREE)).holds is None


def test_statements_on_equations_are_checks_of_ours_that_can_stay_open() -> None:
    places = {"quantity": "cosine", "round": [1, 1, 3, 3], "seed": [0, 1] * 2}

    def said(*values: float) -> Claim:
        numbers = pd.DataFrame(places | {"value": values})
        (found,) = judge_propositions(
            Path(), "smoke", [Proposition("id", "words", "cosine")], numbers
        )
        assert found.ours
        return found

    states = [said(*[value] * 4).state for value in (0.95, 0.6, 0.3)]
    assert states == [State.HOLDS, State.OPEN, State.FAILS]
    mean = said(1.1, 0.7, 0.9, nan)
    assert mean.detail == "cosine (means of 2 seeds): round 1 0.90, round 3 0.90"


def test_equal_numbers_are_no_lead() -> None:
    same = {"a": 2.0, "b": 2.0}
    assert weigh(cell("a", "c") > cell("b", "c"), frame(same)).printed is None
    assert weigh(cell("a", "c") >= cell("b", "c"), frame(same)).printed is True


def test_intervals_widen_with_the_number_of_differences() -> None:
    """A difference that is clear alone is not when it is one of a hundred."""
    values = frame({"a": 2.2, "b": 2.0}, half=0.1)
    one = cell("a", "c") > cell("b", "c")
    assert weigh(one, values).holds is True
    assert weigh(every([one] * 100), values).holds is None


@pytest.mark.parametrize(("row", "column"), [("aa", "c"), ("a", "cc")])
def test_a_row_or_column_that_is_not_there_is_an_error(row: str, column: str) -> None:
    with pytest.raises(LookupError, match="there are"):
        weigh(cell(row, column) > 0.0, frame(THREE))


def of_seeds(**rows: dict[int, float]) -> pd.DataFrame:
    """Rows of some seeds each, whose means have intervals of the same noise."""
    means = {row: sum(runs.values()) / len(runs) for row, runs in rows.items()}
    half = pd.Series([2.0 / sqrt(len(runs)) for runs in rows.values()])
    found, by_seed = frame(means), [[SeedResult(*run) for run in r.items()] for r in rows.values()]
    found = found.assign(low=found["ours"] - half, high=found["ours"] + half)
    return found.assign(seeds=[*map(len, by_seed)], by_seed=[*map(tuple, by_seed)])


def test_rows_are_held_against_each_other_over_their_common_seeds() -> None:
    """A row with easier seeds beside leads by its mean, and trails on the seed that both have."""
    values = of_seeds(a={1: 65.0, 2: 75.0, 3: 76.0, 4: 74.0}, b={1: 69.0})
    found = weigh(cell("a", "c") > cell("b", "c"), values)
    assert found.holds is False
    assert found.detail.startswith("ours: -4.00 [-6.83, -1.17] (1 common seed)")


def paired_rows(runs: int, clients: int, seed: int, lead: float) -> pd.DataFrame:
    """Two rows whose seeds and clients are easy or hard for both, and the same seeds beside."""
    rng = np.random.Generator(np.random.Philox(seed))
    rows: dict[str, list[SeedResult]] = {"a": [], "b": []}
    for number in range(runs):
        level = 60 + 10 * rng.standard_normal() + 10 * rng.standard_normal(clients)
        for row, above in (("a", lead), ("b", 0.0)):
            accuracy = level + above + rng.standard_normal(clients)
            counts = pd.DataFrame({"correct": accuracy * 100, "total": 10_000})
            one = SeedResult(number, float(accuracy.mean()), counts=lambda counts=counts: counts)
            rows[row].append(one)
    means = {row: float(np.mean([run.value for run in found])) for row, found in rows.items()}
    by_seed = [tuple(found) for found in rows.values()]
    return frame(means, half=15.0).assign(seeds=runs, by_seed=by_seed)


@pytest.mark.parametrize(("runs", "by"), [(1, "client"), (2, "client"), (3, "seed"), (5, "seed")])
def test_differences_are_paired_by_seed_or_else_by_client(runs: int, by: str) -> None:
    inside, halves = [], []
    for seed in range(200):
        side = Side(paired_rows(runs, 12, seed, lead=0.7), "ours")
        known = side.estimate(LEAD)
        assert known is not None
        assert known.paired == by
        inside.append(abs(known.value - 0.7) <= known.half_width())
        halves.append(known.half_width())
    assert np.mean(inside) == pytest.approx(0.95, abs=0.04)
    assert np.median(halves) < 2  # the rows' own numbers are certain to 15 points


def test_one_or_two_seeds_suggest_and_decide_nothing() -> None:
    lead = cell("a", "c") > cell("b", "c")
    few, enough = (weigh(lead, paired_rows(runs, 30, 1, lead=5.0)) for runs in (1, 4))
    assert few.holds is None
    assert few.suggests is True
    assert "1 common seed, paired by client" in few.detail
    assert enough.holds is True


def test_clients_of_other_images_are_not_paired() -> None:
    values = paired_rows(1, 12, 1, lead=5.0)
    other = values["by_seed"].iloc[1][0]
    fewer = other._replace(counts=lambda: other.counts().iloc[:-1])
    side = Side(values.assign(by_seed=[values["by_seed"].iloc[0], (fewer,)]), "ours")
    known = side.estimate(LEAD)
    assert known is not None
    assert known.paired == ""


def test_what_the_paper_s_own_numbers_contradict_needs_no_run() -> None:
    values = frame({"a": 1.0, "b": 2.0})
    contradicted = weigh(cell("a", "c") > cell("b", "c"), values, "desk")
    assert contradicted.state == State.CONTRADICTED
    assert replace(contradicted, ours=True).state == State.OPEN
    assert weigh(cell("b", "c") > cell("a", "c"), values).state == State.HOLDS


def test_rows_without_a_common_seed_leave_a_claim_open() -> None:
    values = of_seeds(a={1: 65.0, 2: 64.0}, b={3: 99.0})
    assert weigh(cell("b", "c") > cell("a", "c"), values).holds is None


def test_a_cell_that_enters_twice_errs_once() -> None:
    side = Side(frame(THREE), "ours")
    twice, whole = side.estimate(cell("a", "c") + cell("a", "c")), side.estimate(cell("a", "c") * 2)
    assert twice == whole
    none = side.estimate(cell("a", "c") - cell("a", "c"))
    assert none is not None
    assert none.half_width() == 0
    assert side.estimate(Form({}, 4.0)).value == 4.0  # type: ignore[union-attr]


@pytest.mark.parametrize("runs", [1, 3, 5])
@pytest.mark.parametrize("weights", [(1.0, -1.0), (0.5, 0.5, -1.0)])
def test_intervals_of_sums_of_cells_cover_as_often_as_they_say(
    runs: int, weights: tuple[float, ...]
) -> None:
    """Cells of unequal noise, known by a model and by their runs, as tables print them."""
    rng, draws, covered = np.random.Generator(np.random.Philox(3)), 200, 0
    models = [Prior(log(0.04 * 4**place), 0.5) for place in range(len(weights))]
    rows = [str(place) for place in range(len(weights))]
    form = sum((cell(r, "c") * w for r, w in zip(rows, weights, strict=True)), Form({}))
    for _ in range(draws):
        true = [exp(m.mean + sqrt(m.spread) * rng.standard_normal()) for m in models]
        found = [
            spread(list(sqrt(variance) * rng.standard_normal(runs)), model)
            for variance, model in zip(true, models, strict=True)
        ]
        values = pd.DataFrame({"row": rows, "column": "c", "published": nan, "seeds": runs})
        for name, field in (("ours", "mean"), ("low", "low"), ("high", "high"), ("df", "df")):
            values[name] = [getattr(each, field) for each in found]
        known = Side(values, "ours").estimate(form)
        assert known is not None
        covered += abs(known.value) <= known.half_width()
    assert covered / draws == pytest.approx(0.95, abs=0.02 + 3 * (0.05 * 0.95 / draws) ** 0.5)


def test_pairing_decides_what_independent_cells_leave_open() -> None:
    """Two rows that move together over five seeds."""
    shared = [60.0, 70.0, 65.0, 75.0, 68.0]
    rows = {"a": [x + 1.0 + 0.1 * (i % 2) for i, x in enumerate(shared)], "b": shared}
    values = frame({row: float(np.mean(each)) for row, each in rows.items()}, half=7.0).assign(
        by_seed=[tuple(SeedResult(i, x, 0.0) for i, x in enumerate(each)) for each in rows.values()]
    )
    claim = weigh(cell("a", "c") > cell("b", "c"), values)
    alone = weigh(cell("a", "c") > cell("b", "c"), values.drop(columns="by_seed"))
    assert (claim.state, alone.state) == (State.HOLDS, State.OPEN)
