"""How messages travel: taps may change them, the ledger bills them, and the receiver gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch
from torch import Tensor

from repfl.algorithms.core.messages import Direction, Ledger, Message

Way = Literal["up", "down", "peers"]
M = TypeVar("M", bound=Message)
Tap = Callable[[Way, Message, list[int]], Message]
"""`tap(way, message, rows) -> message`: what travels on, given a message and the ids of the clients
to whom its rows belong. It may look at the message, or return another one (`dataclasses.replace`).
"""


class Network:
    """Carries the messages of a federation."""

    def __init__(self, clients: int, device: torch.device) -> None:
        self.N, self.device = clients, device
        self.ledger = Ledger(clients)
        self.taps: list[Tap] = []
        """Every message passes all of them, in this order, before it is billed."""

    @contextmanager
    def tapped(self, tap: Tap) -> Iterator[None]:
        """Context manager: let messages pass a further tap first."""
        self.taps.insert(0, tap)
        try:
            yield
        finally:
            self.taps.remove(tap)

    def send(self, way: Direction, message: Message, rows: list[int], clients: Tensor) -> Tensor:
        """Send between the server and clients; return what arrives."""
        message = self._tap(way, message, rows)
        self.ledger.bill(way, clients, *message.cost(len(rows)))
        return message.received()

    def send_peers(self, message: M) -> M:
        """Send the rows of all clients along the message's graph. What a client sends to itself is
        free.
        """
        message = self._tap("peers", message, list(range(self.N)))
        others = ~torch.eye(self.N, dtype=torch.bool, device=self.device)
        values, codes = (torch.as_tensor(part) for part in message.cost(self.N))
        assert message.graph is not None
        self.ledger.bill_edges(message.graph & others, values, codes)
        return message

    def _tap(self, way: Way, message: M, rows: list[int]) -> M:
        for tap in list(self.taps):
            message = tap(way, message, rows)  # type: ignore[assignment]
        return message
