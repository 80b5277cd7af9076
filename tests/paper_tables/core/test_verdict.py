"""The written rule, case by case."""

from __future__ import annotations

from math import nan

import pytest

from paper_tables.core.verdict import Verdict, judge


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"published": 80.0, "ours": 80.9}, Verdict.MATCH),
        ({"published": 80.0, "ours": 81.0}, Verdict.MATCH),
        ({"published": 80.0, "ours": 81.01}, Verdict.NEAR),
        ({"published": 80.0, "ours": 83.0}, Verdict.NEAR),
        ({"published": 80.0, "ours": 76.9}, Verdict.OFF),
        ({"published": 80.0, "published_std": 0.3, "std": 0.4, "ours": 81.0}, Verdict.MATCH),
        ({"published": 80.0, "published_std": 0.3, "std": 0.4, "ours": 81.01}, Verdict.NEAR),
        ({"published": 80.0, "published_std": 0.3, "std": nan, "ours": 80.61}, Verdict.NEAR),
        ({"published": 80.0, "published_std": 3.0, "std": 4.0, "ours": 89.9}, Verdict.MATCH),
        ({"published": 80.0, "published_std": 0.0, "std": 0.0, "ours": 80.0}, Verdict.MATCH),
        ({"published": 80.0, "ours": nan}, Verdict.MISSING),
        ({"published": 67.47, "ours": 67.4, "floor": 67.43}, Verdict.FLOOR),
        ({"published": 67.47, "ours": 80.0, "floor": 66.47}, Verdict.FLOOR),
        ({"published": 67.48, "ours": 67.4, "floor": 66.47}, Verdict.MATCH),
        ({"published": 100.0, "ours": 101.0, "unit": "MB"}, Verdict.MATCH),
        ({"published": 100.0, "ours": 102.9, "unit": "MB"}, Verdict.NEAR),
        ({"published": 1.0, "ours": 2.0, "unit": "rounds"}, Verdict.OFF),
    ],
)
def test_a_paper_scale_number_gets_the_verdict_of_the_rule(given: dict[str, float], expected: Verdict) -> None:
    assert judge(**{"scale": "paper", "unit": "%"} | given) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", ["smoke", "desk"])
def test_a_smaller_scale_is_never_compared(scale: str) -> None:
    assert judge(80.0, 80.0, scale=scale) == Verdict.OTHER_SCALE
    assert judge(80.0, nan, scale=scale) == Verdict.MISSING


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_closed_form_numbers_are_held_to_their_digits_at_every_scale(scale: str) -> None:
    assert judge(4.69, 4.68827, scale=scale, exact=0.005, unit="MiB") == Verdict.MATCH
    assert judge(19.06, 19.501, scale=scale, exact=0.01, unit="MiB") == Verdict.OFF
    assert judge(53, 59, scale=scale, exact=0, unit="count") == Verdict.OFF
