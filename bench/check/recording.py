"""What the contract watches of a run: every message, encoded for real; what is trained and scored.
One client's messages can be replayed while its models are disturbed.

All of it are functions on the federation's taps and hooks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import Mask, Message, Numbers, Vectors, encode
from repfl.algorithms.core.run import Run
from repfl.algorithms.core.sending import Way
from repfl.algorithms.engine.batches import Plan
from repfl.algorithms.engine.evaluate import Mixture, Models
from repfl.algorithms.engine.optimiser import Optimiser
from repfl.algorithms.engine.training import Inputs, Step, Trained


def flat(models: Models) -> list[Tensor]:
    """Return the tensors from which predictions are computed."""
    if isinstance(models, Mixture):
        return [tensor for part in models.parts for tensor in part]
    return [models]


class Recording:
    """What has been sent, trained and scored in a federation."""

    def __init__(self, fed: Federation) -> None:
        self.fed = fed
        self.scored: list[Tensor] = []
        self.trained_from: list[Tensor] = []
        self.tape: list[Message] = []
        self.encoded = 0
        """Bytes of all messages, encoded for real."""
        self.empty: set[str] = set()
        """What has had nothing to work on."""
        self.masked = False
        """Whether a message or a training has left entries out."""
        self.replays = ""
        """"": record; "up": replay the teacher's rows of what goes up; "down": replay downloads."""
        self.teacher = 0
        self.coded_down = False
        """Whether a download encodes positions: the mask is then a part of the message."""
        fed.network.taps.append(self.pass_on)
        fed.scores.watchers.append(self.keep_scored)
        self._train, fed.run_training = fed.run_training, self.train

    def replay(self, earlier: Recording, what: str, teacher: int = 0) -> None:
        """Replay the messages of another recording from here on."""
        self.tape, self.replays, self.teacher = list(earlier.tape), what, teacher

    def restart(self) -> None:
        """Record messages from here on."""
        self.tape, self.trained_from = [], []

    # -- training and scoring ----------------------------------------------------------------------

    def keep_scored(self, point: str, models: Models) -> None:
        """Keep what is scored."""
        self.scored += [part.clone() for part in flat(models)]

    def train(self, step: Step, plans: list[Plan], inputs: Inputs, optimiser: Optimiser) -> Trained:
        """Keep what clients train from; while the teacher is replayed, disturb its models."""
        if inputs.trainable is not None:
            self.masked |= not bool(inputs.trainable[..., self.fed.params.learnable].all())
            if not inputs.trainable.any() and not inputs.extras:
                self.empty.add("a training has nothing to train")
        named: list[Any] = [inputs.params, inputs.reference, inputs.extras]
        self.trained_from += [tensor.clone() for part in named for tensor in part.values()]
        done = self._train(step, plans, inputs, optimiser)
        if self.replays == "up" and self.teacher in self.fed.active_ids:
            row = self.fed.active_ids.index(self.teacher)
            for rows in [*done.models.values(), *done.extras.values()]:
                if rows.is_floating_point():
                    rows[row] += 0.01
        return done

    # -- messages ----------------------------------------------------------------------------------

    def pass_on(self, way: Way, message: Message, rows: list[int]) -> Message:
        """Encode a message, and record it or replace it by what was recorded."""
        self.encoded += encoded_bytes(message, len(rows))
        if isinstance(message, Vectors) and not message.on_wire.any():
            self.empty.add("a message has no entries")
        if isinstance(message, Vectors):
            self.masked |= not bool(message.on_wire[..., self.fed.communicated].all())
        if isinstance(message, Vectors) and way == "down" and message.code != "none":
            self.coded_down = True
        if not self.replays:
            self.tape.append(replace(message, values=message.values.clone()))
            return message
        recorded = self.tape.pop(0)
        direction = "up" if way == "peers" else way
        if direction != self.replays or message.values.shape != recorded.values.shape:
            return message
        if direction == "down":
            return recorded
        own_rows = message.values.shape[:1] == (len(rows),)
        if self.teacher not in rows or not own_rows:
            return message
        return _with_row(message, recorded, rows.index(self.teacher), masked=way != "peers")


def _with_row(message: Message, recorded: Message, row: int, *, masked: bool) -> Message:
    """Return a message with one row as it was recorded."""
    values = message.values.clone()
    values[row] = recorded.values[row]
    change: dict[str, Any] = {"values": values}
    for name in ("mask", "rows"):
        mask, earlier = getattr(message, name, None), getattr(recorded, name, None)
        if mask is None or earlier is None:
            continue
        both = values.shape[: 2 if name == "mask" else earlier.dim()]
        if masked or mask.dim() == 2 or getattr(message, "code", "none") != "none":
            change[name] = mask.expand(both).clone()
            change[name][row] = earlier.expand(both)[row]
    return replace(message, **change)


def encoded_bytes(message: Message, clients: int) -> int:
    """Encode a message for each client, and return how many bytes that makes."""
    copies = [1] * clients
    if message.graph is not None:
        others = message.graph & ~torch.eye(clients, dtype=torch.bool)
        copies = others.sum(0).tolist()
    if isinstance(message, Vectors):
        masks = message.on_wire.expand(clients, -1)
        lengths = [
            _vector_bytes(message, values, mask)
            for values, mask in zip(message.values, masks, strict=True)
        ]
        return sum(count * length for count, length in zip(copies, lengths, strict=True))
    if isinstance(message, Mask):
        return sum(
            len(encode(row.float(), row, message.code, message.domain)) - 4 * int(row.sum())
            for row in message.values.expand(clients, -1)
        )
    assert isinstance(message, Numbers)
    return _number_bytes(message, clients, sum(copies))


def _vector_bytes(message: Vectors, values: Tensor, mask: Tensor) -> int:
    count = int(mask.sum())
    narrower = 4 * (count - (count * message.bits + 31) // 32)
    with np.errstate(over="ignore"):  # only the length counts
        length = len(encode(values, mask, message.code, message.domain))
    return length + 4 * message.scalars - narrower


def _number_bytes(message: Numbers, clients: int, copies: int) -> int:
    if message.values.dtype == torch.bool:
        return copies * len(np.packbits(np.zeros(message.shape.numel(), bool)))
    if message.rows is None:
        floats = message.shape.numel() if message.floats is None else message.floats
        return 4 * copies * floats
    values = message.values.expand(clients, *message.shape)
    masks = message.rows.expand(clients, -1)
    return sum(
        len(row[mask].float().numpy().tobytes()) + len(np.packbits(mask.numpy()))
        for row, mask in zip(values, masks, strict=True)
    )


class RecordedRun(Run):
    """A run that is recorded."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.recording = Recording(self.fed)


class ReversedRun(Run):
    """A run whose cohorts are in descending order."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        begin = self.fed.begin

        def begin_reversed(*args: Any, **how: Any) -> None:
            begin(*args, **how)
            self.fed.set_active(self.fed.active_ids[::-1])

        self.fed.begin = begin_reversed  # type: ignore[method-assign]


class FilledRun(RecordedRun):
    """A run whose messages have ones instead of zeros in place of statistics that are not sent."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.fed.network.taps.append(self.fill)

    def fill(self, way: Way, message: Message, rows: list[int]) -> Message:
        """Return a message that does not leave zeros."""
        if way == "peers" or not isinstance(message, Vectors):
            return message
        sent = self.fed.communicated | message.mask
        return replace(message, rest=torch.where(sent, 0.0, 1.0).to(message.values))
