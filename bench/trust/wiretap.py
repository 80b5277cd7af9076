"""Federations that read along: one encodes every message for real, so that its length can be held
against the ledger; one keeps what is scored; one fills in what messages leave out; one moves what
no message carries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.evaluate import Mixture, Models
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import encode
from repfl.algorithms.core.run import Run
from repfl.algorithms.core.train import Trained


class Wiretap(Federation):
    """Encodes every message for real and counts the bytes, beside the ledger."""

    wire = 0

    def _send(
        self,
        direction: Any,
        x: Tensor,
        mask: Tensor | None,
        code: Any,
        domain: Tensor | None,
        scalars: int,
    ) -> Tensor:
        arrived = super()._send(direction, x, mask, code, domain, scalars)
        self._count(x, mask, code, domain, scalars)
        return arrived

    def gossip(self, x: Tensor, mixing: Tensor, mask: Tensor | None = None, **how: Any) -> Tensor:
        mixed = super().gossip(x, mixing, mask, **how)
        heard = ((mixing != 0).sum(0) - (mixing.diagonal() != 0).long()).tolist()
        code, domain, scalars = how.get("code", "none"), how.get("domain"), how.get("scalars", 0)
        self._count(x, mask, code, domain, scalars, times=heard, bits=how.get("bits", 32))
        return mixed

    def tell(self, graph: Tensor, count: int) -> None:
        self.wire += (
            4
            * count
            * int((graph & ~torch.eye(self.N, dtype=torch.bool, device=graph.device)).sum())
        )
        super().tell(graph, count)

    def up_mask(self, mask: Tensor, domain: Tensor) -> Tensor:
        self.wire += self.K * len(np.packbits(mask[0][domain].cpu().numpy()))
        return super().up_mask(mask, domain)

    def down_mask(self, mask: Tensor, domain: Tensor) -> Tensor:
        self.wire += self.K * len(np.packbits(mask.reshape(-1, self.D)[0][domain].cpu().numpy()))
        return super().down_mask(mask, domain)

    def numbers(self, direction: str, count: Tensor | int) -> None:
        self.wire += 4 * int(torch.as_tensor(count).expand(self.K).sum())
        super().numbers(direction, count)

    def _count(
        self,
        x: Tensor,
        mask: Tensor | None,
        code: Any,
        domain: Tensor | None,
        scalars: int,
        times: list[int] | None = None,
        bits: int = 32,
    ) -> None:
        domain = self.exchanged if domain is None else domain
        masks = (self.exchanged if mask is None else mask).expand(len(x), -1)
        packed = [
            4 * (int(own.sum()) - (int(own.sum()) * bits + 31) // 32) for own in masks
        ]  # what narrower values save
        with np.errstate(over="ignore"):  # only the length counts, whatever toys diverge to
            lengths = [
                len(encode(row, own, code, domain)) + 4 * scalars - less
                for row, own, less in zip(x, masks, packed, strict=True)
            ]
        self.wire += sum(
            length * n for length, n in zip(lengths, times or [1] * len(x), strict=True)
        )


class TappedRun(Run):
    """A run whose messages are encoded for real."""

    federation = Wiretap


class Judged(Federation):
    """Keeps all models that are scored, whoever asks for it."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.judged: list[Tensor] = []

    def score(self, point: str, models: Models) -> None:
        if self.scoring:
            self.judged += [part.clone() for part in flat(models)]
        super().score(point, models)


class JudgedRun(Run):
    """A run that keeps what it scores."""

    federation = Judged


class Filled(Judged):
    """Messages have ones, not zeros, in place of the statistics that they do not carry."""

    def _send(self, direction: Any, x: Tensor, mask: Tensor | None, *how: Any) -> Tensor:
        arrived = super()._send(direction, x, mask, *how)
        carried = self.exchanged if mask is None else self.exchanged | mask
        return torch.where(carried, arrived, torch.ones_like(arrived))


class FilledRun(Run):
    """A run whose messages do not leave zeros."""

    federation = Filled


class Withheld(Federation):
    """Keeps what clients say, and may move what one of them has not said after its training."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.listen()

    def listen(self, moved: tuple[int, int, Tensor] | None = None) -> None:
        """From now on; `moved`: a client, after how many loops of training, and what is added to
        its models then.
        """
        self.moved = moved
        self.loops = torch.zeros(self.N, dtype=torch.int64)
        """How often each client was trained  [N]."""
        self.said: dict[int, list[Tensor]] = {client: [] for client in range(self.N)}
        """By client, the masks and values of its messages."""
        self.unsaid = torch.ones(self.N, self.D, dtype=torch.bool)
        """What no message of a client has carried  [N, D]."""
        self.told = False
        """Whether numbers went along that no message shows."""

    def loop(self, *args: Any, **how: Any) -> Trained:
        done = super().loop(*args, **how)
        self.loops[self.active] += 1
        if self.moved is not None:
            client, after, more = self.moved
            if client in self.members and self.loops[client] == after:
                for rows in done.models.values():
                    rows[self.members.index(client)] += more
        return done

    def _send(self, direction: Any, x: Tensor, mask: Tensor | None, *how: Any) -> Tensor:
        *_, scalars = how
        if direction == "up":
            self._keep(x, mask, scalars)
        return super()._send(direction, x, mask, *how)

    def gossip(self, x: Tensor, mixing: Tensor, mask: Tensor | None = None, **how: Any) -> Tensor:
        self._keep(x, mask, how.get("scalars", 0))
        return super().gossip(x, mixing, mask, **how)

    def _keep(self, x: Tensor, mask: Tensor | None, scalars: int) -> None:
        masks = (self.exchanged if mask is None else mask).expand(len(x), -1)
        for client, own, row in zip(self.members, masks, x, strict=True):
            self.said[client] += [own.clone(), row[own]]
        self.unsaid[self.active] &= ~masks
        self.told |= bool(scalars)

    def up_mask(self, mask: Tensor, domain: Tensor) -> Tensor:
        for client, own in zip(self.members, mask.expand(self.K, -1), strict=True):
            self.said[client].append(own.clone())
        return super().up_mask(mask, domain)

    def tell(self, graph: Tensor, count: int) -> None:
        self.told = True
        super().tell(graph, count)

    def numbers(self, direction: str, count: Tensor | int) -> None:
        self.told |= direction == "up"
        super().numbers(direction, count)


class WithheldRun(Run):
    """A run that keeps what is said."""

    federation = Withheld


def flat(models: Models) -> list[Tensor]:
    """The tensors that predictions are made of: models, and weights where several are mixed."""
    if isinstance(models, Mixture):
        return [tensor for part in models.parts for tensor in part]
    return [models if isinstance(models, Tensor) else models.models]
