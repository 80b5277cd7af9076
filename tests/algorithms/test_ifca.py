"""ifca: a plain transcription, limiting cases, bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40, 12)
CLUSTERS = 3


def best(fed: Federation, models: list[Tensor], client: int) -> int:
    """The model with the least loss on a client's training samples."""
    index = fed.data.train[client]
    x, y = fed.data.inputs(index), fed.data.labels[index]
    losses = [float(plain.still(plain.named(fed, w), x, y)) for w in models]
    return losses.index(min(losses))


def test_ifca_follows_its_plain_transcription() -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "buffers": "global", "participation": 0.6}
    hp = {"clusters": CLUSTERS}
    run = toys.run("ifca", hp, sizes=SIZES, dtype=torch.float64, rounds=4, **how)
    fed, used = run.fed, set()
    models = [fed.new_model(), fed.new_model(1), fed.new_model(2)]
    for round_ in (1, 2, 3, 4):
        fed.begin(round_)
        groups: dict[int, list[int]] = {}
        for client in fed.active_ids:
            groups.setdefault(best(fed, models, client), []).append(client)
        used |= groups.keys()
        for j, members in groups.items():
            ends = [plain.train(fed, models[j], client, round_)[0] for client in members]
            shares = plain.weights(fed, members)
            models[j] = sum(p * end for p, end in zip(shares, ends, strict=True))  # type: ignore[assignment]
    assert len(used) > 1
    assert plain.apart(torch.stack(models), run.state["theta"]) < 1e-9
    scored = toys.everybody(run)
    for client in range(len(SIZES)):
        assert plain.apart(models[best(fed, models, client)], scored[client]) < 1e-9


@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
def test_one_cluster_is_fedavg(model: str) -> None:
    how: dict[str, Any] = {"model": model, "participation": 0.5, "dtype": torch.float64}
    one, avg = toys.run("ifca", {"clusters": 1}, **how), toys.run("fedavg", **how)
    assert plain.apart(avg.state["theta"], one.state["theta"][0]) < 1e-12
    assert plain.apart(toys.everybody(avg), toys.everybody(one)) < 1e-12


def test_all_models_go_down_and_one_up_with_its_number() -> None:
    run = toys.run("ifca", {"clusters": CLUSTERS}, model="tiny-bn", participation=0.5)
    floats = run.fed.K * run.fed.params.parameters
    assert toys.traffic(run, "down_values") == [4 * CLUSTERS * floats] * 3
    assert toys.traffic(run, "up_values") == [4 * (floats + run.fed.K)] * 3
