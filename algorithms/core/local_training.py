"""A round's cohort, and how `fed.train` makes batches, an optimiser and a step of its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from repfl.algorithms.core.training import cohort_size
from repfl.algorithms.engine.batches import Batch, Plan, Schedule, plan_batches, plan_pass
from repfl.algorithms.engine.client import Client, Loss
from repfl.algorithms.engine.optimiser import Optimiser
from repfl.algorithms.engine.rng import cohort, flbench_cohort
from repfl.algorithms.engine.training import Inputs, Step

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation

PASS_BATCH = 500
Pull = tuple[Tensor, float]
KEPT = ("last_grad", "epochs", "models", "extras", "collected")
ORDER = ("first_epoch", "steps", "stream")
OPTIONS = ("loss", "step", "pull", "models", "extras", "trainable", "keep", "epochs", "scored")


def draw_cohort(fed: Federation, round_: int) -> list[int]:
    """Return the clients that take part in a round, in the order in which they are drawn."""
    size = cohort_size(fed.N, fed.recipe.participation)
    if fed.recipe.sampling == "flbench":
        return flbench_cohort(fed.streams.seed, fed.N, size, round_).tolist()
    return cohort(fed.streams, fed.N, size, round_).tolist()


def training_plan(
    fed: Federation,
    inputs: Inputs,
    *,
    epochs: int | None,
    first_epoch: int = 0,
    steps: int | None = None,
    stream: str = "batches",
    **optimiser: Any,
) -> tuple[list[Plan], Optimiser]:
    """Return the batches of the active clients and the optimiser; refuse what is not valid."""
    p = fed.protocol
    for name, model in inputs.params.items():
        if model.shape != (fed.K, fed.D):
            raise ValueError(
                f"{name} {list(model.shape)}: clients train from one row of {fed.D:,} values"
                f" for each of the {fed.K} in `fed.active`"
            )
    if wrong := [name for name in inputs.keep if name not in KEPT]:
        raise ValueError(f"fed.train cannot keep {wrong[0]!r}; valid: {', '.join(KEPT)}")
    usual = replace(Optimiser.of(p), lr=fed.lr)
    if unknown := optimiser.keys() - vars(usual).keys():
        valid = ", ".join((*OPTIONS, *ORDER, *(f.name for f in fields(usual))))
        raise TypeError(f"fed.train has no option {min(unknown)!r}; valid: {valid}")
    count = p.epochs if epochs is None else epochs
    schedule = Schedule(stream, fed.round, count, first_epoch, p.batch, p.skip_single)
    plans = [
        plan_batches(fed.data, fed.streams, client, schedule).first(steps)
        for client in fed.active_ids
    ]
    return plans, replace(usual, **optimiser)


def passes(
    fed: Federation, split: str, of: Sequence[int] | None, pick: Sequence[Tensor] | None, batch: int
) -> list[Plan]:
    """Return the batches of passes over a split in its own order."""
    parts = getattr(fed.data, split)
    held = [parts[client] for client in (fed.active_ids if of is None else of)]
    if pick is not None:
        held = [part[positions] for part, positions in zip(held, pick, strict=True)]
    return [plan_pass(part, batch) for part in held]


def recalibrate_batch_norm(fed: Federation, params: Tensor) -> Tensor:
    """Return models [K, D] whose local statistics have seen the active clients' training samples
    for as long as an ordinary training would have; nothing else of them moves.
    """
    if fed.protocol.buffers == "local" and any(s.kind == "stat" for s in fed.params):
        return fed.train(params, trainable=fed.params.stats, stream="join")
    return params


def descend(loss: Loss, pull: Pull | None) -> Step:
    """Return a step along the gradient of a loss, and of a pull towards the model `anchor`."""

    def step(client: Client, batch: Batch) -> None:
        grads = client.grad(batch, loss)
        if pull is not None:
            here, goal = client.tensors(), client.tensors("anchor")
            grads = {n: g.add(here[n] - goal[n], alpha=pull[1]) for n, g in grads.items()}
        client.update(grads)

    return step


@dataclass
class Rows:
    """Rows of models with the ids of their clients, since a method may train clients in parts, or
    in another order.
    """

    blocks: list[tuple[list[int], Tensor]] = field(default_factory=list)

    @property
    def tensors(self) -> list[Tensor]:
        """The rows without their ids."""
        return [rows for _, rows in self.blocks]

    def add(self, clients: list[int], rows: Tensor) -> None:
        """Take rows [K, D]; earlier ones of the same clients go."""
        newer = set(clients)
        self.blocks = [block for block in self.blocks if not newer.issuperset(block[0])]
        self.blocks.append((list(clients), rows))

    def set(self, clients: list[int], rows: Tensor | None) -> None:
        """Have these rows alone, or none."""
        self.blocks = []
        if rows is not None:
            self.add(clients, rows)

    def complete(self, clients: list[int]) -> Tensor | None:
        """Return the last rows of the clients, if all of them have one."""
        there, rows = self.of(clients)
        return rows if there == clients else None

    def of(self, clients: list[int]) -> tuple[list[int], Tensor | None]:
        """Return those of the clients that have a row, and their last rows."""
        for ids, rows in self.blocks:
            if len(self.blocks) == 1 and ids == clients:
                return clients, rows
        last = {client: rows[at] for ids, rows in self.blocks for at, client in enumerate(ids)}
        there = [client for client in clients if client in last]
        return there, torch.stack([last[client] for client in there]) if there else None
