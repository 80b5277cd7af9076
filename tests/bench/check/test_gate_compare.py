"""What the gate says of two entries of a cell: within bounds or not, and where first."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from repfl.bench.check.gate_compare import TOLERANCE, difference

KEY = "fedobp[norm=none] everybody 1"
ENTRY: dict[str, Any] = {
    "version": 2,
    "status": "done",
    "reason": "",
    "partition": "p" * 16,
    "metrics": {
        "value": 0.5,
        "round": 2,
        "floor": {"clients": 0.25},
        "traffic": {"up_values": 800},
        "notes": {"a": 0.1},
    },
    "totals": {"start": "0:10 1:10", "post_agg": "0:10 1:10"},
    "counts": {
        "start": {"1": "0:1 1:2", "2": "0:3 1:4"},
        "post_agg": {"1": "0:3 1:4", "2": "0:5 1:5"},
    },
    "norms": {
        "theta/conv": [0.1, 0.2, 0.3],
        "theta/head.bias": [0.0, 0.01, 0.02],
        "alpha": [None, 0.5, 0.5],
    },
    "arrays": {"mask": 1.5},
}


def moved(**changes: Any) -> str:
    """What is said of a cell after changes, each to the value at `part__name__name`."""
    now = deepcopy(ENTRY)
    for path, value in changes.items():
        *parts, last = path.split("__")
        place = now
        for part in parts:
            place = place[part]
        place[last] = value
    found = difference({KEY: ENTRY}, {KEY: now})
    return found[0].why if found else ""


def test_equal_entries_do_not_differ() -> None:
    assert moved() == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": "diverged"}, "was done, is diverged: without a fault"),
        ({"partition": "q" * 16}, "partition: clients hold other samples"),
        ({"norms__theta/conv": [0.1, 0.2, 0.303]}, "round 2, theta/conv: 0.3 -> 0.303 (+1 %)"),
        ({"norms__theta/conv": [0.11, 0.2, 0.3]}, "initial state, theta/conv: 0.1 -> 0.11 (+10 %)"),
        ({"norms__alpha": [None, 0.5, None]}, "round 2, alpha: 0.5 -> nothing"),
        (
            {"counts__post_agg": {"1": "0:3 1:6", "2": "0:5 1:5"}},
            "round 1, post_agg: client 1 had 4 right, has 6",
        ),
        ({"counts__post_agg": {"2": "0:5 1:5"}}, "round 1, post_agg: is no longer scored"),
        ({"counts__start__2": "0:3 2:4"}, "round 2, start: other clients are scored"),
        ({"totals__start": "0:10 1:11"}, "start: other numbers of samples are scored"),
        ({"metrics__value": 0.6}, "value: 0.5 -> 0.6 (+20 %)"),
        ({"metrics__value": None}, "value: 0.5 -> nothing"),
        ({"metrics__round": 1}, "round: 2 -> 1 (-50 %)"),
        ({"metrics__floor__clients": 0.5}, "floor.clients: 0.25 -> 0.5 (+1e+02 %)"),
        ({"metrics__traffic__up_values": 804}, "traffic.up_values: 800 -> 804 (+0.5 %)"),
        ({"metrics__notes__a": 0.2}, "notes.a: 0.1 -> 0.2 (+1e+02 %)"),
        ({"arrays__mask": 1.6}, "mask: 1.5 -> 1.6 (+6.7 %)"),
    ],
)
def test_whatever_moves_is_named(changes: dict[str, Any], said: str) -> None:
    assert moved(**changes) == said


def test_rounding_passes_and_what_is_more_does_not() -> None:
    assert moved(**{"norms__theta/conv": [0.1, 0.2 * (1 + TOLERANCE / 2), 0.3]}) == ""
    assert "theta/conv" in moved(**{"norms__theta/conv": [0.1, 0.2 * (1 + 2 * TOLERANCE), 0.3]})


def test_one_sample_passes_with_what_follows_from_it() -> None:
    one = {"counts__post_agg": {"1": "0:3 1:4", "2": "0:5 1:6"}, "metrics__value": 0.55}
    assert moved(**one) == ""
    two = {"counts__post_agg": {"1": "0:3 1:4", "2": "0:4 1:6"}}
    assert moved(**two) == "round 2, post_agg: client 0 had 5 right, has 4 (+0 of 2 clients)"


def test_what_comes_first_in_a_run_is_told_first() -> None:
    later, earlier = {"norms__theta/conv": [0.1, 0.2, 0.4]}, {"counts__start__2": "0:9 1:9"}
    assert moved(**later, **earlier, metrics__value=0.6).startswith("round 2, start")


def test_seeds_of_one_method_and_recipe_are_one_move() -> None:
    then = {f"local everybody {seed}": ENTRY for seed in (1, 2, 3)}
    now = {key: {**ENTRY, "partition": "q"} if not key.endswith("1") else ENTRY for key in then}
    (move,) = difference(then, now)
    assert (move.spec, move.recipe, move.seeds) == ("local", "everybody", (2, 3))
    assert (move.then, move.now) == (0.5, 0.5)
