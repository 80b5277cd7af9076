"""The network: who is active, what passes between server and clients or among clients, and what it
costs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cached_property

import torch
from torch import Tensor

from repfl.algorithms.core.layout import Layout, counted
from repfl.algorithms.core.messages import Code, Direction, Ledger, code_bytes
from repfl.algorithms.core.recipe import Training
from repfl.algorithms.core.topology import mix


class Network:
    """N clients and a server. Every message passes here, so no method can forget to bill one."""

    def __init__(
        self, layout: Layout, clients: int, protocol: Training, device: torch.device
    ) -> None:
        self.layout, self.protocol, self.device = layout, protocol, device
        self.N = clients
        self.everybody = torch.arange(clients, device=device)
        self.call(self.everybody, list(range(clients)))
        self.ledger = Ledger(clients)
        self._lasting: dict[Hashable, Tensor] = {}

    def call(self, clients: Tensor, members: list[int] | None = None) -> None:
        """Make clients the active ones; who knows them as numbers saves asking the device."""
        self.active, self._members = clients, members

    @property
    def members(self) -> list[int]:
        """The active clients as numbers."""
        if self._members is None:
            self._members = self.active.tolist()
        return self._members

    @property
    def K(self) -> int:
        """Number of clients that are active."""
        return len(self.active)

    @property
    def D(self) -> int:
        """Length of a model's vector."""
        return self.layout.size

    @cached_property
    def exchanged(self) -> Tensor:
        """What the protocol lets travel: learnable entries, and statistics where they are averaged
        like weights  [D] bool.
        """
        return (
            self.layout.learnable
            if self.protocol.buffers == "local"
            else torch.ones_like(self.layout.learnable)
        )

    @cached_property
    def exchanged_body(self) -> Tensor:
        """The same without the head  [D] bool."""
        return self.exchanged & ~self.layout.head

    def lasting(self, what: Hashable, made: Callable[[], Tensor]) -> Tensor:
        """A mask that is made once and lives as long as the network: what is known of it is known
        in every round.
        """
        if what not in self._lasting:
            self._lasting[what] = made()
        return self._lasting[what]

    @cached_property
    def _everything(self) -> bool:
        """Whether all entries are exchanged."""
        return self.protocol.buffers != "local" or all(s.kind != "stat" for s in self.layout)

    @contextmanager
    def among(self, clients: Tensor, members: list[int] | None = None) -> Iterator[None]:
        """Make other clients the active ones for a while."""
        before = self.active, self._members
        self.call(clients, members)
        try:
            yield
        finally:
            self.call(*before)

    def put(self, everybody: Tensor, rows: Tensor) -> Tensor:
        """Everybody's entries [N, ...] with the active clients' new ones [K, ...], by overwriting:
        for what a round has taken out of the state.
        """
        return everybody.index_copy_(0, self.active, rows)

    def down(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        code: Code = "none",
        domain: Tensor | None = None,
        scalars: int = 0,
    ) -> Tensor:
        """Server to every active client: what each receives, zeros where nothing is sent  [K, D];
        not to be overwritten: what travels whole is not copied.

        `mask` ([D] or [K, D], default: all that the protocol exchanges) says which entries travel,
        `code` how their positions are told where the receiver cannot know them, `domain` [D] which
        entries could travel, `scalars` how many further numbers go along.
        """
        return self._send("down", x.expand(self.K, *x.shape[-1:]), mask, code, domain, scalars)

    def up(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        code: Code = "none",
        domain: Tensor | None = None,
        scalars: int = 0,
    ) -> Tensor:
        """Every active client to the server; parameters as for `down`  [K, D]."""
        return self._send("up", x, mask, code, domain, scalars)

    def up_mask(self, mask: Tensor, domain: Tensor) -> Tensor:
        """Every active client tells the server a mask over `domain` as a bitmap  [K, D] bool."""
        self.ledger.bill("up", self.active, 0, code_bytes("bitmap", domain.sum(), counted(mask)))
        return mask

    def down_mask(self, mask: Tensor, domain: Tensor) -> Tensor:
        """The server tells every active client a mask over `domain` as a bitmap  [K, D] bool."""
        self.ledger.bill(
            "down", self.active, 0, code_bytes("bitmap", domain.sum(), counted(mask).expand(self.K))
        )
        return mask

    def numbers(self, direction: str, count: Tensor | int) -> None:
        """Bill float32 numbers that are no model entries: prototypes, counts, covariances; per
        active client.
        """
        self.ledger.bill("up" if direction == "up" else "down", self.active, count)

    def _send(
        self,
        direction: Direction,
        x: Tensor,
        mask: Tensor | None,
        code: Code,
        domain: Tensor | None,
        scalars: int,
    ) -> Tensor:
        mask = self.exchanged if mask is None else mask
        domain = self.exchanged if domain is None else domain
        count = counted(mask).expand(self.K)
        self.ledger.bill(
            direction, self.active, count + scalars, code_bytes(code, domain.sum(), count)
        )
        if mask is self.exchanged and self._everything:
            return x
        runs = self.layout.outside(mask) if self._lasts(mask) else None
        if runs is None:
            return torch.where(mask, x, torch.zeros((), dtype=x.dtype, device=x.device))
        sent = x.clone(memory_format=torch.contiguous_format)
        for run in runs:
            sent[:, run] = 0
        return sent

    def _lasts(self, mask: Tensor) -> bool:
        """Whether a processor's mask lives on, so that it pays to know its runs."""
        known = (self.exchanged, self.exchanged_body, *self._lasting.values())
        return mask.is_cpu and any(mask is one for one in known)

    def gossip(
        self,
        x: Tensor,
        mixing: Tensor,
        mask: Tensor | None = None,
        *,
        code: Code = "none",
        domain: Tensor | None = None,
        scalars: int = 0,
        bits: int = 32,
        renormalise: bool = False,
    ) -> Tensor:
        """Clients to clients: rows of `mixing` [N, N] say how much of whom each one takes; every
        other sender's message is billed  [N, D].

        Entries outside a common mask [D] stay each client's own; for masks per sender [N, D] see
        `topology.mix`. `bits` is the width of a quantised value; messages fill whole 32-bit words.
        """
        mask = self.exchanged if mask is None else mask
        domain = self.exchanged if domain is None else domain
        sent = counted(mask).expand(self.N)
        words = (sent * bits + 31) // 32
        self._bill_edges(mixing != 0, words + scalars, code_bytes(code, domain.sum(), sent))
        return mix(x, mixing.to(x.dtype), mask, renormalise=renormalise)

    def tell(self, graph: Tensor, count: int) -> None:
        """Bill so many float32 numbers that client j sends to every other client i with
        `graph[i, j]`  [N, N] bool.
        """
        told = torch.full((), count, device=self.device)
        self._bill_edges(graph, told, torch.zeros_like(told))

    def _bill_edges(self, graph: Tensor, values: Tensor, codes: Tensor) -> None:
        self.ledger.bill_edges(
            graph & ~torch.eye(self.N, dtype=torch.bool, device=self.device), values, codes
        )
