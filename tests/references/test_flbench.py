"""Methods by FL-bench's rules, and its draw of participants, against FL-bench itself.

The logs of FedOBP's authors are of it. How its experiments run here is said in `flbench.py`. Not
compared: BN and FLOCO+.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client
from repfl.algorithms.fedala import FedALA, FLBenchsFedALA, draw_subset
from repfl.algorithms.fedbabu import FedBABU
from repfl.algorithms.math.gaussian import folds
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.flbench import (
    SIZES,
    Bench,
    alike,
    average,
    ours,
    scored,
    start,
    theirs,
    watched,
)


def test_participants_are_drawn_as_flbench_draws_them(bench: Bench) -> None:
    run = ours("fedper", {"newcomer": "global"})
    server, drawn = bench("fedper", "FedPerServer", run), []
    for round_ in range(1, run.round + 1):
        run.fed.begin(round_)
        drawn.append(run.fed.sampled)
    assert drawn == server.client_sample_stream
    assert drawn != [sorted(clients) for clients in drawn]


def test_apfl_by_flbenchs_rules_is_flbench(bench: Bench) -> None:
    run = ours("apfl", {"mode": "flbench"})
    server = bench("apfl", "APFLServer", run)
    server.train()
    fed, held = run.fed, server.client_local_model_params
    own = torch.stack([nets.join(fed, held[c], theirs) for c in range(fed.N)])
    alphas = torch.stack([server.client_alphas[c] for c in range(fed.N)])
    assert alike(server, run)
    assert plain.apart(own, run.state["v"]) < 1e-9
    assert plain.apart(alphas, run.state["alpha"]) < 1e-9
    assert alphas.unique().numel() > 3


def test_floco_is_flbench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints start and points of the simplex are drawn as ours; projection, places and training
    are FL-bench's.
    """
    run = ours("floco", {"endpoints": 3, "tau": 2}, sizes=toys.RAGGED, skip_single=False)
    server, fed = bench("floco", "FlocoServer", run, endpoints=3, tau=2), run.fed
    streams: dict[tuple[str, int, int], np.random.Generator] = {}
    ends = {f"classifier._weights.{v}": end.clone() for v, end in enumerate(start(run)["ends"])}
    server.public_model_params.update(nets.split(fed, fed.new_model(), theirs) | ends)

    def draws(purpose: str = "") -> np.random.Generator:
        first = "projection" if server.selected_clients is server.train_clients else "simplex"
        round_, client = server.current_epoch + 1, server.trainer.worker.client_id
        where = (f"method/{first}{purpose}", round_, client)
        return streams.setdefault(where, fed.streams.at(*where))

    def uniform(low: float, high: float, size: int | None = None) -> Any:
        return draws("/radius" if size is None else "").uniform(low, high, size)

    def exponential(scale: float, size: int) -> Any:
        return draws().standard_exponential(size)

    monkeypatch.setattr(np.random, "exponential", exponential)
    monkeypatch.setattr(np.random, "uniform", uniform)
    server.train()
    new_ends = torch.stack([server.public_model_params[name] for name in ends])
    assert alike(server, run)
    assert plain.apart(torch.from_numpy(server.projected_clients), run.state["places"]) < 1e-9
    assert plain.apart(new_ends, run.state["ends"]) < 1e-9


FEW = {"participation": 0.34, "rounds": 4}
"""Somebody never takes part, and has the average of the others' personal layers."""
FLUTE = {"mode": "flbench", "body_epochs": 1}


@pytest.mark.parametrize(
    ("method", "name", "kind", "hp", "protocol"),
    [
        ("lg-fedavg", "lgfedavg", "LGFedAvgServer", {"shared": "first"}, FEW),
        ("fedper", "fedper", "FedPerServer", {}, FEW),
        ("fedrep", "fedrep", "FedRepServer", {}, FEW),
        # as it is, and without its defect: features that stay attached to the body
        ("flute", "flute", "FLUTEServer", FLUTE | {"detach": True}, {}),
        ("flute", "flute", "FLUTEServer", FLUTE | {"detach": False}, {}),
    ],
)
def test_methods_that_average_a_part_are_flbench(
    bench: Bench, method: str, name: str, kind: str, hp: dict[str, Any], protocol: dict[str, Any]
) -> None:
    run = ours(method, {"newcomer": "global", **hp}, sizes=toys.RAGGED, **protocol)
    assert not protocol or not bool(run.state["seen"].all())
    server = bench(name, kind, run)
    model = importlib.import_module("src.utils.models").DecoupledModel
    model.get_last_features.__defaults__ = (hp.get("detach", True),)
    server.train()
    assert alike(server, run)
    assert plain.apart(scored(server, run.fed), toys.everybody(run)) < 1e-9


@pytest.mark.parametrize("beta", ["local", "single", "two"])
def test_pfedfda_by_flbenchs_rules_is_flbench(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, beta: str
) -> None:
    """Training, and the heads that are scored: global means start as ours, folds are dealt as ours,
    priors are kept in double precision.
    """
    run = ours("pfedfda", {"compat": "flbench", "beta": beta}, sizes=SIZES)
    fed, means = run.fed, start(run)["means"]
    monkeypatch.setattr(torch, "rand", lambda *_: means.clone())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    options = {"local_beta": beta == "local", "single_beta": beta == "single"}
    server = bench("pfedfda", "pFedFDAServer", run, eps=1e-4, **options)
    order = torch.from_numpy(fed.streams.at("method/folds", run.round).random(max(SIZES)).argsort())

    def split(features: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        held = fed.data.labels[fed.data.train[server.trainer.worker.client_id]]
        padded = nn.functional.pad(held, (0, max(SIZES) - len(held)), value=-1)
        dealt = folds(padded[None], order, fed.classes)[0, : len(held)]
        dealt = dealt[dealt >= 0]
        assert len(dealt) == len(labels)
        parts = [(dealt == fold).nonzero()[:, 0] for fold in (0, 1)]
        return iter([(parts[1], parts[0]), (parts[0], parts[1])])

    module = importlib.import_module("src.client.pfedfda")
    monkeypatch.setattr(module, "StratifiedKFold", lambda **_: SimpleNamespace(split=split))
    server.train()
    assert alike(server, run)
    assert plain.apart(server.global_means, run.state["means"]) < 1e-9
    assert plain.apart(scored(server, fed), toys.everybody(run)) < 1e-9


def test_local_training_is_flbench(bench: Bench) -> None:
    run = ours("local", {}, sizes=SIZES)
    server = bench("local", "LocalServer", run)
    server.train()
    assert plain.apart(scored(server, run.fed), toys.everybody(run)) < 1e-9


def test_ditto_is_flbench(bench: Bench) -> None:
    """Its second branch has the batches of the first here. It trains on batches of one sample,
    which the first leaves out: none here.
    """
    run = ours("ditto", {"lam": 0.7}, sizes=(24, 7, 18, 40, 10, 16))
    server = bench("ditto", "DittoServer", run, pers_epoch=2, lamda=0.7)
    server.trainer.worker.trainloader.again = 2
    server.train()
    assert alike(server, run)
    assert plain.apart(scored(server, run.fed, of="pers_model"), toys.everybody(run)) < 1e-9


class DecayedHead(FedBABU):
    """The head has no gradient, but weight decay moves it, and it is averaged."""

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.communicated

    def local_update(self, fed: Federation, params: Tensor) -> Tensor:
        return fed.train(params, step=self.step)

    def step(self, client: Client, batch: Batch) -> None:
        grads = client.grad(batch)
        client.update({name: g * (not name.startswith("fc2")) for name, g in grads.items()})


@pytest.mark.parametrize(
    ("method", "name", "kind", "weight_decay"),
    [
        ("fedavg-ft", "fedavg", "FedAvgServer", 0.01),
        ("fedbabu", "fedbabu", "FedBabuServer", 0.0),
        (DecayedHead(FedBABU.HP(epochs=3)), "fedbabu", "FedBabuServer", 0.01),
    ],
)
def test_methods_that_tune_before_scoring_are_flbench(
    bench: Bench, method: Any, name: str, kind: str, weight_decay: float
) -> None:
    run = ours(method, {"epochs": 3}, sizes=SIZES, weight_decay=weight_decay)
    server = bench(name, kind, run, test={"interval": run.round, "finetune_epoch": 3})
    seen = watched(server, run.fed)
    server.train()
    tuned = torch.stack(seen[1::2])
    assert plain.apart(average(server, run), run.state["theta"]) < 1e-9
    assert plain.apart(tuned, toys.everybody(run)) < 1e-9
    if isinstance(method, DecayedHead):
        defined = ours("fedbabu", {"epochs": 3}, sizes=SIZES)
        assert plain.apart(tuned, toys.everybody(defined)) > 1e-3


# -- departures ------------------------------------------------------------------------------------

ALPHA = 0.3


@pytest.mark.parametrize("decay", [ALPHA, 0.0])
def test_feddyn_is_flbench_with_alpha_as_weight_decay(bench: Bench, decay: float) -> None:
    """Without it, FL-bench's loss has the linear terms alone."""
    run = ours("feddyn", {"alpha": ALPHA}, sizes=SIZES, weight_decay=0.0)
    server = bench("feddyn", "FedDynServer", run, alpha=ALPHA, max_grad_norm=1e9)
    worker = server.trainer.worker
    for state in (worker.optimizer.state_dict(), worker.init_optimizer_state):
        state["param_groups"][0]["weight_decay"] = decay
    server.train()
    distance = plain.apart(average(server, run), run.state["theta"])
    assert distance < 1e-9 if decay else distance > 1e-3
    assert decay == 0 or plain.apart(server.nabla, run.state["h_own"]) < 1e-9
    other = toys.run("fedavg", sizes=SIZES, dtype=torch.float64)
    assert plain.apart(run.state["theta"], other.state["theta"]) > 1e-3


SHARED: dict[str, Any] = {"worker": "shared", "subset": "random"}


def picked(monkeypatch: pytest.MonkeyPatch, server: Any, run: Any) -> None:
    """Let FL-bench search on our random subsets."""

    def shuffle(held: list[int]) -> None:
        run.fed.round = server.current_epoch + 1
        subset = draw_subset(run.fed, server.trainer.worker.client_id, 0.8, "random")
        first = [held[i] for i in subset]
        held.sort(key=lambda index: first.index(index) if index in first else len(first))

    client = importlib.import_module("src.client.fedala")
    monkeypatch.setattr(client, "random", SimpleNamespace(shuffle=shuffle))


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_fedala_with_one_worker_for_all_is_flbench(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, momentum: float
) -> None:
    """Its random subsets are ours; scored models agree for the client whom FL-bench scores first,
    since scoring moves its worker on.

    It keeps momentum from a client's last round, in this method alone. Ours does not, so where
    there is momentum, that is forgotten here.
    """
    run: Any = ours("fedala", SHARED, sizes=SIZES, momentum=momentum)
    server = bench("fedala", "FedALAServer", run)
    worker = server.trainer.worker
    if momentum:
        package = worker.package
        monkeypatch.setattr(worker, "package", lambda: package() | {"optimizer_state": {}})

    picked(monkeypatch, server, run)
    server.train()
    held = nets.join(run.fed, worker.model.state_dict(), theirs)
    weights = torch.cat([part.flatten() for part in worker.weights])
    assert plain.apart(average(server, run), run.state["theta"]) < 1e-9
    assert plain.apart(held, run.state["w"][0]) < 1e-9
    assert plain.apart(weights, run.state["weights"][0]) < 1e-9
    assert int((run.state["weights"] < 1).sum()) > 50
    assert plain.apart(scored(server, run.fed, 1), toys.everybody(run)[:1]) < 1e-9


class MovedByScoring(FLBenchsFedALA):
    """The worker serves clients at scoring as it does in training, so it is another one for the
    next of them, and for the next round.

    The first client leaves it with the global model's lower layers. So the second finds no
    difference in the first tensor, takes the global model and searches nothing; and so do all after
    it.
    """

    def round(self, state: State, fed: Federation) -> State:
        worker, rows = super().round(state, fed), []
        for client in range(fed.N):
            with fed.as_active([client]):
                theta = worker["theta"][None]
                worker["w"], worker["weights"], _ = self.aggregate(worker, fed, theta)
                rows.append(worker["w"])
        return worker | {"scored": torch.cat(rows)}

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["scored"][fed.active]


def test_scoring_moves_flbenchs_worker_on_so_all_but_the_first_are_scored_with_the_global_model(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Any = ours(MovedByScoring(FedALA.HP(**SHARED)), {}, sizes=SIZES, momentum=0.0)
    server, fed = bench("fedala", "FedALAServer", run, test={"interval": 1}), run.fed
    seen = watched(server, fed)
    picked(monkeypatch, server, run)
    server.train()
    theta, models = average(server, run), torch.stack(seen[-fed.N :])
    assert len(seen) == run.round * fed.N
    assert plain.apart(theta, run.state["theta"]) < 1e-9
    assert plain.apart(models, toys.everybody(run)) < 1e-9
    assert models[1:].equal(theta.expand(fed.N - 1, -1))
    unmoved = toys.everybody(ours("fedala", SHARED, sizes=SIZES, momentum=0.0))
    assert plain.apart(models[1:], unmoved[1:]) > 1e-3
