"""What passes between server and clients or among clients, and what it costs in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import torch
from torch import Tensor

from repfl.algorithms.core.messages import Code, Direction, Ledger, code_bytes
from repfl.algorithms.core.topology import mix
from repfl.algorithms.core.training import Training
from repfl.algorithms.engine.client_data import to_device, to_host
from repfl.algorithms.engine.params import Params, count_true


class Network:
    """N clients and a server. A method computes with what these functions return."""

    def __init__(
        self, params: Params, clients: int, protocol: Training, device: torch.device
    ) -> None:
        self.params, self.protocol, self.device = params, protocol, device
        self.N = clients
        self.all_clients = torch.arange(clients, device=device)
        self.set_active(range(clients))
        self.ledger = Ledger(clients)

    def set_active(self, clients: Iterator[int] | range | list[int]) -> None:
        """Set the active clients by their ids."""
        self.active_ids = list(clients)
        self.active = to_device(torch.tensor(self.active_ids, dtype=torch.int64), self.device)

    @contextmanager
    def as_active(self, clients: Iterator[int] | range | list[int]) -> Iterator[None]:
        """Context manager: make other clients the active ones."""
        before = self.active_ids
        self.set_active(clients)
        try:
            yield
        finally:
            self.set_active(before)

    @property
    def K(self) -> int:
        """Number of active clients."""
        return len(self.active_ids)

    @property
    def D(self) -> int:
        """Length of a model's vector."""
        return self.params.size

    @cached_property
    def communicated(self) -> Tensor:
        """Mask of the entries that are communicated: parameters, plus batch-norm statistics if the
        recipe says `buffers = global`  [D] bool.
        """
        learnable = self.params.learnable
        return learnable if self.protocol.buffers == "local" else torch.ones_like(learnable)

    def to_host(self, tensor: Tensor) -> Tensor:
        """Copy a tensor to the CPU: a GPU must be waited for. On the device `meta`: zeros."""
        return to_host(tensor)

    def scatter_rows(self, everyone: Tensor, rows: Tensor) -> Tensor:
        """Write the active clients' rows [K, ...] into a tensor of all clients [N, ...], in place.

        For tensors of a state, which a round may overwrite.
        """
        return everyone.index_copy_(0, self.active, rows)

    # -- model vectors -----------------------------------------------------------------------------

    def down(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        code: Code = "none",
        domain: Tensor | None = None,
        scalars: int = 0,
    ) -> Tensor:
        """Send from the server to every active client; return what each receives, zeros where
        nothing is sent  [D] or [K, D] -> [K, D].

        `mask` ([D] or [K, D], default: `communicated`) says which entries travel, `code` how their
        positions are encoded where the receiver cannot know them, `domain` [D] which entries could
        travel, `scalars` how many further numbers go along.
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
        """Send from every active client to the server; parameters as for `down`  [K, D]."""
        return self._send("up", x, mask, code, domain, scalars)

    def _send(
        self,
        direction: Direction,
        x: Tensor,
        mask: Tensor | None,
        code: Code,
        domain: Tensor | None,
        scalars: int,
    ) -> Tensor:
        everything = mask is None and self.protocol.buffers != "local"
        mask = self.communicated if mask is None else mask
        domain = self.communicated if domain is None else domain
        count = count_true(mask).expand(self.K)
        codes = code_bytes(code, domain.sum(), count)
        self.ledger.bill(direction, self.active, count + scalars, codes)
        return (
            x
            if everything
            else torch.where(mask, x, torch.zeros((), dtype=x.dtype, device=x.device))
        )

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
        """Send from clients to clients: entry [i, j] of `mixing` [N, N] is the weight of client j's
        message at client i; every message of another client is billed  [N, D].

        Entries outside a common mask [D] stay each client's own; for masks per sender [N, D] see
        `topology.mix`. `bits` is the width of a quantised value; messages fill whole 32-bit words.
        """
        mask = self.communicated if mask is None else mask
        domain = self.communicated if domain is None else domain
        count = count_true(mask).expand(self.N)
        words = (count * bits + 31) // 32
        self._bill_edges(mixing != 0, words + scalars, code_bytes(code, domain.sum(), count))
        return mix(x, mixing.to(x.dtype), mask, renormalise=renormalise)

    # -- anything else -----------------------------------------------------------------------------

    def send(
        self,
        direction: Direction,
        x: Tensor,
        *,
        each: bool = False,
        floats: int | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Send a tensor of any shape that is no model vector between the server and every active
        client, and return it as it arrives. Up, and down with `each`, it has a row for each client
        [K, ...]; down without `each` it is one message for all.

        Numbers are billed as float32, booleans as bits; `floats` says how many numbers a message
        needs if the tensor repeats some, as a symmetric matrix does. `rows` says which rows of a
        message [R, ...] travel ([R] or [K, R] bool): the others arrive as zeros, and a bitmap of R
        bits goes along.
        """
        own = x.shape[1:] if direction == "up" or each else x.shape
        size = own.numel()
        if x.dtype == torch.bool:
            self.ledger.bill(direction, self.active, 0, (size + 7) // 8)
        elif rows is not None:
            sent = count_true(rows) * own[1:].numel()
            self.ledger.bill(direction, self.active, sent, (own[0] + 7) // 8)
            x = x * rows.view(*rows.shape, *[1] * (len(own) - 1))
        else:
            self.ledger.bill(direction, self.active, size if floats is None else floats)
        return x

    def send_mask(
        self, direction: Direction, mask: Tensor, domain: Tensor, *, code: Code = "bitmap"
    ) -> Tensor:
        """Send a mask over `domain` [D] and return it  [D] or [K, D] bool.

        For a receiver that computes with the mask; the values themselves follow without a code.
        """
        count = count_true(mask).expand(self.K)
        self.ledger.bill(direction, self.active, 0, code_bytes(code, domain.sum(), count))
        return mask

    def send_peers(self, x: Tensor, graph: Tensor, *, floats: int) -> Tensor:
        """Send `floats` numbers from client j to every other client i with `graph[i, j]`, and
        return them  [N, ...], [N, N] bool.
        """
        count = torch.full((), floats, device=self.device)
        self._bill_edges(graph, count, torch.zeros_like(count))
        return x

    def _bill_edges(self, graph: Tensor, values: Tensor, codes: Tensor) -> None:
        others = ~torch.eye(self.N, dtype=torch.bool, device=self.device)
        self.ledger.bill_edges(graph & others, values, codes)
