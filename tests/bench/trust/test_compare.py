"""What the gate says of two entries of a cell: within bounds or not, and where first."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from repfl.bench.cli.moves import escaped, markdown, regression
from repfl.bench.trust.gate.compare import CLOSE, Move, difference
from repfl.bench.trust.regress import Regression

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
    "digest": "s" * 16 + "c" * 16 + "a" * 16,
}


def moved(exact: bool, **changes: Any) -> str:
    """What is said of a cell after changes, each to the value at `part__name__name`."""
    now = deepcopy(ENTRY)
    for path, value in changes.items():
        *parts, last = path.split("__")
        place = now
        for part in parts:
            place = place[part]
        place[last] = value
    found = difference({KEY: ENTRY}, {KEY: now}, exact)
    return found[0].why if found else ""


BITS = "t" * 16 + ENTRY["digest"][16:]


@pytest.mark.parametrize("exact", [True, False])
def test_equal_entries_do_not_differ(exact: bool) -> None:
    assert moved(exact) == ""


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
def test_whatever_moves_is_named_on_any_platform(changes: dict[str, Any], said: str) -> None:
    assert moved(False, **changes) == said
    assert moved(True, **changes, digest=BITS) == said


def test_metrics_are_compared_although_bits_are_equal() -> None:
    assert moved(True, metrics__value=0.6) == "value: 0.5 -> 0.6 (+20 %)"


def test_bits_alone_count_where_the_platform_is_known() -> None:
    assert moved(True, digest=BITS) == "bits of the final state; every size and count is the same"
    assert moved(False, digest=BITS) == ""


def test_rounding_passes_between_platforms_and_nowhere_else() -> None:
    little = {"norms__theta/conv": [0.1, 0.2 * (1 + CLOSE / 2), 0.3]}
    assert moved(False, **little) == ""
    assert (
        moved(True, **little, digest=BITS)
        == f"round 1, theta/conv: 0.2 -> 0.2 (+{CLOSE / 2:.1e} of it)"
    )
    more = {"norms__theta/conv": [0.1, 0.2 * (1 + 2 * CLOSE), 0.3]}
    assert "theta/conv" in moved(False, **more)


def test_one_sample_passes_between_platforms_with_what_follows_from_it() -> None:
    one = {"counts__post_agg": {"1": "0:3 1:4", "2": "0:5 1:6"}, "metrics__value": 0.55}
    assert moved(False, **one) == ""
    assert moved(True, **one, digest=BITS) == "round 2, post_agg: client 1 had 5 right, has 6"
    two = {"counts__post_agg": {"1": "0:3 1:4", "2": "0:4 1:6"}}
    assert moved(False, **two) == "round 2, post_agg: client 0 had 5 right, has 4 (+0 of 2 clients)"


def test_what_comes_first_in_a_run_is_told_first() -> None:
    later, earlier = {"norms__theta/conv": [0.1, 0.2, 0.4]}, {"counts__start__2": "0:9 1:9"}
    assert moved(False, **later, **earlier, metrics__value=0.6).startswith("round 2, start")


def test_seeds_of_one_method_and_recipe_are_one_move() -> None:
    then = {f"local everybody {seed}": ENTRY for seed in (1, 2, 3)}
    now = {key: {**ENTRY, "partition": "q"} if not key.endswith("1") else ENTRY for key in then}
    (move,) = difference(then, now, False)
    assert (move.spec, move.recipe, move.seeds, move.then, move.now) == (
        "local",
        "everybody",
        (2, 3),
        0.5,
        0.5,
    )


FOUND = Regression(
    "reference.json",
    "seed by seed",
    2,
    1,
    [
        Move(
            "fedobp[norm=none]",
            "everybody",
            (1, 2),
            2,
            3,
            0.5,
            0.6,
            False,
            "round 1, theta/conv: 0.1 -> 0.2 (+1e+02 %)",
        )
    ],
    ["a note about [/] | and `ticks`"],
)


def test_names_come_out_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert regression(FOUND) == 1
    out = capsys.readouterr().out
    assert "fedobp[norm=none]" in out
    assert "2 -> 3" in out
    assert "+10.00" in out
    assert "note: a note about [/] | and `ticks`" in out


def test_markdown_keeps_names_and_columns() -> None:
    page = markdown(FOUND)
    (row,) = [line for line in page.splitlines() if line.startswith("| fedobp")]
    assert row.replace("\\", "").count("fedobp[norm=none]") == 1
    assert row.replace("\\|", "").count("|") == 9
    assert r"\[/\] \| and \`ticks\`" in page
    assert escaped("<b>") == r"\<b\>"
