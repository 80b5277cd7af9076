"""FedSelect by its code's rules against lapisrocks/fedselect at 0949f8a.

Their `fedselect_algorithm` runs as it is: alternating training, growing masks, averaging over those
who share an entry, sending back, and scoring. Their loading of data is a stand-in that hands out
our batches; a wrapper around `train_personalized` notes what goes in and comes out. Their scoring
leaves the network in evaluation mode, so that from the second round on their batch norm trains on
its running statistics: `code-eval`. For `code` the wrapper puts it back into training mode. Not
compared: absent clients (theirs take part in every round), momentum and weight decay (their
optimiser has none), and clipping, an option of theirs that looks at all entries where our
protocol's looks at those in training.
"""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace as Named
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.conftest import Get
from tests.references.loaders import Batches, Passes, entire, epochs

SIZES, ROUNDS, LR = (9, 30, 14, 1, 22), 7, 0.1
STUBS: dict[str, dict[str, Any]] = {"torchvision": {}, "torchvision.models": {"resnet18": None}}
STUBS |= {"utils.train_utils": {"prepare_dataloaders": None, "get_data": None}}
Visit = tuple[Tensor, Tensor, Tensor]
"""A client's model and mask when its training begins, and its model when it ends."""
theirs = nets.headed("fc")


def their_run(
    monkeypatch: pytest.MonkeyPatch, fed: Federation, net: nn.Module, hp: dict[str, Any]
) -> tuple[list[Visit], Tensor]:
    """Every client's training in every round of theirs, client by client, and the accuracies
    thereafter  [ROUNDS, N].
    """
    code, visits = import_module("fedselect"), list[Visit]()
    train = code.train_personalized

    def watched(model: nn.Module, loader: Passes, mask: dict[str, Tensor], args: Any) -> Any:
        start = nets.join(fed, model.state_dict(), theirs)
        own = nets.join(fed, nets.split(fed, torch.zeros(fed.D), theirs) | mask, theirs) == 1
        done = train(model.train() if hp["mode"] == "code" else model, loader, mask, args)
        visits.append((start, own, nets.join(fed, model.state_dict(), theirs)))
        return done

    def prepare(_: Any, client: int, *__: Any) -> tuple[Passes, Batches]:
        return epochs(fed, client, len(visits) // fed.N + 1), entire(fed, client, "test")

    monkeypatch.setattr(code, "train_personalized", watched)
    monkeypatch.setattr(code, "prepare_dataloaders", prepare)
    args = Named(com_rounds=ROUNDS, lr=LR, la_epochs=fed.protocol.epochs, clipgradnorm=False)
    args.lth_epoch_iters = hp["every"]
    args.prune_percent, args.prune_target = 100 * hp["rate"], 100 * hp["limit"]
    clients = {client: client for client in range(fed.N)}
    done = code.fedselect_algorithm(net, args, None, None, clients, clients, None, list(clients))
    scores = done["client_accuracies"]
    return visits, torch.tensor([[float(score[client]) for client in clients] for score in scores])


@pytest.mark.parametrize(
    ("net", "hp"),
    [
        ("tiny", {"mode": "code", "rate": 0.6, "limit": 0.05, "every": 1}),
        ("tiny-bn", {"mode": "code", "rate": 0.25, "limit": 0.5, "every": 2}),
        ("tiny-bn", {"mode": "code", "rate": 0.25, "limit": 0.8, "every": 3}),
        ("tiny-bn", {"mode": "code-eval", "rate": 0.25, "limit": 0.5, "every": 2}),
    ],
)
def test_fedselect_by_the_codes_rules_is_the_authors_code(
    reference: Get, borrowed: Any, monkeypatch: pytest.MonkeyPatch, net: str, hp: dict[str, Any]
) -> None:
    borrowed(reference("lapisrocks/fedselect", "0949f8a"), STUBS)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    how: dict[str, Any] = {"sizes": SIZES, "rounds": 1, "dtype": torch.float64, "lr": LR}
    run = toys.run("fedselect", hp, model=net, buffers="local", **how)
    fed, start = run.fed, run.fed.new_models()
    mask = torch.zeros(fed.N, fed.D, dtype=torch.bool)
    network = nets.load(fed, nets.KINDS[net](fed, "fc").double(), fed.new_model(), theirs)
    visits, accuracies = their_run(monkeypatch, fed, network, hp)
    for round_ in range(ROUNDS):
        if round_:
            # the method updates its state in place
            start, mask = toys.everybody(run), run.state["mask"].clone()
            run.step()
        here = visits[round_ * fed.N : (round_ + 1) * fed.N]
        starts, masks, ends = map(torch.stack, zip(*here, strict=True))
        assert fed.trained is not None
        correct, total = fed.count_correct(fed.trained, "test")
        assert torch.equal(masks, mask)
        assert plain.apart(starts, start) < 1e-12
        assert plain.apart(ends, fed.trained) < 1e-12
        assert torch.allclose(accuracies[round_], correct / total)
    assert mask.any()
