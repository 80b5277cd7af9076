"""Federations that observe a method: they encode every message, record what is trained and scored,
and can replay one client's messages while its models are disturbed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import encode
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.evaluate import Mixture, Models
from repfl.algorithms.engine.training import Trained


def flat(models: Models) -> list[Tensor]:
    """Return the tensors from which predictions are computed."""
    if isinstance(models, Mixture):
        return [tensor for part in models.parts for tensor in part]
    return [models]


class Watched(Federation):
    """Records what is scored and what clients train from, and encodes every message."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.scored: list[Tensor] = []
        self.trained_from: list[Tensor] = []
        self.encoded = 0
        """Bytes of all messages, encoded for real."""

    def score(self, point: str, models: Models) -> None:
        if self.scoring_start if point == "start" else self.scoring:
            self.scored += [part.clone() for part in flat(models)]
        super().score(point, models)

    def train_with(self, step: Any, params: Mapping[str, Tensor], **options: Any) -> Trained:
        named = [params, options.get("reference") or {}, options.get("extras") or {}]
        self.trained_from += [tensor.clone() for part in named for tensor in part.values()]
        return super().train_with(step, params, **options)

    # -- bytes -------------------------------------------------------------------------------------

    def _send(
        self, direction: Any, x: Tensor, mask: Any, code: Any, domain: Any, scalars: int
    ) -> Tensor:
        self._encode(x, mask, code, domain, scalars, [1] * len(x))
        return super()._send(direction, x, mask, code, domain, scalars)

    def gossip(self, x: Tensor, mixing: Tensor, mask: Tensor | None = None, **how: Any) -> Tensor:
        receivers = ((mixing != 0).sum(0) - (mixing.diagonal() != 0).long()).tolist()
        code, domain, scalars = how.get("code", "none"), how.get("domain"), how.get("scalars", 0)
        self._encode(x, mask, code, domain, scalars, receivers, how.get("bits", 32))
        return super().gossip(x, mixing, mask, **how)

    def _encode(
        self,
        x: Tensor,
        mask: Tensor | None,
        code: Any,
        domain: Tensor | None,
        scalars: int,
        copies: list[int],
        bits: int = 32,
    ) -> None:
        domain = self.communicated if domain is None else domain
        masks = (self.communicated if mask is None else mask).expand(len(x), -1)
        for row, row_mask, count in zip(x, masks, copies, strict=True):
            values = int(row_mask.sum())
            narrower = 4 * (values - (values * bits + 31) // 32)
            with np.errstate(over="ignore"):  # only the length counts
                length = len(encode(row, row_mask, code, domain))
            self.encoded += count * (length + 4 * scalars - narrower)

    def send(self, direction: Any, x: Tensor, **how: Any) -> Tensor:
        shape = x.shape[1:] if direction == "up" or how.get("each") else x.shape
        floats, rows = how.get("floats"), how.get("rows")
        if x.dtype == torch.bool:
            self.encoded += self.K * len(np.packbits(np.zeros(shape.numel(), bool)))
        elif rows is not None:
            for values, mask in zip(x.expand(self.K, *shape), rows.expand(self.K, -1), strict=True):
                self.encoded += len(values[mask].float().numpy().tobytes())
                self.encoded += len(np.packbits(mask.numpy()))
        else:
            self.encoded += 4 * self.K * (shape.numel() if floats is None else floats)
        return super().send(direction, x, **how)

    def send_mask(
        self, direction: Any, mask: Tensor, domain: Tensor, *, code: Any = "bitmap"
    ) -> Tensor:
        for row in mask.expand(self.K, -1):
            self.encoded += len(encode(row.float(), row, code, domain)) - 4 * int(row.sum())
        return super().send_mask(direction, mask, domain, code=code)

    def send_peers(self, x: Tensor, graph: Tensor, *, floats: int) -> Tensor:
        others = graph & ~torch.eye(self.N, dtype=torch.bool)
        self.encoded += 4 * floats * int(others.sum())
        return super().send_peers(x, graph, floats=floats)


class Replayed(Watched):
    """Records messages, or replays recorded ones, of one client (`teacher`) or all downloads, in
    the order in which they were sent.
    """

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.tape: list[Tensor] = []
        self.replays: str = ""
        """"": record; "up": replay the teacher's rows of what goes up; "down": replay downloads."""
        self.teacher = 0
        self.coded_down = False
        """Whether a download encodes positions: the mask is then a part of the message."""

    def replay(self, earlier: Replayed, what: str, teacher: int = 0) -> None:
        """Replay the messages of another federation from here on."""
        self.tape, self.replays, self.teacher = list(earlier.tape), what, teacher

    def record(self) -> None:
        """Record messages from here on."""
        self.tape, self.trained_from = [], []

    def _replayed(self, message: Tensor, direction: str, rows: list[int]) -> Tensor:
        """Return the received message, given one with a row for each sender."""
        if not self.replays:
            self.tape.append(message.clone())
            return message
        recorded = self.tape.pop(0)
        if direction != self.replays or message.shape != recorded.shape:
            return message
        if direction == "down":
            return recorded
        message = message.clone()
        if self.teacher in rows and message.shape[:1] == (len(rows),):
            message[rows.index(self.teacher)] = recorded[rows.index(self.teacher)]
        return message

    def _send(self, direction: Any, x: Tensor, mask: Any, code: Any, *how: Any) -> Tensor:
        self.coded_down |= direction == "down" and code != "none"
        sent = super()._send(direction, x, mask, code, *how)
        return self._replayed(sent, direction, self.active_ids)

    def send(self, direction: Any, x: Tensor, **how: Any) -> Tensor:
        return self._replayed(super().send(direction, x, **how), direction, self.active_ids)

    def send_mask(self, direction: Any, mask: Tensor, domain: Tensor, **how: Any) -> Tensor:
        sent = super().send_mask(direction, mask, domain, **how)
        return self._replayed(sent, direction, self.active_ids)

    def send_peers(self, x: Tensor, graph: Tensor, *, floats: int) -> Tensor:
        sent = super().send_peers(x, graph, floats=floats)
        return self._replayed(sent, "up", list(range(self.N)))

    def gossip(self, x: Tensor, mixing: Tensor, mask: Tensor | None = None, **how: Any) -> Tensor:
        everyone = list(range(self.N))
        messages = self._replayed(x, "up", everyone)
        if how.get("code", "none") != "none" and mask is not None:
            mask = self._replayed(mask.expand(len(x), -1), "up", everyone)
        return super().gossip(messages, mixing, mask, **how)

    def train_with(self, step: Any, params: Mapping[str, Tensor], **options: Any) -> Trained:
        done = super().train_with(step, params, **options)
        if self.replays == "up" and self.teacher in self.active_ids:
            row = self.active_ids.index(self.teacher)
            for rows in [*done.models.values(), *done.extras.values()]:
                if rows.is_floating_point():
                    rows[row] += 0.01
        return done


class Filled(Watched):
    """Messages have ones instead of zeros in place of statistics that they do not contain."""

    def _send(self, direction: Any, x: Tensor, mask: Any, *how: Any) -> Tensor:
        received = super()._send(direction, x, mask, *how)
        has_message = self.communicated if mask is None else self.communicated | mask
        return torch.where(has_message, received, torch.ones_like(received))


# messages name the class that a method's author knows
Watched.__name__ = Replayed.__name__ = Filled.__name__ = Federation.__name__


class WatchedRun(Run):
    """A run on a watched federation."""

    federation = Watched


class ReplayedRun(Run):
    """A run whose messages are recorded or replayed."""

    federation = Replayed


class FilledRun(Run):
    """A run whose messages do not leave zeros."""

    federation = Filled
