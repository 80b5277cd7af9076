"""Local training of many clients: one at a time (`loop`), or stacked within `torch.vmap` (`stack`).

Both make the same steps on the same batches. A stack needs batches of equal size: in each step its
clients are grouped by them, and a client whose batch has no equal goes alone. A GPU replays steps
that come often as CUDA graphs (`cuda_graphs`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial as part_of

import torch
from torch import Tensor

from repfl.algorithms.engine.batches import Batch, Feed, Plan, batch_of, feed_of
from repfl.algorithms.engine.client import Client, ClientState
from repfl.algorithms.engine.client_data import ClientData, to_device
from repfl.algorithms.engine.cuda_graphs import Replayed, Steps
from repfl.algorithms.engine.model import Model
from repfl.algorithms.engine.optimiser import Optimiser
from repfl.algorithms.engine.params import Params, Tensors
from repfl.algorithms.engine.rng import Streams

LAST_GRAD = "last_grad"
Step = Callable[[Client, Batch], None]
"""One mini-batch of one client: reads and writes the client, and nothing else."""


@dataclass(frozen=True)
class Inputs:
    """What clients bring to a training, a row for each."""

    params: Mapping[str, Tensor]  # each [K, D]
    extras: Mapping[str, Tensor] = field(default_factory=dict)  # each [K, ...]
    reference: Mapping[str, Tensor] = field(default_factory=dict)
    """Further models, which are only read  [K, D] each."""
    trainable: Tensor | None = None  # [D] or [K, D] bool; None: all that gradients reach
    keep: tuple[str, ...] = ()
    """What else to return: "last_grad", "epochs"."""


@dataclass(frozen=True)
class Trained:
    """What local training returns, a row for each client."""

    models: dict[str, Tensor]  # each [K, D]
    extras: dict[str, Tensor]  # each [K, ...]
    last_grad: Tensor | None  # [K, D], gradient of the last mini-batch
    epochs: Tensor | None  # [E, K, D], the model after every epoch
    collected: dict[str, list[Tensor]]
    """Rows that steps collected, by name and client  [n, ...] each."""

    @property
    def params(self) -> Tensor:
        """The trained model  [K, D]."""
        return self.models["params"]


class Trainer:
    """Trains rows of models, up to `width` clients at once."""

    def __init__(self, model: Model, data: ClientData, streams: Streams, width: int) -> None:
        self.model, self.data, self.streams = model, data, streams
        self.width = width if model.stacks else 1
        if width > self.width and not model.random:
            warnings.warn(
                f"model {model.name!r} has recurrent layers: clients train one at a time",
                stacklevel=2,
            )

    def run(self, step: Step, plans: list[Plan], inputs: Inputs, optimiser: Optimiser) -> Trained:
        """Run a step over the batches of every client."""
        out = _Results(self.model.params, inputs, plans)
        plans = [plan.on(self.data.labels.device) for plan in plans]
        order = sorted(range(len(plans)), key=lambda row: -len(plans[row].index))
        order = [row for row in order if plans[row].index]
        width = self.width if optimiser.is_plain_sgd else 1
        at_once = width if width > 1 else len(order)
        for first in range(0, len(order), at_once or 1):
            rows = order[first : first + at_once]
            train = self._stack if width > 1 and len(rows) > 1 else self._loop
            train(step, rows, [plans[row] for row in rows], inputs, optimiser, out)
        return out.trained()

    # -- one client at a time ----------------------------------------------------------------------

    def _loop(
        self,
        step: Step,
        rows: list[int],
        plans: list[Plan],
        inputs: Inputs,
        optimiser: Optimiser,
        out: _Results,
    ) -> None:
        """Train clients one after the other; those with the same masks share recorded steps."""
        sizes = [[len(part) for part in plan.index] for plan in plans]
        steps = self._steps(step, optimiser, [size for own in sizes for size in own])
        for row, plan, own in zip(rows, plans, sizes, strict=True):
            if _has_own_masks(inputs):
                steps = self._steps(step, optimiser, own)
            self._client(step, row, plan, inputs, optimiser, out, steps)

    def _client(
        self,
        step: Step,
        row: int,
        plan: Plan,
        inputs: Inputs,
        optimiser: Optimiser,
        out: _Results,
        steps: Steps,
    ) -> None:
        state = _state(self.model.params, inputs, row)
        masks = tensor_masks(self.model.params, _row(inputs.trainable, row))
        client = Client(self.model, state, masks, optimiser)

        def body(feed: Feed) -> tuple[Tensors, Tensors]:
            step(client, batch_of(self.data, feed, 1))
            return client.last_grad, client.collected

        for done, part in enumerate(plan.index):
            with self._keyed(plan, done) if self.model.random else nullcontext():
                last_grad, collected = steps(len(part), body, feed_of([plan], done), state)
            client.last_grad = last_grad
            out.collect(row, collected)
            if out.epochs is not None and plan.ends_epoch(done):
                out.keep_epoch(row, plan.epoch[done], client.tensors())
        out.finish(row, state, client.last_grad)

    @contextmanager
    def _keyed(self, plan: Plan, done: int) -> Iterator[None]:
        """Seed PyTorch's global generator for a step of random layers, such as dropout."""
        seed = int(self.streams.at("layers", *plan.address, done).integers(2**62))
        with torch.random.fork_rng():
            torch.default_generator.manual_seed(seed)
            if self.data.labels.is_cuda:
                torch.cuda.manual_seed(seed)
            yield

    # -- many clients at once ----------------------------------------------------------------------

    def _stack(
        self,
        step: Step,
        rows: list[int],
        plans: list[Plan],
        inputs: Inputs,
        optimiser: Optimiser,
        out: _Results,
    ) -> None:
        """Train clients whose plans are sorted from long to short."""
        where = to_device(torch.tensor(rows), self.data.labels.device)
        state = _state(self.model.params, inputs, where)
        own = _has_own_masks(inputs)
        trainable = inputs.trainable[where] if own else inputs.trainable  # type: ignore[index]
        masks = tensor_masks(self.model.params, trainable)
        partial = {name: mask for name, mask in masks.items() if mask is not None}
        axes = (0, 0 if own else None, 0)

        def one(state: ClientState, partial: Tensors, batch: Batch) -> tuple[ClientState, Tensors]:
            own_masks = {name: partial.get(name) for name in masks}
            client = Client(self.model, state, own_masks, optimiser, functional=True)
            step(client, batch)
            return {**client.state, LAST_GRAD: client.last_grad}, client.collected

        def body(group: tuple[int, ...], feed: Feed) -> tuple[Tensors, Tensors]:
            place = places[group]
            batch = batch_of(self.data, feed, len(group))
            if len(group) == 1:
                batch = Batch(batch.x[None], batch.y[None])
            part = _take({kind: held for kind, held in state.items() if kind != LAST_GRAD}, place)
            seen = _take({"": partial}, place)[""] if own else partial
            after, collected = torch.vmap(one, in_dims=axes)(part, seen, batch)
            _put(state, place, after, len(rows))
            return {}, collected

        groups = [_by_size(plans, done) for done in range(len(plans[0].index))]
        keys = [key for of_step in groups for key in of_step]
        places = {group: _place(group, where.device) for group, _ in set(keys)}
        steps = self._steps(step, optimiser, keys)
        for done, of_step in enumerate(groups):
            for key in of_step:
                group = key[0]
                feed = feed_of([plans[k] for k in group], done)
                _, collected = steps(key, part_of(body, group), feed, state)
                for at, k in enumerate(group):
                    out.collect(rows[k], {name: r[at] for name, r in collected.items()})
            for k in _ending_epoch(plans, done) if out.epochs is not None else ():
                tensors = _take(state, k)["params/params"]
                out.keep_epoch(rows[k], plans[k].epoch[done], tensors)
        for k, row in enumerate(rows):
            result = _take(state, k)
            out.finish(row, result, result[LAST_GRAD])

    def _steps(self, step: Step, optimiser: Optimiser, keys: Sequence[Hashable]) -> Steps:
        """Return what runs the steps of a training, each with a key of its shapes."""
        if self.data.labels.is_cuda and optimiser.is_plain_sgd and not self.model.random:
            return Replayed(step, keys)
        return lambda key, body, feed, state: body(feed)


def _by_size(plans: Sequence[Plan], done: int) -> list[tuple[tuple[int, ...], int]]:
    """Group the clients that still train by the size of their next batch."""
    groups: dict[int, list[int]] = {}
    for k, plan in enumerate(plans):
        if len(plan.index) > done:
            groups.setdefault(len(plan.index[done]), []).append(k)
    return [(tuple(group), size) for size, group in groups.items()]


def _ending_epoch(plans: Sequence[Plan], done: int) -> list[int]:
    """Return the clients whose epoch ends with this step."""
    return [k for k, plan in enumerate(plans) if len(plan.index) > done and plan.ends_epoch(done)]


def _place(group: tuple[int, ...], device: torch.device) -> Tensor | slice:
    """Return the group as an index; as a slice, which needs no copy, if it is contiguous."""
    if group == tuple(range(group[0], group[-1] + 1)):
        return slice(group[0], group[-1] + 1)
    return to_device(torch.tensor(group), device)


def _take(state: ClientState, place: Tensor | slice | int) -> ClientState:
    return {kind: {n: t[place] for n, t in named.items()} for kind, named in state.items()}


def _put(state: ClientState, place: Tensor | slice, after: ClientState, clients: int) -> None:
    """Write what a group's step returned back into the stack."""
    for kind, named in after.items():
        into = state.setdefault(kind, {})
        for name, value in named.items():
            if name not in into or into[name].shape[1:] != value.shape[1:]:
                into[name] = value.new_zeros(clients, *value.shape[1:])
            # a slice of the stack has been written in place already
            if into[name][place].data_ptr() != value.data_ptr() or value.is_meta:
                into[name][place] = value


def _state(params: Params, inputs: Inputs, where: int | Tensor) -> ClientState:
    """Return copies of what one client, or some, bring to a training."""
    models = {**inputs.params, **inputs.reference}
    state = {f"params/{name}": params.unflatten(flat[where]) for name, flat in models.items()}
    return {
        **state,
        "extras": {name: value[where].clone() for name, value in inputs.extras.items()},
    }


def _has_own_masks(inputs: Inputs) -> bool:
    return inputs.trainable is not None and inputs.trainable.dim() == 2


def _row(mask: Tensor | None, row: int) -> Tensor | None:
    return mask if mask is None or mask.dim() == 1 else mask[row]


def tensor_masks(params: Params, trainable: Tensor | None) -> dict[str, Tensor | None]:
    """Return the tensors that train, each with the mask of its trainable entries [..., *shape]
    (None: all). On a GPU, entries of masks [K, D] are not looked at, which would be a wait.
    """
    if trainable is None:
        return dict.fromkeys(s.name for s in params.trained)
    lead = trainable.shape[:-1]
    masks = {s.name: trainable[..., s.place].view(*lead, *s.shape) for s in params.trained}
    if trainable.device.type != "cpu":
        return dict(masks)
    return {n: None if bool(m.all()) else m for n, m in masks.items() if bool(m.any())}


class _Results:
    """Where the rows of trained clients come together."""

    def __init__(self, params: Params, inputs: Inputs, plans: Sequence[Plan]) -> None:
        self.params, self.trainable = params, inputs.trainable
        self.models = {name: flat.clone() for name, flat in inputs.params.items()}
        self.extras = {name: value.clone() for name, value in inputs.extras.items()}
        start = next(iter(self.models.values()))
        epochs = max((p.epoch[-1] - p.epoch[0] + 1 for p in plans if p.epoch), default=0)
        self.first = [p.epoch[0] if p.epoch else 0 for p in plans]
        self.last_grad = torch.zeros_like(start) if "last_grad" in inputs.keep else None
        self.epochs = start.repeat(epochs, 1, 1) if "epochs" in inputs.keep else None
        self.collected: dict[str, list[list[Tensor]]] = {}

    def collect(self, row: int, rows: Tensors) -> None:
        for name, value in rows.items():
            values = self.collected.setdefault(name, [[] for _ in self.first])
            values[row].append(value)

    def keep_epoch(self, row: int, epoch: int, tensors: Tensors) -> None:
        assert self.epochs is not None
        self.epochs[epoch - self.first[row] :, row] = self.params.flatten(tensors)

    def finish(self, row: int, state: ClientState, last_grad: Tensors) -> None:
        for name, flat in self.models.items():
            flat[row] = self.params.flatten(state[f"params/{name}"])
        for name, value in self.extras.items():
            value[row] = state["extras"][name]
        if self.last_grad is not None and last_grad:
            self.last_grad[row] = self.params.flatten(last_grad)
            if (trainable := _row(self.trainable, row)) is not None:
                self.last_grad[row] *= trainable

    def trained(self) -> Trained:
        collected = {}
        for name, rows in self.collected.items():
            none = next(parts[0][:0] for parts in rows if parts)
            collected[name] = [torch.cat(parts) if parts else none for parts in rows]
        return Trained(self.models, self.extras, self.last_grad, self.epochs, collected)
