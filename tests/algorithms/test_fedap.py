"""fedap: statistics of features, the images of its pretraining, mixing weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partialmethod

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms import fedap
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.math.channel_stats import channel_statistics
from tests.algorithms import plain, toys

BRIEF = {"pretrain_epochs": 2}


def federation(stack: int = 1) -> Federation:
    return toys.run("local", model="tiny-bn", dtype=torch.float64, rounds=1, stack=stack).fed


def maps_of(fed: Federation, flat: Tensor, client: int) -> dict[str, Tensor]:
    """Inputs and outputs of both BN layers for all training images of a
    client  [C, samples * positions] each.
    """
    p, found = plain.named(fed, flat), {}
    x = fed.data.inputs(fed.data.train[client])
    for layer in ("1", "2"):
        x = F.conv2d(x, p[f"conv{layer}.weight"], padding=1)
        found[f"in{layer}"] = x.transpose(0, 1).flatten(1)
        x = plain.batch_norm(p, f"bn{layer}", x)
        found[f"out{layer}"] = x.transpose(0, 1).flatten(1)
        x = F.max_pool2d(F.relu(x), 2)
    return found


@pytest.mark.parametrize(
    ("maps", "wanted"), [("ends", ("in1", "out2")), ("inputs", ("in1", "in2"))]
)
@pytest.mark.parametrize("stack", [1, 6])
def test_feature_statistics_are_those_of_all_samples_at_once(
    maps: str, wanted: tuple[str, ...], stack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plainly = Federation.for_each_batch
    monkeypatch.setattr(Federation, "for_each_batch", partialmethod(plainly, batch=9))
    fed = federation(stack)
    flat = fed.new_model(5).double()
    chosen = fedap.norm_maps(fed, maps)
    statistics, widths = channel_statistics(fed, flat.expand(fed.N, -1), chosen)
    mean, spread = (part.split(widths, 1) for part in statistics.chunk(2, dim=1))
    for client in (0, 1, 3, 4, 5):
        found = maps_of(fed, flat, client)
        for place, name in enumerate(wanted):
            assert plain.apart(found[name].mean(1), mean[place][client]) < 1e-12
            assert plain.apart(found[name].std(1, correction=0), spread[place][client]) < 1e-12
    assert not statistics[2].any()


def test_pretraining_data_are_the_first_share_of_each_class() -> None:
    fed = federation()
    held = torch.cat(list(fed.data.train)).sort().values
    found = set(fedap.pooled_samples(fed, 0.5, "train").tolist())
    for label in range(fed.classes):
        own = held[fed.data.labels[held] == label].tolist()
        assert found & set(own) == set(own[: len(own) // 2])
    everything = torch.cat([*fed.data.train, *fed.data.test])
    assert set(fedap.pooled_samples(fed, 1.0, "all").tolist()) == set(everything.tolist())
    assert not found & set(torch.cat(list(fed.data.test)).tolist())


def test_clients_with_the_same_images_are_as_close_as_can_be() -> None:
    held = toys.data((20, 20, 20))
    held = replace(held, train=[held.train[0], held.train[0], held.train[2]])
    run = toys.run("fedap", BRIEF, model="tiny-bn", clients_data=held, rounds=1)
    assert float(run.state["closeness"][0, 1]) == 1e14
    mixing = fedap.mixing_weights(run.state["closeness"], run.state["seen"], 0.4)
    assert mixing[0].tolist() == pytest.approx([0.4, 0.6, 0.0], abs=1e-10)


def test_mixing_weights_leave_out_who_sent_nothing() -> None:
    closeness = torch.full((4, 4), 3.0, dtype=torch.float64).fill_diagonal_(0)
    for sent, row in (([1, 0, 1, 0], [0.4, 0, 0.6, 0]), ([1, 0, 0, 0], [1, 0, 0, 0])):
        mixing = fedap.mixing_weights(closeness, torch.tensor(sent).bool(), 0.4)
        assert mixing[0].tolist() == pytest.approx(row, abs=1e-15)
