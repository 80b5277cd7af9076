"""LotteryFL as its code has it (`judge=test, freeze=magnitude`) against charleslipku/LotteryFL at
6b05c9c.

Theirs: masking, pruning by percentile, local training and accuracy (`LocalUpdate`), averaging over
holders and its mixing with the last global model; the driver calls these in the order of its
lotteryFL.py, whose loop is tied to its files. Ours: `tiny`, which has no batch norm (the code would
prune that, too), our batches in place of its loader, uniform weights, and its momentum of 0.5
without weight decay. Compared after every round: the trained models, the global one, masks,
remaining shares, and the models that are scored.

* Of the initial weights, a seventh is set below 1e-6, so that it shows what the code takes for
  pruned.
* Our nine test images per client are all among the eighty that its accuracy looks at.
* Its rewinding ties a model's biases to the stored initial ones, which training then overwrites;
  here it is handed copies, as ours stay.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.conftest import Get
from tests.references.loaders import entire, rounds

SIZES = (25, 7, 40, 1, 16)


class LogTiny(nets.Tiny):
    """`tiny` with the log-probabilities that their loss expects."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).log_softmax(1)


class Lottery:
    """Their server and clients."""

    def __init__(self, fed: Federation, start: float, percent: float, target: float) -> None:
        self.fed, self.start, self.percent, self.target = fed, start, percent, target
        self.utils, update = importlib.import_module("utils"), importlib.import_module("update")
        given = {"train_val_test": lambda self, loaders, _: loaders}
        self.client = type("Client", (update.LocalUpdate,), given)
        self.net = nets.load(fed, LogTiny(fed).double(), fed.new_model())
        self.initial = copy.deepcopy(self.net.state_dict())
        self.weights = self.net.state_dict()
        self.masks = [self.utils.make_mask(self.net) for _ in range(fed.N)]
        self.remaining = [1.0] * fed.N

    def scored(self, client: int) -> nn.Module:
        """The global model behind a client's mask."""
        net = copy.deepcopy(self.net)
        self.utils.mask_model(net, self.masks[client], net.state_dict())
        return net

    def local(self, client: int) -> dict[str, Tensor]:
        """A participant's part of a round, and its trained model."""
        fed, p, net = self.fed, self.fed.protocol, self.scored(client)
        train = plain.batches(fed, client, fed.round, p.epochs)
        loaders = (train, None, entire(fed, client, "test"))
        args = SimpleNamespace(dataset="toy", gpu=None, optimizer="sgd", lr=p.lr, local_ep=1)
        own = self.client(args, loaders, [], None)
        if own.inference(net)[0] > self.start and self.remaining[client] > self.target:
            self.utils.prune_by_percentile(net, self.masks[client], self.percent)
            self.remaining[client] *= 1 - self.percent / 100
            self.utils.mask_model(net, self.masks[client], copy.deepcopy(self.initial))
        return copy.deepcopy(own.update_weights(net, fed.round, "cpu")[0])

    def round(self) -> Tensor:
        """One round of those that our federation has called, and their trained models  [K, D]."""
        called = self.fed.active_ids
        ends = [self.local(client) for client in called]
        held = [copy.deepcopy(self.masks[client]) for client in called]
        mean = self.utils.average_weights_with_masks(copy.deepcopy(ends), held, "cpu")
        self.weights = self.utils.mix_global_weights(self.weights, mean, held, "cpu")
        self.net.load_state_dict(self.weights)
        return torch.stack([nets.join(self.fed, end) for end in ends])


def with_specks(new_model: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Initial values of which every seventh is tiny."""

    def planted(fed: Federation, *address: int) -> Tensor:
        flat = new_model(fed, *address).clone()
        flat[::7] *= 1e-6
        return flat

    return planted


# theirs: the mean of an entry that nobody holds
@pytest.mark.filterwarnings("ignore:invalid value encountered in divide")
@pytest.mark.parametrize(("participation", "share", "target"), [(1.0, 0.1, 0.5), (0.4, 0.3, 0.2)])
def test_lotteryfl_by_the_codes_options_is_the_authors_code(
    reference: Get,
    borrowed: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    participation: float,
    share: float,
    target: float,
) -> None:
    unused = {"datasets": None, "transforms": None, "__spec__": ModuleSpec("torchvision", None)}
    borrowed(reference("charleslipku/LotteryFL", "6b05c9c", "src") / "src", {"torchvision": unused})
    monkeypatch.setattr(Federation, "new_model", with_specks(Federation.new_model))
    hp = {"judge": "test", "freeze": "magnitude", "share": share, "start": 0.5, "target": target}
    protocol: dict[str, Any] = {"weighting": "uniform", "momentum": 0.5, "lr": 0.1}
    how = {"sizes": SIZES, "dtype": torch.float64, "rounds": 1, "participation": participation}
    run = toys.run("lotteryfl", hp, **how, **protocol)
    fed, theirs, pruned = run.fed, Lottery(run.fed, 0.5, 100 * share, target), set()
    prunable = fed.params.select(lambda s: s.name.endswith("weight"))
    for _ in rounds(run, 9):
        ends = theirs.round()
        assert fed.trained is not None
        assert plain.apart(ends, fed.trained) < 1e-9
        assert plain.apart(nets.join(fed, theirs.weights), run.state["theta"]) < 1e-9
        scored = [nets.join(fed, theirs.scored(c).state_dict()) for c in range(fed.N)]
        assert plain.apart(torch.stack(scored), toys.everybody(run)) < 1e-9
        masks = [torch.cat([torch.from_numpy(m).flatten() for m in each]) for each in theirs.masks]
        assert torch.equal(torch.stack(masks).bool(), run.state["mask"][:, prunable])
        assert run.state["remaining"].tolist() == pytest.approx(theirs.remaining, rel=1e-12)
        pruned.add(fed.logged["pruned"])
    assert len(pruned) > 1
