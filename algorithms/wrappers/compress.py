"""Compressed uploads: the largest changes alone, in fewer bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import Message, Vectors
from repfl.algorithms.core.method import State, hyperparameters, param
from repfl.algorithms.core.wrapper import Uploads, Wrapper, wrapper
from repfl.algorithms.engine.params import count_true
from repfl.algorithms.math.masks import topk_mask


@hyperparameters
class HP:
    """How small a message becomes."""

    compress_share: float = param(0.1, "share of the entries that is sent", gt=0, le=1)
    compress_bits: int = param(
        32, "bits of an entry, which is rounded at random without bias; 32: as it is", ge=2, le=32
    )


@wrapper("compress", title="compressed", sends="of an upload only the largest changes, quantised")
class Compress(Wrapper):
    """Client i sends the largest entries of x - a instead of x, a being what it received in its
    place in this round, or zero; the server adds them to a.

    Vectors whose positions the method encodes itself are sent as they are, and so is everything
    that is no model vector. A message gets the shortest list of positions, and one number more if
    it is quantised.
    """

    HP: type = HP

    def round(self, state: State, fed: Federation) -> State:
        def compress(message: Message, anchor: Tensor, count: int, rows: list[int]) -> Message:
            return self.compressed(fed, message, anchor, count, rows)

        with fed.network.tapped(Uploads(compress).tap):
            return super().round(state, fed)  # type: ignore[safe-super]

    def compressed(
        self, fed: Federation, message: Message, anchor: Tensor, count: int, rows: list[int]
    ) -> Message:
        """Return the message as it arrives, and which of its entries are on the wire  [K, D]."""
        if not isinstance(message, Vectors) or message.code != "none":
            return message
        share, bits = self.hp.compress_share, self.hp.compress_bits
        sent = message.mask.expand_as(message.values)
        change = torch.where(sent, message.values - anchor, 0.0)
        encoded = sent
        if share < 1:
            number = (count_true(sent) * share).ceil().long()
            encoded = topk_mask(torch.where(sent, change.abs(), -1.0), number)
            message = replace(message, encoded=encoded, code="shorter")
            change = torch.where(encoded, change, 0.0)
        if bits < 32:
            change = quantised(change, bits, self.draws(fed, change, count, rows))
            message = replace(message, bits=bits, scalars=message.scalars + 1)
        values = torch.where(sent, anchor + change, message.values)
        return replace(message, values=values)

    def draws(self, fed: Federation, like: Tensor, count: int, rows: list[int]) -> Tensor:
        """Return random numbers in [0, 1), each client's own  [K, D]."""
        drawn = [fed.rng("compress", client, count).random(like.shape[1]) for client in rows]
        return torch.from_numpy(np.stack(drawn)).to(like.device, like.dtype)


def quantised(x: Tensor, bits: int, draws: Tensor) -> Tensor:
    """Return rows rounded at random to multiples of their largest size over 2^(bits - 1) - 1."""
    levels = 2 ** (bits - 1) - 1
    unit = (x.abs().amax(1, keepdim=True) / levels).clamp(min=torch.finfo(x.dtype).tiny)
    return (x / unit + draws).floor() * unit
