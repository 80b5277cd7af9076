"""star-pfl against a plain transcription of its paper's rules."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.engine.params import Params
from tests.algorithms import plain, toys


class Entry:
    """One entry's bookkeeping at the server or at one client."""

    def __init__(self, length: int) -> None:
        self.active, self.trial, self.period, self.frozen = True, False, 1, 0
        self.record: deque[float] = deque(maxlen=length)

    def moves(self, threshold: float, idle: bool) -> bool:
        size = sum(abs(u) for u in self.record)
        return idle or (abs(sum(self.record)) / size if size else 0.0) >= threshold

    def check(self, threshold: float, idle: bool) -> None:
        self.frozen += not self.active
        if self.trial:
            moves = self.moves(threshold, idle)
            self.period = max(1, self.period // 2) if moves else self.period + 1
        self.trial = self.period <= self.frozen
        if self.trial:
            self.active, self.frozen = True, 0


class Side:
    """All learnable entries of one side."""

    def __init__(self, params: Params, length: int) -> None:
        self.tensors = [range(s.start, s.stop) for s in params]
        self.entries = [Entry(length) for _ in range(params.size)]

    def each(self) -> list[tuple[Entry, bool]]:
        """Every entry, and whether its tensor has no record at all."""
        found = []
        for places in self.tensors:
            idle = not any(self.entries[i].record for i in places)
            found += [(self.entries[i], idle) for i in places]
        return found

    def measure(self, threshold: float) -> Tensor:
        for entry, idle in self.each():
            if entry.active and not entry.trial:
                entry.active = entry.moves(threshold, idle)
        return self.active

    def push(self, update: Tensor) -> None:
        for entry, value in zip(self.entries, update.tolist(), strict=True):
            if value:
                entry.record.append(value)

    def check(self, threshold: float) -> None:
        for entry, idle in self.each():
            entry.check(threshold, idle)

    @property
    def active(self) -> Tensor:
        return torch.tensor([entry.active for entry in self.entries])


@pytest.mark.parametrize(("sent", "average"), [("checked", "holders"), ("trained", "all")])
def test_star_pfl_follows_its_plain_transcription(sent: str, average: str) -> None:
    hp: dict[str, Any] = {"server_threshold": 0.6, "client_threshold": 0.35, "early": 4}
    hp |= {"server_record": 3, "client_record": 3, "sent": sent, "average": average}
    how: dict[str, Any] = {"sizes": (20, 9, 16), "dtype": torch.float64, "rounds": 4, "epochs": 5}
    run = toys.run("star-pfl", hp, **how)
    fed = run.fed
    theta, server = fed.new_model().double(), Side(fed.params, 3)
    clients = [Side(fed.params, 3) for _ in range(3)]
    shares = plain.weights(fed, [0, 1, 2])
    for round_ in (1, 2, 3, 4):
        open_ = server.measure(0.6)
        total, weight = torch.zeros_like(theta), torch.zeros_like(theta)
        for client, own in enumerate(clients):
            trains = own.measure(0.35)
            for entry in own.entries:
                entry.record.clear()
            w = theta
            for epoch in range(5):
                epoch_of: dict[str, Any] = {"epochs": 1, "first": epoch, "trainable": trains}
                after, _ = plain.train(fed, w, client, round_, **epoch_of)
                if epoch < 4:
                    own.push(after - w)
                w = after
            own.check(0.35)
            goes = own.active if sent == "checked" else trains
            total += shares[client] * torch.where(goes, w - theta, 0.0)
            weight += shares[client] * (goes if average == "holders" else torch.ones_like(goes))
        new = torch.where(open_ & (weight > 0), theta + total / weight.clamp(min=1e-300), theta)
        server.push(new - theta)
        server.check(0.6)
        theta = new
    assert plain.apart(theta, run.state["theta"]) < 1e-9
    assert torch.equal(server.active, run.state["server.active"][0])
    assert torch.equal(torch.stack([own.active for own in clients]), run.state["client.active"])
    periods = torch.tensor([[entry.period for entry in own.entries] for own in clients])
    assert torch.equal(periods, run.state["client.period"].long())
    assert periods.max() > 1
    assert not bool(run.state["client.active"].all())
