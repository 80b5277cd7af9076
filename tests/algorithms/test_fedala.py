"""fedala: limiting cases, plain transcriptions with a worker per client and with one for all,
bytes.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain, toys


class Aggregator:
    """Model, weights and flag of a worker in the transcription."""

    def __init__(self, fed: Federation) -> None:
        self.w, self.searched, self.passes = fed.new_model(), False, 0
        self.weights = torch.ones(fed.D, dtype=torch.float64)

    def aggregated(
        self, fed: Federation, theta: Tensor, client: int, *, random: bool, keeps_flag: bool
    ) -> Tensor:
        """What a client starts from; the weights of the last two tensors move."""
        first = slice(0, fed.params.slices[0].stop)
        merged = torch.where(fed.params.learnable, theta, self.w)
        if float((merged - self.w)[first].sum()) == 0:
            self.searched |= not keeps_flag
            return merged
        start = sum(s.size for s in fed.params if not s.head)
        top = slice(start, fed.D)
        samples = self.samples(fed, client, random)
        losses: list[float] = []
        while True:
            for rows in samples.split(fed.protocol.batch):
                merged[top] = (self.w + self.weights * (theta - self.w))[top]
                x, y = fed.data.inputs(rows), fed.data.labels[rows]
                loss = plain.still(plain.named(fed, merged), x, y)
                g = plain.gradient(fed, merged, x, y, plain.still)
                self.weights[top] = (self.weights - g * (theta - self.w))[top].clamp(0, 1)
            losses.append(float(loss))
            settled = len(losses) > 10 and float(torch.tensor(losses[-10:]).std(correction=0)) < 0.1
            if self.searched or settled:
                break
        self.searched, self.passes = True, len(losses)
        merged[top] = (self.w + self.weights * (theta - self.w))[top]
        return merged

    def samples(self, fed: Federation, client: int, random: bool) -> Tensor:
        own, rng = fed.data.train[client], fed.rng("subset", client)
        count = int(0.8 * len(own))
        first = int(rng.integers(0, len(own) - count + 1))
        if random:
            return own[torch.from_numpy(rng.permutation(len(own))[:count])]
        return own[first : first + count]


@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
@pytest.mark.parametrize("shared", [False, True])
def test_it_follows_its_plain_transcription(model: str, shared: bool) -> None:
    hp = {"worker": "shared", "subset": "random"} if shared else {}
    how: dict[str, Any] = {"sizes": (25, 16, 9), "dtype": torch.float64, "lr": 0.2}
    run = toys.run("fedala", hp, model=model, **how)
    fed = run.fed
    workers = [Aggregator(fed)] * 3 if shared else [Aggregator(fed) for _ in range(3)]
    theta, searches = fed.new_model(), []
    for round_ in (1, 2, 3):
        fed.round, ends = round_, []
        for client, worker in enumerate(workers):
            start = worker.aggregated(fed, theta, client, random=shared, keeps_flag=not shared)
            searches.append(worker.passes)
            worker.w, _ = plain.train(fed, start, client, round_)
            ends.append(worker.w)
        theta = sum(p * w for p, w in zip(plain.weights(fed, [0, 1, 2]), ends, strict=True))
    kept = [workers[0]] if shared else workers
    head, learnable = fed.params.head, fed.params.learnable
    weights = torch.stack([worker.weights[head] for worker in kept])
    assert plain.apart(theta[learnable], run.state["theta"][learnable]) < 1e-9
    assert plain.apart(torch.stack([worker.w for worker in kept]), run.state["w"]) < 1e-9
    assert plain.apart(weights, run.state["weights"]) < 1e-9
    assert max(searches) == 1 if shared else min(searches[3:6]) >= 11
    assert bool((run.state["weights"] < 1).any())


@pytest.mark.parametrize(
    ("hp", "expected"), [({"threshold": 0.0, "passes": 17}, 17), ({"threshold": 1e9}, 11)]
)
def test_the_first_search_takes_eleven_passes_at_least_and_its_limit_at_most(
    hp: dict[str, float], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    visit = Federation.for_each_batch
    run = toys.run("fedala", hp, rounds=1, evaluation={"every": 0}, stack=6)

    def counted(*args: Any, **how: Any) -> Any:
        passes.append(1)
        return visit(*args, **how)

    monkeypatch.setattr(Federation, "for_each_batch", counted)
    toys.everybody(run)
    assert len(passes) == expected


def test_the_shared_worker_serves_participants_as_they_were_drawn() -> None:
    how: dict[str, Any] = {"participation": 0.5, "sampling": "flbench", "rounds": 1}
    run = toys.run("fedala", {"worker": "shared", "subset": "random"}, sizes=(25,) * 8, **how)
    drawn, rows = run.fed.sampled, run.fed.active_ids
    assert drawn != rows
    assert torch.equal(run.state["w"][0], run.fed.trained[rows.index(drawn[-1])])
