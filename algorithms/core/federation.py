"""The federation: everything a method may talk to.

It draws who takes part, moves messages (see `network`), trains clients and scores models (see
`recorder`). A method sees vectors: one client is a row of length D, the cohort is [K, D], all
clients are [N, D].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.recorder import Recorder
from repfl.algorithms.core.topology import Topology
from repfl.algorithms.core.training import TrainingProtocol, cohort_size
from repfl.algorithms.engine import batches
from repfl.algorithms.engine.batches import Batch, Schedule, plan_batches, plan_pass
from repfl.algorithms.engine.client import Client, Loss, cross_entropy
from repfl.algorithms.engine.client_data import ClientData, to_device
from repfl.algorithms.engine.model import Model
from repfl.algorithms.engine.optimiser import Optimiser, learning_rates
from repfl.algorithms.engine.precision import tensor_cores
from repfl.algorithms.engine.rng import Streams, cohort, flbench_cohort
from repfl.algorithms.engine.training import Inputs, Step, Trained, Trainer

PASS_BATCH = 500


class Federation(Recorder):
    """N clients with their data, one model architecture, and a protocol.

    `round` is 1, 2, ... while a method's `round` runs, and 0 in its `init`.
    """

    def __init__(
        self,
        model: Model,
        data: ClientData,
        recipe: TrainingProtocol,
        *,
        seed: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        stack: int = 1,
        precision: str = "default",
    ) -> None:
        """`stack`: how many clients are computed at once; 1: one after the other."""
        super().__init__(model, data, recipe, torch.device(device), dtype, stack, precision)
        self.streams = Streams(seed)
        self._trainer = Trainer(self.model, self.data, self.streams, stack)
        self.samples = [len(part) for part in data.train]
        """Training samples of every client."""
        self.round = 0

    # -- who and when ------------------------------------------------------------------------------

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.data.classes

    @property
    def rounds(self) -> int:
        """Number of rounds of the whole run."""
        return self.protocol.rounds

    @property
    def epochs(self) -> int:
        """Epochs of local training in a round."""
        return self.protocol.epochs

    @property
    def lr(self) -> float:
        """The protocol's learning rate in this round."""
        if self.protocol.scheduler is not None:
            return self._scheduled[max(self.round - 1, 0)]
        return self.protocol.lr * self.protocol.lr_decay ** max(self.round - 1, 0)

    @cached_property
    def _scheduled(self) -> list[float]:
        """The learning rates of all rounds, if the protocol has a scheduler."""
        return learning_rates(self.protocol)

    @property
    def n_train(self) -> Tensor:
        """Training samples of the active clients  [K]."""
        held = torch.tensor([self.samples[client] for client in self.active_ids], dtype=torch.int64)
        return to_device(held, self.device)

    @property
    def steps_per_epoch(self) -> Tensor:
        """Mini-batches in an epoch of the active clients  [K]."""
        p = self.protocol
        return batches.steps_per_epoch(self.n_train, p.batch, p.skip_single)

    @property
    def class_counts(self) -> Tensor:
        """Training samples of the active clients by class  [K, classes]."""
        return self.data.class_counts[self.active]

    def begin(self, round_: int, *, all_clients: bool = False) -> None:
        """Open a round: draw its cohort (or take all clients) and clear what the last one left."""
        drawn = list(range(self.N)) if all_clients else self._drawn(round_).tolist()
        self.sampled = drawn
        """The participants in the order in which they were drawn; `active` is ascending."""
        self.set_active(sorted(drawn))
        self.round = round_
        self.open_round()

    def _drawn(self, round_: int) -> Tensor:
        size = cohort_size(self.N, self.recipe.participation)
        if self.recipe.sampling == "flbench":
            return flbench_cohort(self.streams.seed, self.N, size, round_)
        return cohort(self.streams, self.N, size, round_)

    def subfederation(self, train: Sequence[Tensor]) -> Federation:
        """Return a temporary federation of other clients with the given training indices, with the
        same model, images and protocol, e.g. for pre-training.
        """
        none = [part[:0] for part in train]
        return self._other(replace(self.data, train=train, test=none, val=none), self.recipe)

    def newcomer_federation(self, newcomers: ClientData) -> Federation:
        """Return a federation of the unseen clients, with `recipe.newcomers.epochs` local epochs,
        in the last round.
        """
        parts = {name: getattr(newcomers, name) for name in ("train", "test", "val")}
        assert self.recipe.newcomers is not None
        training = replace(self.recipe.training, epochs=self.recipe.newcomers.epochs)
        recipe = replace(self.recipe, training=training)
        late = self._other(replace(self.data, **parts), recipe)
        late.begin(self.round, all_clients=True)
        late.scoring = True
        return late

    def _other(self, data: ClientData, recipe: TrainingProtocol) -> Federation:
        how: dict[str, Any] = {"device": self.device, "dtype": self.dtype, "stack": self.stack}
        how |= {"precision": self.precision, "seed": self.streams.seed}
        return Federation(self.model, data, recipe, **how)

    def rng(self, purpose: str, *address: int) -> np.random.Generator:
        """Return a method's own generator, keyed by the round and an address (client, epoch)."""
        return self.streams.at(f"method/{purpose}", self.round, *address)

    @property
    def topology(self) -> Topology:
        """This round's graphs over all clients."""
        return Topology(self.N, self.rng, self.device)

    # -- models ------------------------------------------------------------------------------------

    def new_model(self, *address: int) -> Tensor:
        """Return initial values; without an address, those that all clients share  [D]."""
        return self.model.initial(self.streams, *address).to(self.device, self.dtype)

    def first_models(self) -> Tensor:
        """Return initial values of entries that are never synchronised: one row if all clients
        start alike, else each client's own  [1, D] or [N, D].
        """
        if self.protocol.start == "common":
            return self.new_model()[None]
        return torch.stack([self.new_model(client) for client in range(self.N)])

    def new_models(self) -> Tensor:
        """Return the same for all clients  [N, D]."""
        return self.first_models().expand(self.N, -1)

    def client_rows(self, initial: Tensor) -> Tensor:
        """Return rows for all clients, of initial values for each or one for all  [N or 1, ...] ->
        [N, ...]. Read them by `rows[fed.active]`, write them by `scatter_rows`.
        """
        return initial.expand(self.N, *initial.shape[1:]).clone()

    # -- server algebra ----------------------------------------------------------------------------

    @property
    def weights(self) -> Tensor:
        """The protocol's weights of the active clients, which sum to one  [K]."""
        held = [self.samples[client] for client in self.active_ids]
        if self.protocol.weighting != "samples" or not any(held):
            held = [1] * self.K
        counts = to_device(torch.tensor(held), self.device)
        return (counts.double() / sum(held)).to(self.dtype)

    def mean(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the weighted mean over clients; weights need not sum to one  [K, D] -> [D]."""
        if weights is None:
            return self.weights @ x
        weights = weights.double()
        return (weights / weights.sum()).to(x.dtype) @ x

    # -- local training ----------------------------------------------------------------------------

    def train(self, start: Tensor, **options: Any) -> Tensor:
        """Train the active clients from their rows of `start` and return the result  [K, D].

        Options are those of `train_full`.
        """
        return self.train_full(start, **options).params

    def recalibrate_batch_norm(self, params: Tensor) -> Tensor:
        """Return models [K, D] whose local statistics have seen the active clients' training
        samples for as long as an ordinary training would have; nothing else of them moves.
        """
        if self.protocol.buffers == "local" and any(s.kind == "stat" for s in self.params):
            return self.train(params, trainable=self.params.stats, stream="join")
        return params

    def train_full(
        self,
        start: Tensor,
        *,
        loss: Loss = cross_entropy,
        pull: tuple[Tensor, float] | None = None,
        models: Mapping[str, Tensor] | None = None,
        **options: Any,
    ) -> Trained:
        """Train the active clients; return models, last gradients and what was collected.

        `loss(model, batch, extras)` is written for one client; `models` [K, D] are further models
        that it finds in `extras`. `pull` (anchor [K, D], strength) adds the gradient of
        strength / 2 |w - anchor|^2. Other options are those of `train_with`.
        """
        reference = dict(models or {})
        if pull is not None:
            reference["anchor"] = pull[0]

        def step(client: Client, batch: Batch) -> None:
            grads = client.grad(batch, loss)
            if pull is not None:
                here, goal = client.tensors(), client.tensors("anchor")
                grads = {n: g.add(here[n] - goal[n], alpha=pull[1]) for n, g in grads.items()}
            client.update(grads)

        done = self.train_with(step, {"params": start}, reference=reference, **options)
        self.trained = done.params
        return done

    def train_with(
        self,
        step: Step,
        params: Mapping[str, Tensor],
        *,
        reference: Mapping[str, Tensor] | None = None,
        extras: Mapping[str, Tensor] | None = None,
        trainable: Tensor | None = None,
        keep: tuple[str, ...] = (),
        epochs: int | None = None,
        first_epoch: int = 0,
        steps: int | None = None,
        stream: str = "batches",
        **optimiser: Any,
    ) -> Trained:
        """Run `step(client, batch)` on every mini-batch of every active client.

        `params` are the models that steps may change, `reference` models that they only read, each
        [K, D]; `extras` are further tensors, a row for each client; `trainable` ([D] or [K, D])
        freezes all other entries; `keep` asks for "last_grad" or "epochs". `epochs` defaults to the
        protocol's; `first_epoch` continues the batch order of an earlier phase of the round,
        `stream` names another order, `steps` limits the number of batches. Further options override
        the protocol's optimiser: lr, momentum, weight_decay, clip, name (a class of `torch.optim`)
        and options.
        """
        p = self.protocol
        for name, model in params.items():
            if model.shape != (self.K, self.D):
                raise ValueError(
                    f"{name} {list(model.shape)}: clients train from one row of {self.D:,} values"
                    f" for each of the {self.K} in `fed.active`"
                )
        count = p.epochs if epochs is None else epochs
        schedule = Schedule(stream, self.round, count, first_epoch, p.batch, p.skip_single)
        plans = [
            plan_batches(self.data, self.streams, client, schedule).first(steps)
            for client in self.active_ids
        ]
        usual = replace(Optimiser.of(p), lr=self.lr)
        if wrong := optimiser.keys() - vars(usual).keys():
            valid = ", ".join((*TRAINING_OPTIONS, *vars(usual)))
            raise TypeError(f"fed.train has no option {min(wrong)!r}; valid: {valid}")
        inputs = Inputs(params, extras or {}, reference or {}, trainable, keep)
        with tensor_cores(self.precision, self.device):
            return self._trainer.run(step, plans, inputs, replace(usual, **optimiser))

    def for_each_batch(
        self,
        step: Step,
        params: Mapping[str, Tensor],
        *,
        extras: Mapping[str, Tensor] | None = None,
        of: Sequence[int] | None = None,
        split: str = "train",
        pick: Sequence[Tensor] | None = None,
        trainable: Tensor | None = None,
        batch: int = PASS_BATCH,
    ) -> Trained:
        """Run `step(client, batch)` over data in their own order, unaugmented, to gather statistics
        in `client.extras` or by `client.collect`.

        Row r of every model and extra sees the data of client `of[r]` (default: the active
        clients), or those at the positions `pick[r]`.
        """
        parts = getattr(self.data, split)
        held = [parts[client] for client in (self.active_ids if of is None else of)]
        if pick is not None:
            held = [part[positions] for part, positions in zip(held, pick, strict=True)]
        plans = [plan_pass(part, batch) for part in held]
        inputs = Inputs(params, extras or {}, trainable=trainable)
        with tensor_cores(self.precision, self.device):
            return self._trainer.run(step, plans, inputs, Optimiser(self.lr))


TRAINING_OPTIONS = tuple(
    name
    for function in (Federation.train_full, Federation.train_with)
    for name, each in signature(function).parameters.items()
    if each.kind is Parameter.KEYWORD_ONLY
)
"""What `fed.train` takes beside the options of the optimiser."""
