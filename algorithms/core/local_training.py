"""A round's cohort, and how `fed.train` makes batches, an optimiser and a step of its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from repfl.algorithms.core.settings import Training, cohort_size
from repfl.algorithms.engine.batches import Batch, Plan, Schedule, plan_batches, plan_pass
from repfl.algorithms.engine.client import Client, Loss
from repfl.algorithms.engine.client_data import to_device
from repfl.algorithms.engine.optimiser import Optimiser
from repfl.algorithms.engine.precision import tensor_cores
from repfl.algorithms.engine.rng import cohort, flbench_cohort
from repfl.algorithms.engine.training import Inputs, Step, Trained

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation

PASS_BATCH = 500
Pull = tuple[Tensor, float | Tensor]
Start = Tensor | Mapping[str, Tensor]
KEPT = ("last_grad", "epochs", "models", "extras", "collected")
ORDER = ("first_epoch", "steps", "stream")
OPTIONS = (
    *("loss", "step", "pull", "models", "extras", "learn", "trainable", "keep", "epochs"),
    "scored",
)


def draw_cohort(fed: Federation, round_: int) -> list[int]:
    """Return the clients that take part in a round, in the order in which they are drawn."""
    size = cohort_size(fed.N, fed.recipe.participation)
    if fed.recipe.sampling == "flbench":
        return flbench_cohort(fed.streams.seed, fed.N, size, round_).tolist()
    return cohort(fed.streams, fed.N, size, round_).tolist()


def whole_epochs(training: Training) -> int:
    """Return the epochs of a round; refuse steps, and fractions of epochs."""
    if training.epochs is None or not training.has_whole_epochs:
        raise ValueError("the method divides epochs, and training.epochs is no whole number")
    return int(training.epochs)


def weights(fed: Federation) -> Tensor:
    """Return the protocol's weights of the active clients  [K]."""
    held = [fed.samples[client] for client in fed.active_ids]
    if fed.protocol.weighting != "samples" or not any(held):
        held = [1] * fed.K
    counts = to_device(torch.tensor(held), fed.device)
    return (counts.double() / sum(held)).to(fed.dtype)


def mean(fed: Federation, x: Tensor, weights: Tensor | None) -> Tensor:
    """Return the weighted mean over clients; see `fed.mean`."""
    if weights is not None:
        weights = weights.double()
        weights = (weights / weights.sum()).to(x.dtype)
    rows = x.flatten(1) if x.dim() > 2 else x
    return ((fed.weights if weights is None else weights) @ rows).view(x.shape[1:])


def train(
    fed: Federation,
    step: Step,
    params: Start,
    models: Mapping[str, Tensor],
    extras: Mapping[str, Tensor],
    *,
    trainable: Tensor | None,
    keep: tuple[str, ...],
    **options: Any,
) -> Trained:
    """Train the active clients; see `fed.train`."""
    named = {"params": params} if isinstance(params, Tensor) else params
    inputs = Inputs(named, extras, models, trainable, keep)
    plans, optimiser = training_plan(fed, inputs, **options)
    with tensor_cores(fed.precision, fed.device):
        return fed.run_training(step, plans, inputs, optimiser)


def visit(
    fed: Federation,
    step: Step,
    plans: list[Plan],
    params: Mapping[str, Tensor],
    extras: Mapping[str, Tensor],
    trainable: Tensor | None,
) -> Trained:
    """Run a step over passes; see `fed.for_each_batch`."""
    inputs = Inputs(params, extras, trainable=trainable)
    with tensor_cores(fed.precision, fed.device):
        return fed.trainer.run(step, plans, inputs, Optimiser(fed.lr))


def schedule(
    fed: Federation, epochs: int | None = None, first_epoch: int = 0, stream: str = "batches"
) -> Schedule:
    """Return the schedule of a local training: of a whole round, or of a number of epochs."""
    p = fed.protocol
    length, steps = (p.epochs or 0, p.steps) if epochs is None else (epochs, None)
    return Schedule(stream, fed.round, length, first_epoch, p.batch, p.skip_single, steps)


def training_plan(
    fed: Federation,
    inputs: Inputs,
    *,
    epochs: int | Sequence[int] | None,
    first_epoch: int = 0,
    steps: int | None = None,
    stream: str = "batches",
    **optimiser: Any,
) -> tuple[list[Plan], Optimiser]:
    """Return the batches of the active clients and the optimiser; refuse what is not valid."""
    for name, model in inputs.params.items():
        if model.shape != (fed.K, fed.D):
            raise ValueError(
                f"{name} {list(model.shape)}: clients train from one row of {fed.D:,} values"
                f" for each of the {fed.K} in `fed.active`"
            )
    if wrong := [name for name in inputs.keep if name not in KEPT]:
        raise ValueError(f"fed.train cannot keep {wrong[0]!r}; valid: {', '.join(KEPT)}")
    usual = replace(Optimiser.of(fed.protocol), lr=fed.lr)
    if unknown := optimiser.keys() - vars(usual).keys():
        valid = ", ".join((*OPTIONS, *ORDER, *(f.name for f in fields(usual))))
        raise TypeError(f"fed.train has no option {min(unknown)!r}; valid: {valid}")
    each = epochs if isinstance(epochs, Sequence) else [epochs] * fed.K
    plans = [
        plan_batches(fed.data, fed.streams, client, schedule(fed, own, first_epoch, stream)).first(
            steps
        )
        for client, own in zip(fed.active_ids, each, strict=True)
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


def pull_models(pull: Pull | None) -> dict[str, Tensor]:
    """Return the models that a pull needs at every client."""
    if pull is None:
        return {}
    anchor, strength = pull
    each = {"strength": strength.expand_as(anchor)} if isinstance(strength, Tensor) else {}
    return {"anchor": anchor, **each}


def descend(
    loss: Loss, pull: Pull | None, learn: tuple[str, ...], extras: Mapping[str, Tensor]
) -> Step:
    """Return a step along the gradient of a loss by the model and by the extras to learn, and of a
    pull towards the model `anchor`.
    """
    if wrong := [name for name in learn if name not in extras]:
        valid = ", ".join(extras) or "none"
        raise ValueError(f"fed.train cannot learn {wrong[0]!r}; extras: {valid}")

    def step(client: Client, batch: Batch) -> None:
        grads = client.grad(batch, loss, extras=learn)
        if pull is not None:
            here, goal = client.tensors(), client.tensors("anchor")
            pulled = {n: g for n, g in grads.items() if n in goal}
            if isinstance(pull[1], Tensor):
                each = client.tensors("strength")
                grads |= {n: g + each[n] * (here[n] - goal[n]) for n, g in pulled.items()}
            else:
                grads |= {n: g.add(here[n] - goal[n], alpha=pull[1]) for n, g in pulled.items()}
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
