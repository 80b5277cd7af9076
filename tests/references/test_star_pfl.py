"""Star-PFL as its code has it (`masked=weights, cap=0.7, early=6, halving=code`) against
Guoyeting/Star-PFL at 0565c53.

Theirs: a `fedstar` with its stability, masked training, records, checks and aggregation; the driver
calls these in the order of its main.py, whose loop is tied to its files. Ours: `tiny-bn` in place
of their LeNet-5, our batches, uniform weights, averaged statistics. Compared after every round:
trained models, the server's, and both sides' masks, trials, periods and waiting times, entry by
entry.

* Their "no record yet" is a record whose sum is 0, which for a last layer, whose gradients add up
  to nothing, is a matter of rounding; `magnitudes` makes it a record without entries
  (paper_tables/star_pfl/README.md, 11).
* Theirs averages values, ours updates: with a third each, an entry that nobody trained may move by
  its last bit. So two take part.
* The code calls everybody; where we call some, its aggregation is handed these alone. It has no
  momentum and no weight decay.
"""

from __future__ import annotations

import copy
import importlib
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.conftest import Get
from tests.references.loaders import exact, rounds

CODE: dict[str, Any] = {"masked": "weights", "cap": 0.7, "early": 6, "halving": "code"}
EPOCHS, ROUNDS = 7, 12
"""One more than the code records at a client, two more than it remembers at the server."""
BOOKS = {"mask": "active", "mask_check": "trial", "freq": "period", "length": "frozen"}


@pytest.fixture
def fedstar(
    reference: Get, borrowed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Federation, float, float], Any]:
    """Their algorithm with our network, in doubles, for the clients of a federation."""

    def build(fed: Federation, server: float, client: float) -> Any:
        net = nets.load(fed, nets.TinyBN(fed), fed.new_model())
        network = {"network": {}, "network.models": {"lenet5v": lambda: net}}
        data = {"datautil": {}, "datautil.prepare_data": {"get_whole_dataset": None}}
        borrowed(reference("Guoyeting/Star-PFL", "0565c53", "alg"), network | data)
        monkeypatch.setattr(importlib.import_module("alg.utils"), "torch", magnitudes())
        said = {"n_clients": fed.N, "device": "cpu", "lr": fed.protocol.lr}
        args = types.SimpleNamespace(**said, thrs_g=server, thrs_c=client)
        theirs = importlib.import_module("alg.starfl").fedstar(args)
        for periods in sides(theirs, "freq"):  # its halving puts floats into them
            periods.update({name: value.float() for name, value in periods.items()})
        return theirs

    return build


def magnitudes() -> types.ModuleType:
    """PyTorch for their stability, which asks `torch.sum` for one thing only: whether a record is
    empty.
    """
    namespace = types.ModuleType("torch")
    namespace.__dict__.update(torch.__dict__, sum=lambda record: record.abs().sum())
    return namespace


def sides(theirs: Any, book: str) -> list[dict[str, Tensor]]:
    """The server's and the clients' bookkeeping of a name."""
    return [getattr(theirs, f"{book}_g"), *getattr(theirs, f"{book}_c")]


def moved(net: nn.Module, move: Callable[[], Any]) -> dict[str, Tensor]:
    """What a network's parameters were, less what they have become."""
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    move()
    return {name: before[name] - value.detach() for name, value in net.named_parameters()}


def local(theirs: Any, fed: Federation, client: int) -> None:
    """A participant's part of a round."""
    theirs.measure_staiblity_client(client)
    theirs.clear_record(client)
    for epoch in range(EPOCHS):
        batches = exact(plain.batches(fed, client, fed.round, 1, first=epoch))
        train = partial(theirs.client_train, client, batches, fed.round)
        update = moved(theirs.client_model[client], train)
        if epoch <= theirs.rec_c_l:
            theirs.update_record_client(client, update)
    theirs.check_stability_client(client)


def round_of(theirs: Any, fed: Federation) -> None:
    """One round of those that our federation has called."""
    called = fed.active_ids
    theirs.measure_staiblity_server()
    theirs.broadcast_parameter()
    for client in called:
        local(theirs, fed, client)
    few = copy.copy(theirs)
    few.args = types.SimpleNamespace(**{**vars(theirs.args), "n_clients": len(called)})
    few.client_model = [theirs.client_model[c] for c in called]
    few.mask_c = [theirs.mask_c[c] for c in called]
    theirs.update_record_server(moved(theirs.server_model, few.server_aggre))
    theirs.check_stability_server()


@pytest.mark.parametrize(
    ("sizes", "participation", "server", "client"),
    [((25, 7), 1.0, 0.1, 0.1), ((25, 7, 40, 16), 0.5, 0.6, 0.4), ((25, 7, 40, 16), 0.5, 0.0, 0.0)],
    ids=["everybody", "half", "half, the README's thresholds"],
)
def test_star_pfl_by_the_codes_options_is_the_authors_code(
    fedstar: Callable[..., Any],
    sizes: tuple[int, ...],
    participation: float,
    server: float,
    client: float,
) -> None:
    hp = CODE | {"server_threshold": server, "client_threshold": client}
    how: dict[str, Any] = {"model": "tiny-bn", "sizes": sizes, "dtype": torch.float64, "rounds": 1}
    protocol = {"epochs": EPOCHS, "batch": 16, "weighting": "uniform", "buffers": "global"}
    protocol |= {"participation": participation, "evaluation": {"every": 0}}
    run = toys.run("star-pfl", hp, **how, **protocol)
    fed, theirs = run.fed, fedstar(run.fed, server, client)
    for _ in rounds(run, ROUNDS):
        round_of(theirs, fed)
        ends = [nets.join(fed, theirs.client_model[c].state_dict()) for c in fed.active_ids]
        average = nets.join(fed, theirs.server_model.state_dict())
        assert fed.trained is not None
        assert plain.apart(torch.stack(ends), fed.trained) < 1e-9
        assert plain.apart(average, run.state["theta"]) < 1e-9
        for book, name in BOOKS.items():
            found = [torch.cat([v.flatten() for v in s.values()]) for s in sides(theirs, book)]
            ours = torch.cat([run.state[f"server.{name}"], run.state[f"client.{name}"]])
            learnable = ours[:, fed.params.learnable]
            assert torch.equal(torch.stack(found).long(), learnable.long())
    assert bool((run.state["client.period"] == 0).any())
