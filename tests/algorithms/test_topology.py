"""Graphs without a server, and the weights on them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.topology import Topology
from repfl.algorithms.engine.rng import Streams, splitmix64


def graphs(clients: int, round_: int = 1) -> Topology:
    streams = Streams(0)
    return Topology(clients, lambda purpose: streams.at(purpose, round_), torch.device("cpu"))


def values(*shape: int) -> Tensor:
    return torch.from_numpy(Streams(0).at("values").standard_normal(shape))


@pytest.mark.parametrize(("clients", "degree"), [(20, 3), (6, 10), (1, 10), (7, 0)])
def test_everybody_pulls_from_as_many_others_as_asked(clients: int, degree: int) -> None:
    graph = graphs(clients).pull(degree)
    assert graph.sum(1).tolist() == [min(degree, clients - 1)] * clients
    assert not graph.diagonal().any()
    assert torch.equal(graphs(clients).graph("push", degree), graph.T)


@pytest.mark.parametrize(
    ("clients", "degree"),
    [(100, 10), (20, 3), (20, 15), (10, 9), (6, 2), (5, 4), (2, 1), (1, 3), (9, 0), (4, 1)],
)
def test_a_regular_graph_is_symmetric_and_regular(clients: int, degree: int) -> None:
    graph = graphs(clients).regular(degree)
    assert torch.equal(graph, graph.T)
    assert not graph.diagonal().any()
    assert graph.sum(1).tolist() == [min(degree, clients - 1)] * clients


@pytest.mark.parametrize(("clients", "degree"), [(11, 5), (11, 7)])
def test_where_no_regular_graph_exists_one_client_is_off_by_one(clients: int, degree: int) -> None:
    off = (graphs(clients).regular(degree).sum(1) - degree).abs()
    assert off.sum() == 1


@pytest.mark.parametrize("kind", ["regular", "ring", "complete", "none"])
def test_mixing_on_undirected_graphs_is_symmetric_and_doubly_stochastic(
    kind: topology.Graph,
) -> None:
    for clients in (1, 2, 3, 11):
        mixing = graphs(clients).mixing(kind, 5)
        assert torch.equal(mixing, mixing.T)
        assert torch.allclose(mixing.sum(0), torch.ones(clients, dtype=mixing.dtype))
        assert bool((mixing >= 0).all())


def test_a_round_has_one_graph_and_the_next_another() -> None:
    assert torch.equal(graphs(30).pull(4), graphs(30).pull(4))
    assert not torch.equal(graphs(30).pull(4), graphs(30, round_=2).pull(4))
    assert not torch.equal(graphs(30).regular(4), graphs(30, round_=2).regular(4))


def test_mixing_in_blocks_is_mixing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weights = values(6, 50), graphs(6).mixing("pull", 3)
    held = values(6, 50) > 0
    for mask, renormalise in ((held[0], False), (held, False), (held, True)):
        found = []
        for at_once in (6 * 50, 6 * 7):
            monkeypatch.setattr(topology, "MIXED_AT_ONCE", at_once)
            found.append(topology.mix(x, weights, mask, renormalise=renormalise))
        assert torch.allclose(*found, rtol=1e-14, atol=1e-14)


def test_lots_are_the_splitmix64_stream_of_their_key() -> None:
    """Against the generator as published: 64-bit words, a golden-ratio counter, two
    multiply-and-shift rounds.
    """
    word = (1 << 64) - 1
    keys = torch.tensor([0, 1234567, -5])
    for key, row in zip(keys.tolist(), splitmix64(keys, 0, 20), strict=True):
        state, expected = key & word, []
        for _ in range(20):
            state = (state + 0x9E3779B97F4A7C15) & word
            z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & word
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
            expected.append(z ^ (z >> 31))
        assert [value & word for value in row.tolist()] == expected
    assert splitmix64(torch.tensor([1234567]), 0, 1).item() == 6457827717110365317
    assert torch.equal(splitmix64(keys, 13, 7), splitmix64(keys, 0, 20)[:, 13:])
