"""From curves to reported numbers: every rule of a recipe."""

from __future__ import annotations

import random
from typing import Any

import pytest

from repfl.bench.store.contents import Floor, Traffic
from repfl.bench.store.summary import best_round, summarise
from repfl.datasets.core.recipe import Evaluation

MEANS = {1: 0.5, 2: 0.9, 3: 0.9, 4: 0.6}
VALIDATION = {1: 0.1, 2: 0.2, 3: 0.8, 4: 0.8}


def rows() -> list[tuple[int, str, float]]:
    found = [(r, "post_agg/mean", v) for r, v in MEANS.items()]
    found += [(r, "post_agg/pooled", v / 2) for r, v in MEANS.items()]
    found += [(4, "post_agg/std", 0.05), (4, "post_agg/decile", 0.2)]
    found += [(2, "note/sparsity", 1.0), (4, "note/sparsity", 3.0)]
    for name in ("mean", "pooled"):
        found += [(r, f"post_agg/val/{name}", v) for r, v in VALIDATION.items()]
    return found + [(r, "traffic/up_values", 10.0) for r in MEANS]


@pytest.mark.parametrize(
    ("changes", "value", "round_"),
    [
        ({}, 0.6, 4),
        ({"average": "pooled"}, 0.3, 4),
        ({"rule": "max"}, 0.9, 2),
        ({"rule": "max", "rounds": (1, 4)}, 0.6, 4),
        ({"rule": "best-val"}, 0.9, 3),
        ({"rule": "best-val", "average": "pooled"}, 0.45, 3),
        ({"point": "pre_agg"}, None, None),
    ],
)
def test_the_rule_picks_the_number(
    changes: dict[str, Any], value: float | None, round_: int | None
) -> None:
    metrics = summarise(rows(), Evaluation(**changes), (0.1, 0.2), 42)
    assert (metrics.value, metrics.round) == (value, round_)


def test_metrics_hold_all_that_tables_need() -> None:
    metrics = summarise(rows(), Evaluation(), (0.1, 0.2), 42)
    assert metrics.plain["points"] == {
        "post_agg": {
            "last": {"mean": 0.6, "pooled": 0.3, "std": 0.05, "decile": 0.2},
            "max": {"mean": 0.9, "pooled": 0.45, "round": 2},
            "best_val": {"mean": 0.9, "pooled": 0.45, "round": 3},
        }
    }
    assert metrics.floor == Floor(clients=0.1, pooled=0.2)
    assert metrics.traffic == Traffic(up_values=40, up_codes=0, down_values=0, down_codes=0)
    assert metrics.traffic.total == 40
    assert metrics.notes == {"sparsity": 3.0}
    assert metrics.parameters == 42
    for rule, average, value in (("max", "clients", 0.9), ("best-val", "pooled", 0.45)):
        assert metrics.score("post_agg", rule, average) == value
    assert metrics.score("post_agg", "last", "pooled") == 0.3
    assert metrics.score("pre_agg", "max", "clients") is None


def test_of_equally_good_rounds_the_models_of_the_first_are_kept() -> None:
    assert best_round(rows()) == 3
    assert best_round([row for row in rows() if "/val/" not in row[1]]) == 2


def test_of_equal_rounds_the_first_is_reported_wherever_they_lie() -> None:
    """Few different values, so that nearly every curve has ties; every round has another score."""
    draw = random.Random(0)
    for _ in range(30):
        rounds = sorted(draw.sample(range(1, 40), draw.randint(2, 9)))
        val = {round_: draw.randint(0, 2) / 2 for round_ in rounds}
        test = {round_: (7 * round_ % 41) / 41 for round_ in rounds}
        tied = {round_: draw.randint(0, 2) / 2 for round_ in rounds}
        for scores, rule, by in ((test, "best-val", val), (tied, "max", tied)):
            curves = {"": scores, "val/": val}
            found = [
                (round_, f"post_agg/{kind}{name}", value)
                for name in ("mean", "pooled")
                for kind, curve in curves.items()
                for round_, value in curve.items()
            ]
            draw.shuffle(found)
            first = min(round_ for round_ in rounds if by[round_] == max(by.values()))
            metrics = summarise(found, Evaluation(rule=rule), (0.1, 0.1), 5)
            assert (metrics.value, metrics.round) == (scores[first], first)
            assert getattr(metrics.points["post_agg"], rule.replace("-", "_")).round == first
            if rule == "best-val":
                assert best_round(found) == first
