"""A federation that reads along: it encodes every message for real, so that its length can be held
against the ledger.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import encode
from repfl.algorithms.core.run import Run


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
