"""`fedala` with one worker for all clients against FL-bench itself: what it trains, and what it
scores.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State
from repfl.algorithms.fedala import FedALA, draw_subset
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.flbench import SIZES, Bench, average, ours, scored, theirs, watched

HP: dict[str, Any] = {"worker": "shared", "subset": "random"}


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
    run: Any = ours("fedala", HP, sizes=SIZES, momentum=momentum)
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


class MovedByScoring(FedALA):
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
    run: Any = ours(MovedByScoring(FedALA.HP(**HP)), {}, sizes=SIZES, momentum=0.0)
    server, fed = bench("fedala", "FedALAServer", run, test={"interval": 1}), run.fed
    seen = watched(server, fed)
    picked(monkeypatch, server, run)
    server.train()
    theta, models = average(server, run), torch.stack(seen[-fed.N :])
    assert len(seen) == run.round * fed.N
    assert plain.apart(theta, run.state["theta"]) < 1e-9
    assert plain.apart(models, toys.everybody(run)) < 1e-9
    assert models[1:].equal(theta.expand(fed.N - 1, -1))
    unmoved = toys.everybody(ours("fedala", HP, sizes=SIZES, momentum=0.0))
    assert plain.apart(models[1:], unmoved[1:]) > 1e-3
