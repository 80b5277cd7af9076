"""Methods without a server keep the contract on sparse graphs, and do not copy everybody's models
needlessly.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repfl.algorithms.core.method import methods
from repfl.algorithms.core.train import Rows
from repfl.bench.trust.contract import CONTRACT, Situation
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
    assert methods()[name].cls.serverless


@pytest.mark.parametrize("name", sorted({name for name, _ in VARIANTS}))
def test_training_overwrites_what_gossip_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At paper scale everybody's models fill gigabytes: a round holds the old ones and the new
    ones, and no third copy.
    """
    copies = []
    before = Rows.__init__

    def counted(rows: Rows, models: Any, *rest: Any, **more: Any) -> None:
        before(rows, models, *rest, **more)
        if len(models["w"]) == 20:  # smaller blocks may be copied
            copies.append(rows.models["w"].data_ptr() != models["w"].data_ptr())

    monkeypatch.setattr(Rows, "__init__", counted)
    toys.run(name, {"degree": 2}, sizes=(2,) * 20, rounds=1)
    assert copies
    assert not any(copies)
