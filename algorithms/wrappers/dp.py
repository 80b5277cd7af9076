"""Client-level differential privacy: clip what a client sends, and add noise to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import Mask, Message, Vectors
from repfl.algorithms.core.method import MethodError, State, hyperparameters, param
from repfl.algorithms.core.wrapper import Uploads, Wrapper, entries_sent, wrapper


@hyperparameters
class HP:
    """How far a message may go, and how much noise it gets."""

    dp_clip: float = param(1.0, "limit of the norm of the change that a client sends", gt=0)
    dp_noise: float = param(
        0.1, "standard deviation of the noise on every entry, as a multiple of the limit", ge=0
    )
    dp_entries: Literal["sent", "shared"] = param(
        "sent", "what is protected: all that is sent, or what the server averages for all (APPFL)"
    )


@wrapper("dp", title="DP", sends="uploads are clipped and noised, at the same size")
class DP(Wrapper):
    """Client i sends a + min(1, C / |x - a|) (x - a) + N(0, (s C)^2) instead of x, where a is what
    it received in its place in this round, or zero.

    Every upload of a round is clipped and noised by itself; the privacy budget of several uploads
    and rounds is for the user to compose. Models of clients that are never sent are not protected.
    """

    HP: type = HP

    def round(self, state: State, fed: Federation) -> State:
        def protect(message: Message, anchor: Tensor, count: int, rows: list[int]) -> Message:
            return self.protected(fed, message, anchor, count, rows)

        with fed.network.tapped(Uploads(protect).tap):
            return super().round(state, fed)  # type: ignore[safe-super]

    def protected(
        self, fed: Federation, message: Message, anchor: Tensor, count: int, rows: list[int]
    ) -> Message:
        """Return a message whose values are clipped around the anchor and noised  [K, ...]."""
        if isinstance(message, Mask) or not message.values.is_floating_point():
            raise MethodError("dp: the method sends a mask or counts, which noise does not protect")
        if isinstance(message, Vectors) and message.scalars:
            raise MethodError("dp: numbers that go along with a vector are not protected")
        values, sent = message.values, entries_sent(message)
        if self.hp.dp_entries == "shared" and isinstance(message, Vectors):
            sent = sent & self.shared_entries(fed)
        change = torch.where(sent, values - anchor, 0.0)
        norm = change.flatten(1).norm(dim=1).view(-1, *[1] * (values.dim() - 1))
        change = change * (self.hp.dp_clip / norm.clamp(min=1e-12)).clamp(max=1.0)
        drawn = [fed.rng("dp", client, count).standard_normal(values.shape[1:]) for client in rows]
        noise = torch.from_numpy(np.stack(drawn)).to(values.device, values.dtype)
        noised = anchor + change + self.hp.dp_noise * self.hp.dp_clip * noise
        return replace(message, values=torch.where(sent, noised, values))

    def shared_entries(self, fed: Federation) -> Tensor:
        """Return the mask of what the server averages  [D] bool."""
        if not hasattr(self, "shared_mask"):
            raise MethodError("dp_entries = shared is for methods that derive from FedAvg")
        mask: Tensor = self.shared_mask(fed)
        return mask
