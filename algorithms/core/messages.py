"""What crosses the network, to the byte.

A message is a list of float32 values and, where receiver and sender do not both know which
coordinates travel, a code that says so: a bitmap over the coordinates in question (1 bit each) or a
list of 4-byte positions. `encode` builds real messages; the ledger bills their lengths.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, TypedDict

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.engine.client_data import to_device
from repfl.algorithms.engine.params import count_true

Code = Literal["none", "bitmap", "index", "shorter"]
"""How positions are sent: not at all; by a bitmap; by a list of those that travel; or by the
shortest of these two and a list of those that stay behind.
"""
Direction = Literal["up", "down"]
FLOAT = 4
POSITION = 4


def code_bytes(code: Code, domain: Tensor, sent: Tensor) -> Tensor:
    """Bytes of a position code over `domain` coordinates of which `sent` travel."""
    bitmap, index = ((domain + 7) // 8).expand_as(sent), sent * POSITION
    if code == "shorter":
        return torch.minimum(bitmap, torch.minimum(index, (domain - sent) * POSITION))
    return {"none": torch.zeros_like(sent), "bitmap": bitmap, "index": index}[code]


def encode(values: Tensor, mask: Tensor, code: Code, domain: Tensor) -> bytes:
    """One real message: the masked values of a vector [D], with the positions in `domain` [D] bool
    that they belong to.
    """
    floats = values[mask].cpu().numpy().astype("<f4").tobytes()
    inside = mask[domain].cpu().numpy()
    bitmap, index, rest = (
        np.packbits(inside),
        np.flatnonzero(inside).astype("<u4"),
        np.flatnonzero(~inside).astype("<u4"),
    )
    shortest = min(bitmap.tobytes(), index.tobytes(), rest.tobytes(), key=len)
    return {"none": b"", "bitmap": bitmap.tobytes(), "index": index.tobytes(), "shorter": shortest}[
        code
    ] + floats


@dataclass(frozen=True)
class Message:
    """What is sent at once: a row for each client, or one for all of them."""

    values: Tensor
    graph: Tensor | None = field(default=None, kw_only=True)
    """Among clients: who gets whose row  [N, N] bool."""

    def cost(self, clients: int) -> tuple[Tensor | int, Tensor | int]:
        """Return how many numbers each client's message has, and the bytes of its codes."""
        raise NotImplementedError

    def received(self) -> Tensor:
        """Return what arrives."""
        return self.values


class Encoding(TypedDict, total=False):
    """How the entries of vectors are encoded (see `Vectors`)."""

    code: Code
    domain: Tensor | None
    scalars: int
    bits: int


@dataclass(frozen=True)
class Vectors(Message):
    """Entries of model vectors  [K, D]."""

    mask: Tensor  # [D] or [K, D] bool: which entries the receiver gets
    domain: Tensor  # [D] bool: which could travel
    _: KW_ONLY
    code: Code = "none"
    scalars: int = 0
    """How many further numbers go along."""
    bits: int = 32
    """Width of a quantised value; messages fill whole 32-bit words."""
    encoded: Tensor | None = None
    """The entries that are on the wire, if the receiver completes the others by itself."""
    common: bool = False
    """The mask is what is communicated anyway: the method named none."""
    whole: bool = False
    """Every entry travels, so there is nothing to leave out."""
    rest: Tensor | None = None
    """What stands in the received vectors in place of entries that were not sent; None: zeros."""

    def __post_init__(self) -> None:
        shape, size = list(self.values.shape), self.mask.shape[-1]
        if len(shape) != 2 or shape[1] != size:
            raise ValueError(f"model vectors are [K, {size}]; these have the shape {shape}")

    @property
    def on_wire(self) -> Tensor:
        """Mask of the entries that are encoded."""
        return self.mask if self.encoded is None else self.encoded

    def cost(self, clients: int) -> tuple[Tensor, Tensor]:
        count = count_true(self.on_wire).expand(clients)
        words = count if self.bits == 32 else (count * self.bits + 31) // 32
        return words + self.scalars, code_bytes(self.code, self.domain.sum(), count)

    def received(self) -> Tensor:
        if self.whole:
            return self.values
        zero = torch.zeros((), dtype=self.values.dtype, device=self.values.device)
        return torch.where(self.mask, self.values, zero if self.rest is None else self.rest)


@dataclass(frozen=True)
class Mask(Message):
    """A mask over `domain` [D] that the receiver computes with  [D] or [K, D] bool."""

    domain: Tensor
    code: Code = "bitmap"

    def cost(self, clients: int) -> tuple[int, Tensor]:
        count = count_true(self.values).expand(clients)
        return 0, code_bytes(self.code, self.domain.sum(), count)


@dataclass(frozen=True)
class Numbers(Message):
    """Anything else: float32 numbers, or booleans as bits  [K, ...], or one message for all."""

    shape: torch.Size
    """Of one client's message."""
    floats: int | None = None
    """How many numbers it needs, if the tensor repeats some."""
    rows: Tensor | None = None
    """Which rows of a message [R, ...] travel  [R] or [K, R] bool."""

    def cost(self, clients: int) -> tuple[Tensor | int, int]:
        size = self.shape.numel()
        if self.values.dtype == torch.bool:
            return 0, (size + 7) // 8
        if self.rows is not None:
            return count_true(self.rows) * self.shape[1:].numel(), (self.shape[0] + 7) // 8
        return size if self.floats is None else self.floats, 0

    def received(self) -> Tensor:
        if self.rows is None or self.values.dtype == torch.bool:
            return self.values
        return self.values * self.rows.view(*self.rows.shape, *[1] * (len(self.shape) - 1))


class Ledger:
    """Bytes of one cell: per client, direction and round, values apart from codes; where clients
    talk to clients, also per edge.
    """

    LINES = ("up_values", "up_codes", "down_values", "down_codes")

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self._edges: Tensor | None = None
        self.open_round()

    def open_round(self) -> None:
        """Forget the bytes of the previous round; edges go on."""
        self._round: dict[str, Tensor] = {}

    @property
    def round(self) -> dict[str, Tensor]:
        """Bytes of this round by line  [N] each on the CPU."""
        none = torch.zeros(self.clients, dtype=torch.int64)
        lines = {line: self._round.get(line, none) for line in self.LINES}
        return {n: none if t.is_meta else t.cpu() for n, t in lines.items()}

    @property
    def edges(self) -> Tensor | None:
        """Bytes from every sender to every receiver, over all rounds  [N, N] on the CPU."""
        return None if self._edges is None else self._edges.cpu()

    @edges.setter
    def edges(self, edges: Tensor | None) -> None:
        self._edges = edges

    def bill(
        self, direction: Direction, clients: Tensor, values: Tensor | int, codes: Tensor | int = 0
    ) -> None:
        """Add values (a count of floats) and codes (bytes) to the given clients."""
        for line, amount in (
            (f"{direction}_values", FLOAT * torch.as_tensor(values)),
            (f"{direction}_codes", torch.as_tensor(codes)),
        ):
            device, size = clients.device, (self.clients,)
            empty = torch.zeros(size, dtype=torch.int64, device=device)
            added = to_device(amount.long(), device).expand(len(clients))
            self._round[line] = self._round.get(line, empty).index_add(0, clients, added)

    def bill_edges(self, sends: Tensor, values: Tensor, codes: Tensor) -> None:
        """Every true entry [receiver, sender] of `sends` [N, N] carries the sender's message."""
        device, everyone = sends.device, torch.arange(self.clients, device=sends.device)
        values = values.to(device).expand(self.clients)
        codes = codes.to(device).expand(self.clients)
        self.bill("up", everyone, values * sends.sum(0), codes * sends.sum(0))
        self.bill("down", everyone, (sends * values).sum(1), (sends * codes).sum(1))
        earlier = sends.long() * 0 if self._edges is None else self._edges.to(device)
        self._edges = earlier + sends * (FLOAT * values + codes)
