"""What tests of methods without a server share."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from repfl.algorithms.core.topology import Topology

SIZES = (25, 16, 9, 12, 30, 8)


def topology_at(fed: Federation, round_: int) -> Topology:
    """The graphs of a round that is over."""
    return Topology(fed.N, lambda purpose: fed.streams.at(f"method/{purpose}", round_), fed.device)


def senders(graph: Tensor, client: int) -> list[int]:
    """Whom a client hears, itself first."""
    return [client, *graph[client].nonzero().flatten().tolist()]


def notes(run: Run, name: str) -> list[float]:
    """A note, round by round."""
    return [value for _, noted, value in run.rows if noted == f"note/{name}"]
