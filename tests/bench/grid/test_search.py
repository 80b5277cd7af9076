"""Random search: every method is tried alike, and draws are the same everywhere."""

from __future__ import annotations

import pytest

from repfl.algorithms.core.method import methods
from repfl.bench.grid import search
from repfl.bench.grid.methods import hyperparameters, search_space
from repfl.bench.grid.planned import Planned
from tests.bench.conftest import GRID, Planning, refusal, says

RANGE = '{ "training.lr" = { log = [0.01, 1.0] } }'


def searched(block: str, methods: str = "ditto") -> str:
    rows = ", ".join(f'{{ label = "{name}", method = "{name}" }}' for name in methods.split())
    head = f'[artefacts.s]\nkind = "table"\ntitle = "S"\n[[artefacts.s.cells]]\nrows = [{rows}]'
    return f'{GRID}\n{head}\nrecipes = ["two"]\n{block}\n'


def rates(planned: list[Planned], seed: int = 0) -> list[float]:
    return [item.cell.recipe.training.lr for item in planned if item.cell.seed == seed]


def test_each_trial_has_a_stratum_of_its_own_and_methods_share_the_values(
    planned: Planning,
) -> None:
    text = searched(f"search = {{ trials = 4, over = {RANGE} }}", "fedavg local")
    first, second = ([i for i in planned(text, "s") if i.row == n] for n in ("fedavg", "local"))
    assert rates(first) == rates(second)
    edges = [0.01, 0.0316, 0.1, 0.316, 1.0]
    strata = zip(edges, sorted(rates(first)), edges[1:], strict=False)
    assert all(low <= each <= high for low, each, high in strata)


def test_draws_depend_on_their_address_alone() -> None:
    found = [trial.fields for trial in search.trials({"a.b": ("log", [0.01, 1])}, 5, 1)]
    assert [each["a.b"] for each in found] == [0.732, 0.0137, 0.193, 0.0721, 0.0387]


@pytest.mark.parametrize(("method", "pulls"), [("ditto", 6), ("ditto[lam=0.25]", 1)])
def test_a_method_beside_a_searched_table_searches_what_its_row_does_not_fix(
    planned: Planning, method: str, pulls: int
) -> None:
    text = searched(f"search = {{ trials = 3, over = {RANGE} }}", "fedavg")
    found = planned(text, "s", methods=[method])
    trials = [(seed, trial) for seed in (0, 1) for trial in (1, 2, 3)]
    assert [(item.cell.seed, item.trial) for item in found] == trials
    assert len({item.cell.hp.lam for item in found}) == pulls
    assert len(set(rates(found))) == 3
    assert {item.guest for item in found} == {method}


def test_a_method_joins_beside_rows_that_search_what_it_has_not(planned: Planning) -> None:
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
    found = planned(searched(block, "fedavg"), "s", methods=["ditto"])
    assert [(item.row, item.cell.seed, item.trial) for item in found] == [
        ("Ditto, as printed", 0, 0), ("Ditto, as printed", 1, 0),
        ("Ditto", 0, 1), ("Ditto", 0, 2), ("Ditto", 1, 1), ("Ditto", 1, 2),
    ]  # fmt: skip


def test_a_search_of_too_many_cells_is_refused(planned: Planning) -> None:
    block = f"search = {{ trials = 1000, over = {RANGE} }}\nseeds = {list(range(101))}"
    says(refusal(lambda: planned(searched(block, "fedavg"), "s")), "x 1,000 tr")


def test_whatever_a_method_declares_to_be_searched_is_valid() -> None:
    for method in methods():
        declared = search_space(method)
        assert len(declared) < search.MAX_DIMENSIONS
        for share in (0.0, 0.25, 0.5, 0.75, 0.999):
            drawn = {name: search.value(each, share) for name, each in declared.items()}
            hyperparameters(method, drawn)


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
