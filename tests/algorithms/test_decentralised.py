"""Methods without a server keep the contract on sparse graphs, and all clients take part."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repfl.algorithms.core.method import methods
from repfl.bench.check.contract import CONTRACT, Situation
from tests.algorithms import toys

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("dfedavgm", {}),
    ("dfedavgm", {"graph": "regular", "order": "train-gossip"}),
    ("dfedavgm", {"graph": "regular", "order": "train-gossip", "bits": 8}),
    ("dfedpgp", {}),
    ("dfedpgp", {"push_sum": False, "graph": "pull", "order": "train-gossip"}),
    ("dis-pfl", {"density": 0.3}),
    ("dis-pfl", {"density": 0.3, "regrow": "gradient"}),
    ("pfeddst", {}),
    ("pfeddst", {"header_term": "literal", "refresh": "all"}),
]


@pytest.mark.parametrize(
    ("name", "hp"),
    VARIANTS,
    ids=lambda v: v if isinstance(v, str) else "-".join(map(str, v.values())),
)
@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
@pytest.mark.parametrize("promise", CONTRACT, ids=lambda p: p.__name__)
def test_the_contract_holds_on_sparse_graphs(
    promise: Any, model: str, name: str, hp: dict[str, Any]
) -> None:
    promise(Situation(name, model, 1.0, (("degree", 2), *hp.items())))


@pytest.mark.parametrize("name", sorted({name for name, _ in VARIANTS}))
def test_everybody_takes_part_whatever_the_participation(name: str) -> None:
    one, other = (toys.run(name, {"degree": 2}, participation=share) for share in (1.0, 0.2))
    assert all(torch.equal(one.state[key], other.state[key]) for key in one.state)
    assert methods()[name].cls.decentralised
