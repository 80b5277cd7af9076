"""Random search: every method is tried alike, and draws are the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repfl.algorithms.core.method import methods
from repfl.bench.errors import UserError
from repfl.bench.grid import search
from repfl.bench.grid.methods import hyperparameters, search_space
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from tests.bench.conftest import GRID

OWN = """
from repfl.algorithms.core.method import hyperparameters, param, register
from repfl.algorithms.fedavg import FedAvg

@hyperparameters
class HP:
    pull: float = param(0.5, "a pull", gt=0, {limit}, search={search})

@register("test-own", title="O", paper="none", year=2026, family="global", sends="as FedAvg")
class Own(FedAvg):
    HP = HP
"""
RANGE = '{ "training.lr" = { log = [0.01, 1.0] } }'


def searched(tmp_path: Path, block: str, methods: str = "ditto") -> list[Planned]:
    path = tmp_path / "tests.toml"
    rows = ", ".join(f'{{ label = "{name}", method = "{name}" }}' for name in methods.split())
    head = f'[artefacts.s]\nkind = "table"\ntitle = "S"\n[[artefacts.s.cells]]\nrows = [{rows}]'
    path.write_text(f'{GRID}\n{head}\nrecipes = ["two"]\n{block}\n')
    return plan(Selection(files=[path], artefacts=["tests/s"]))


def rates(planned: list[Planned], seed: int = 0) -> list[float]:
    return [item.cell.recipe.training.lr for item in planned if item.cell.seed == seed]


def test_each_trial_has_a_stratum_of_its_own(tmp_path: Path) -> None:
    found = sorted(rates(searched(tmp_path, f"search = {{ trials = 4, over = {RANGE} }}")))
    edges = [0.01, 0.0316, 0.1, 0.316, 1.0]
    assert all(
        low <= each <= high for low, each, high in zip(edges, found, edges[1:], strict=False)
    )


def test_methods_try_the_same_values_of_what_they_share(tmp_path: Path) -> None:
    planned = searched(tmp_path, f"search = {{ trials = 3, over = {RANGE} }}", "fedavg local")
    by_row = [[i for i in planned if i.row == name] for name in ("fedavg", "local")]
    assert rates(by_row[0]) == rates(by_row[1])


@pytest.mark.parametrize(("method", "pulls"), [("ditto", 6), ("ditto[lam=0.25]", 1)])
def test_a_method_beside_a_searched_table_searches_what_its_row_does_not_fix(
    tmp_path: Path, method: str, pulls: int
) -> None:
    searched(tmp_path, f"search = {{ trials = 3, over = {RANGE} }}", "fedavg")
    asked = Selection(files=[tmp_path / "tests.toml"], artefacts=["tests/s"], methods=[method])
    found = plan(asked)
    trials = [(seed, trial) for seed in (0, 1) for trial in (1, 2, 3)]
    assert [(item.cell.seed, item.trial) for item in found] == trials
    assert len({item.cell.hp.lam for item in found}) == pulls
    assert len(set(rates(found))) == 3
    assert {item.guest for item in found} == {method}


def test_a_method_joins_beside_rows_that_search_what_it_has_not(tmp_path: Path) -> None:
    wider = f"search = {{ trials = 2, over = {RANGE[:-1]}, rate = {{ log = [0.01, 0.1] }} }} }}"
    block = f"""search = {{ trials = 2, over = {RANGE} }}
[[artefacts.s.cells]]
rows = [{{ label = "own rate", method = "fedbabu" }}]
recipes = ["two"]
{wider}
[[artefacts.s.cells]]
rows = [{{ label = "fedavg, as printed", method = "fedavg" }}]
recipes = ["two"]
"""
    searched(tmp_path, block, "fedavg")
    asked = Selection(files=[tmp_path / "tests.toml"], artefacts=["tests/s"], methods=["ditto"])
    assert [(item.row, item.cell.seed, item.trial) for item in plan(asked)] == [
        ("Ditto, as printed", 0, 0), ("Ditto, as printed", 1, 0),
        ("Ditto", 0, 1), ("Ditto", 0, 2), ("Ditto", 1, 1), ("Ditto", 1, 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ('{"logg": [0.1, 2.0]}', "search of pull"),
        ('{"log": [2.0, 0.1]}', "search of pull"),
        ('{"log": 3}', "search of pull"),
        ("[0.1, 0.5]", r"search of pull = \[0.1, 0.5\] is not valid; valid: .*log whole"),
        ('{"log": [0.1, 200.0]}', "less than or equal to 10"),
    ],
)
def test_a_range_that_a_method_cannot_search_is_refused(
    tmp_path: Path, plugged: Callable[[Path], None], declared: str, words: str
) -> None:
    (tmp_path / "own.py").write_text(OWN.format(limit="le=10", search=declared))
    plugged(tmp_path / "own.py")
    with pytest.raises(UserError, match=words):
        searched(tmp_path, "search = { trials = 2 }", "test-own")


def test_a_misspelt_limit_of_a_hyper_parameter_is_refused(
    tmp_path: Path, plugged: Callable[[Path], None]
) -> None:
    (tmp_path / "own.py").write_text(OWN.format(limit="lessthan=1", search="None"))
    with pytest.raises(UserError, match="unknown limit; valid: ge, gt, le, lt"):
        plugged(tmp_path / "own.py")


def test_draws_depend_on_their_address_alone() -> None:
    found = [trial.fields for trial in search.trials({"a.b": ("log", [0.01, 1])}, 5, 1)]
    assert [each["a.b"] for each in found] == [0.732, 0.0137, 0.193, 0.0721, 0.0387]


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("search = { trials = 3 }", "fedavg searches nothing; valid: 1 to 4"),
        ("search = { trials = 3, over = { lr = { log = [0.1, 1] } } }", "unknown field 'lr'"),
        ("search = { trials = 3, over = { lr = {} } }", "lr: give one range"),
        ("search = { trials = 3, over = { lr = { log = [0.1] } } }", "log = .0.1. is not a range"),
        ("search = { trials = 3, over = { lr = { log = [0, 1] } } }", "is not a range"),
        ("search = { trials = 3, over = { lr = { uniform = [2, 1] } } }", "is not a range"),
        ('search = { trials = 3, over = { lr = { log = ["a", 1] } } }', "is not a range"),
        ("search = { trials = 3, over = { rate = { whole = [0.5, 2] } } }", "is not a range"),
        ("search = { trials = 3, over = { rate = { 'one of' = [] } } }", "is not a range"),
        (f"search = {{ trials = 1000, over = {RANGE} }}\nseeds = {list(range(101))}", "x 1,000 tr"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(tmp_path: Path, block: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        searched(tmp_path, block, "fedavg")


@pytest.mark.parametrize("method", sorted(methods()))
def test_whatever_a_method_declares_to_be_searched_is_valid(method: str) -> None:
    declared = search_space(method)
    assert len(declared) < search.MAX_DIMENSIONS
    for share in (0.0, 0.25, 0.5, 0.75, 0.999):
        hyperparameters(
            method, {name: search.value(each, share) for name, each in declared.items()}
        )


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        (("uniform", [0.2, 0.8]), (0.2, 0.8)),
        (("log", [0.01, 10]), (0.01, 10)),
        (("near-one", [0.9, 0.99999]), (0.9, 0.99999)),
        (("whole", [2, 10]), (2, 10)),
        (("log whole", [5, 200]), (5, 200)),
        (("one of", ["a", None]), ("a", None)),
    ],
)
def test_a_range_reaches_from_end_to_end(given: search.Space, ends: tuple[object, object]) -> None:
    assert search.value(given, 0.0) == ends[0]
    assert search.value(given, 1 - 1e-9) == pytest.approx(ends[1])
    assert search.range_text(given)
