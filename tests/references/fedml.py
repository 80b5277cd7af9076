"""The loop that the codes of Dis-PFL and pDFL have in common, with our graphs and batches.

The clip of 10, which is written into their training, is the protocol's; images are stretched, so
that it holds gradients back.
"""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from tests.algorithms import peers, plain, toys
from tests.references.loaders import Passes, entire

LOG = logging.getLogger(__name__)
PROTOCOL: dict[str, Any] = {"lr": 0.005, "lr_decay": 0.7, "momentum": 0.6, "weight_decay": 0.03}
PROTOCOL |= {"clip": 10.0, "evaluation": {"every": 1}}


def ours(method: str, hp: dict[str, Any]) -> Run:
    """Our run, scored in every round."""
    stretched = replace(toys.data(peers.SIZES), scale=torch.full((1,), 32 / 255))
    return toys.run(method, hp, clients_data=stretched, dtype=torch.float64, **PROTOCOL)


def scores(run: Run, point: str) -> list[float]:
    return [value for _, name, value in run.rows if name == f"{point}/mean"]


def arguments(fed: Federation, **options: Any) -> Namespace:
    """The protocol in the words of the code."""
    p = fed.protocol
    sizes = {"client_num_in_total": fed.N, "client_num_per_round": 2, "comm_round": fed.rounds}
    steps = {"lr_decay": p.lr_decay, "momentum": p.momentum, "wd": p.weight_decay}
    return Namespace(cs="random", dataset="", ci=0, **sizes, **steps, **options)


def loaders(fed: Federation, plan: list[tuple[str, int]]) -> list[Passes]:
    """Everybody's data loader of all rounds, in each of which the passes are these epochs of
    streams.
    """

    def of(client: int) -> Passes:
        steps = ((t, *each) for t in range(1, fed.rounds + 1) for each in plan)
        return Passes(plain.batches(fed, client, t, 1, first=e, stream=s) for t, s, e in steps)

    return [of(client) for client in range(fed.N)]


def finished(
    api: Any, fed: Federation, args: Namespace, trainer: Any, loaders: list[Passes], *more: Any
) -> tuple[Any, dict[int, tuple[Any, Any]]]:
    """The published loop to its end: the object that ran it, and what every client was handed and
    returned in the last round.
    """
    tests = {c: entire(fed, c, "test") for c in range(fed.N)}
    data = [0, 0, None, None, dict(enumerate(fed.samples)), dict(enumerate(loaders)), tests, 0]
    loop = api(data, "cpu", args, trainer, LOG, *more)
    loop._benefit_choose = lambda t, c, *_: (
        peers.topology_at(fed, t + 1).pull(2)[c].nonzero().flatten().numpy()
    )
    ended = {}

    def watched(client: int, train: Callable[..., Any]) -> Callable[..., Any]:
        def call(*handed: Any) -> Any:
            ended[client] = handed, train(*handed)
            return ended[client][1]

        return call

    for c in range(fed.N):
        loop.client_list[c].train = watched(c, loop.client_list[c].train)
    loop.train()
    return loop, ended
