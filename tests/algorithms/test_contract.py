"""Every method keeps the contract: with and without BN, with everybody and with half of the
clients; and so do switches that lead elsewhere than the gate's variants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from repfl.algorithms.core.method import methods
from repfl.bench.check import contract
from repfl.bench.check.contract import CONTRACT
from repfl.bench.check.situation import Situation, situations
from tests.algorithms import toys

Promise = Callable[[Situation], None]
CASES = [case for name in sorted(methods()) for case in situations(name)]
SWITCHES: list[tuple[str, dict[str, Any]]] = [
    ("dfedavgm", {"degree": 2}),
    ("dfedavgm", {"degree": 2, "graph": "regular", "order": "train-gossip"}),
    ("dfedavgm", {"degree": 2, "graph": "regular", "order": "train-gossip", "bits": 8}),
    ("dfedpgp", {"degree": 2}),
    ("dfedpgp", {"degree": 2, "push_sum": False, "graph": "pull", "order": "train-gossip"}),
    ("dis-pfl", {"degree": 2, "density": 0.3}),
    ("dis-pfl", {"degree": 2, "density": 0.3, "regrow": "gradient"}),
    ("feddpa", {"training": "phases", "threshold": "absolute", "noise": 1.0}),
    ("fedobp", {"q": 0.8, "score": "fisher", "norm": "layer"}),
    ("fedobp", {"q": 0.8, "score": "grad", "ema": 0.5, "first": "global"}),
    ("floco", {"endpoints": 3, "tau": 1}),
    ("floco", {"endpoints": 3, "tau": 1, "plus_epochs": 1}),
    ("fedper", {"newcomer": "global"}),
    ("flute", {"detach": True, "newcomer": "global", "mode": "flbench", "body_epochs": 1}),
    ("pfeddst", {"degree": 2}),
    ("pfeddst", {"degree": 2, "header_term": "literal", "refresh": "all"}),
    ("pfedfda", {"compat": "flbench"}),
    ("pfedfda", {"beta": "single"}),
]
BOTH = (contract.finite, contract.stacked, contract.billed, contract.blind)
"""Promises that are checked with all clients and without batch norm as well."""
PAIRS = [
    pytest.param(promise, case, id=f"{case.method}-{case.model}-{promise.__name__}")
    for case in CASES
    for promise in CONTRACT
    if case.model == "tiny-bn" or promise in BOTH
]
PROMISES = (
    contract.finite,
    contract.stacked,
    contract.billed,
    contract.unsent,
    contract.statistics,
)


@pytest.mark.parametrize(("promise", "case"), PAIRS)
def test_method_keeps(promise: Promise, case: Situation) -> None:
    promise(case)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p.__name__)
@pytest.mark.parametrize(("name", "hp"), SWITCHES, ids=str)
def test_switches_keep(promise: Promise, name: str, hp: dict[str, Any]) -> None:
    share = 1.0 if "p2p" in methods()[name].needs else 0.5
    promise(Situation(name, "tiny-bn", share, tuple(hp.items())))


@pytest.mark.parametrize("method", ["dfedavgm", "dfedpgp", "dis-pfl", "pfeddst"])
def test_everybody_takes_part_without_a_server(method: str) -> None:
    whole, half = (toys.run(method, participation=share) for share in (1.0, 0.5))
    assert all(torch.equal(value, half.state[name]) for name, value in whole.state.items())
