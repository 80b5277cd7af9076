"""What a participant sends and receives in a round, for methods of which it is always the same.

The contract proves that bills are true; here stands what is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from repfl.algorithms.engine.params import Params
from tests.algorithms import toys


def body(p: Params) -> int:
    """Parameters but the head's."""
    return int((p.learnable & p.body).sum())


def with_gaussians(p: Params) -> int:
    """A body, class means and half of a covariance matrix."""
    return body(p) + 4 * 32 + 32 * 33 // 2


SENT: list[tuple[str, dict[str, Any], str, Callable[[Params], int]]] = [
    ("apfl", {}, "local", lambda p: p.parameters),
    ("ditto", {}, "local", lambda p: p.parameters),
    ("fedala", {}, "local", lambda p: p.parameters),
    ("fedamp", {}, "local", lambda p: p.parameters),
    ("fedavg", {}, "local", lambda p: p.parameters),
    ("fedavg", {}, "global", lambda p: p.size),
    ("fedbabu", {}, "local", body),
    ("fedbn", {}, "local", lambda p: p.parameters - int(p.norm.sum())),
    ("feddpa", {"training": "joint"}, "local", lambda p: p.parameters),
    ("feddpa", {"training": "phases"}, "local", lambda p: p.parameters),
    ("fedobp", {"decoupling": "client"}, "local", lambda p: p.parameters),
    ("fedobp", {"score": "fisher"}, "local", lambda p: p.parameters),
    ("fedper", {}, "local", body),
    ("fedprox", {}, "local", lambda p: p.parameters),
    ("fedrep", {}, "local", body),
    ("lg-fedavg", {"shared": "last"}, "local", lambda p: int(p.head.sum())),
    ("local", {}, "local", lambda p: 0),
    ("per-fedavg", {}, "local", lambda p: p.parameters),
    ("pfedfda", {}, "local", with_gaussians),
    ("pfedhn", {"hidden": 8}, "local", lambda p: p.parameters),
    ("pfedme", {"inner_steps": 2}, "local", lambda p: p.parameters),
    ("scaffold", {}, "local", lambda p: 2 * p.parameters),
]


@pytest.mark.parametrize(("method", "hp", "buffers", "floats"), SENT)
def test_every_participant_sends_and_receives(
    method: str, hp: dict[str, Any], buffers: str, floats: Callable[[Params], int]
) -> None:
    run = toys.run(method, hp, model="tiny-bn", participation=0.5, buffers=buffers)
    for direction in ("up", "down"):
        expected = [4 * run.fed.K * floats(run.fed.params)] * 3
        assert toys.traffic(run, f"{direction}_values") == expected
        assert toys.traffic(run, f"{direction}_codes") == [0] * 3
