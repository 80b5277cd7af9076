"""The federation: everything a method may talk to.

It draws who takes part, moves messages (see `network`), trains clients and scores models. A method
sees vectors: one client is a row of length D, the cohort is [K, D], everybody is [N, D].
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast
from weakref import ref

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.batches import Batch, Schedule, plan_pass
from repfl.algorithms.core.chunk import Chunk, Objective, Sgd, cross_entropy
from repfl.algorithms.core.data import ClientData, sent
from repfl.algorithms.core.evaluate import Models, Score, count_correct
from repfl.algorithms.core.local import Held, LocalTraining
from repfl.algorithms.core.lowering import Lowering
from repfl.algorithms.core.model import Model
from repfl.algorithms.core.network import Network
from repfl.algorithms.core.recipe import Recipe, cohort_size
from repfl.algorithms.core.rng import Streams, cohort, flbench_cohort
from repfl.algorithms.core.topology import Topology
from repfl.algorithms.core.train import Step, Trained

PASS_BATCH = 500
Outcome = TypeVar("Outcome")


class Federation(Network):
    """N clients with their data, one model architecture, and a protocol."""

    def __init__(
        self,
        model: Model,
        data: ClientData,
        recipe: Recipe,
        *,
        seed: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        **lowering: Any,
    ) -> None:
        """`lowering`: how the device computes, as fields of `Lowering`."""
        super().__init__(
            model.layout.on(device), data.clients, recipe.training, torch.device(device)
        )
        self.lowering = Lowering(**lowering)
        self.model, self.recipe, self.dtype = model.at(self.lowering.precision), recipe, dtype
        self.data = data.to(self.device, dtype)
        self.streams = Streams(seed)
        self._local = LocalTraining(
            self.model, self.layout, self.data, self.lowering, self.streams, self.protocol.batch
        )
        self.lanes = self._local.lanes
        self.sizes = torch.tensor([len(part) for part in data.train], device=self.device)  # [N]
        self.round = 0
        self.called = self.active
        self._cohort: list[int] = []
        """The participants in the order in which they were drawn; `active` is ascending."""
        self.trained: Tensor | None = None
        self.notes: dict[str, float | Tensor] = {}
        self._known: dict[str, tuple[list[ref[Tensor]], list[int], Any]] = {}
        self.tallies: dict[str, Tensor] = {}
        self.scores: dict[str, Score] = {}
        self.scoring = False

    # -- who and when ------------------------------------------------------------------------------

    @property
    def classes(self) -> int:
        return self.data.classes

    @property
    def rounds(self) -> int:
        """Number of rounds of the whole run."""
        return self.protocol.rounds

    @property
    def n_train(self) -> Tensor:
        """Training samples of the active clients  [K]."""
        return self.sizes[self.active]

    @property
    def sgd(self) -> Sgd:
        """The protocol's optimiser in this round."""
        p = self.protocol
        return Sgd(p.lr * p.lr_decay ** max(self.round - 1, 0), p.momentum, p.weight_decay, p.clip)

    def begin(self, round_: int, *, scoring: bool, everybody: bool = False) -> None:
        """Open a round: draw its cohort (or call everybody), clear what belonged to the last
        one.
        """
        drawn = self._drawn(round_)
        self.called = self.everybody if everybody else sent(drawn, self.device)
        present = torch.arange(self.N) if everybody else drawn.sort().values
        self._cohort = [] if everybody else present.tolist()
        self.call(sent(present, self.device), present.tolist())
        self.round, self.scoring, self.trained, self.notes, self.scores = (
            round_,
            scoring,
            None,
            {},
            {},
        )
        self.ledger.open_round()
        self._known.clear()

    def _drawn(self, round_: int) -> Tensor:
        """The cohort of a round, in the order in which it is drawn  [K]."""
        size = cohort_size(self.N, self.recipe.participation)
        draw = (
            flbench_cohort(self.streams.seed, self.N, size, round_)
            if self.recipe.sampling == "flbench"
            else None
        )
        return cohort(self.streams, self.N, size, round_) if draw is None else draw

    def over(self, train: Sequence[Tensor]) -> Federation:
        """A federation apart, for preparations: the same model, images and protocol, other clients
        with the given training indices.
        """
        nothing = [part[:0] for part in train]
        return self._apart(replace(self.data, train=train, test=nothing, val=nothing), self.recipe)

    def joined_by(self, newcomers: ClientData) -> Federation:
        """A federation apart, of clients that join now: what is a round's epochs elsewhere is there
        what the recipe grants to newcomers.
        """
        parts = {name: getattr(newcomers, name) for name in ("train", "test", "val")}
        assert self.recipe.newcomers is not None
        training = replace(self.recipe.training, epochs=self.recipe.newcomers.epochs)
        late = self._apart(replace(self.data, **parts), replace(self.recipe, training=training))
        late.begin(self.round, scoring=True, everybody=True)
        return late

    def _apart(self, data: ClientData, recipe: Recipe) -> Federation:
        where: dict[str, Any] = {"device": self.device, "dtype": self.dtype, **vars(self.lowering)}
        return Federation(self.model, data, recipe, seed=self.streams.seed, **where)

    @property
    def chunk(self) -> int:
        """How many clients the device works on at a time."""
        return self.lowering.together

    def rng(self, purpose: str, *address: int) -> np.random.Generator:
        """Randomness of a method's own, keyed by the round and whatever address it gives (a client,
        an epoch).
        """
        return self.streams.at(f"method/{purpose}", self.round, *address)

    @property
    def topology(self) -> Topology:
        """This round's graphs over all clients."""
        return Topology(self.N, self.rng, self.device)

    # -- models ------------------------------------------------------------------------------------

    def new_model(self, *address: int) -> Tensor:
        """Fresh initial values; without an address, the ones that all clients share  [D]."""
        return self.model.initial(self.streams, *address).to(self.device, self.dtype)

    def new_models(self) -> Tensor:
        """Initial values of entries that are never synchronised: common, or each client's own, as
        the protocol says  [N, D].
        """
        if self.protocol.start == "common":
            return self.new_model().expand(self.N, -1)
        return torch.stack([self.new_model(client) for client in range(self.N)])

    # -- server algebra ----------------------------------------------------------------------------

    @property
    def weights(self) -> Tensor:
        """The protocol's weights of the active clients; they sum to one, also where nobody holds a
        sample  [K].
        """
        alike = torch.ones_like(self.n_train)
        held = (
            torch.where(self.n_train.sum() > 0, self.n_train, alike)
            if self.protocol.weighting == "samples"
            else alike
        )
        return (held.double() / held.sum()).to(self.dtype)

    def mean(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Weighted mean over clients of [K, D]  [D]."""
        weights = self.weights if weights is None else weights.to(self.dtype)
        return weights @ x

    # -- local training ----------------------------------------------------------------------------

    def train(
        self,
        start: Tensor,
        *,
        objective: Objective = cross_entropy,
        trainable: Tensor | None = None,
        pull: tuple[Tensor, float] | None = None,
        models: Mapping[str, Tensor] | None = None,
        extras: Mapping[str, Tensor] | None = None,
        keep: tuple[str, ...] = (),
        epochs: int | None = None,
        **options: Any,
    ) -> Trained:
        """SGD epochs of the active clients from their rows of `start` [K, D].

        `trainable` ([D] or [K, D] bool) freezes the other entries; `pull` (anchor [K, D], strength)
        adds a proximal term; `models` and `extras` are further rows that the objective reads;
        `keep` asks for "last_grad" or "epochs". For the rest see `loop`.
        """
        beside = dict(models or {})
        if pull is not None:
            beside["anchor"] = pull[0]

        def step(local: Chunk, batch: Batch) -> None:
            grads = local.grad(batch, objective)
            if pull is not None:
                grads = local.pull(grads, "anchor", pull[1])
            local.sgd(grads)

        same = (
            None if getattr(objective, "__closure__", None) else (objective, pull and pull[1], keep)
        )
        done = self.loop(
            step,
            {"w": start},
            beside=beside,
            extras=extras,
            trainable=trainable,
            keep=keep,
            epochs=epochs,
            same=same,
            **options,
        )
        self.trained = done.theta
        return done

    def loop(
        self,
        step: Step,
        models: Mapping[str, Tensor],
        *,
        beside: Mapping[str, Tensor] | None = None,
        extras: Mapping[str, Tensor] | None = None,
        trainable: Tensor | None = None,
        keep: tuple[str, ...] = (),
        epochs: int | None = None,
        first_epoch: int = 0,
        steps: int | None = None,
        stream: str = "batches",
        in_place: bool = False,
        same: Hashable | None = None,
        **sgd: float,
    ) -> Trained:
        """Any local loop: `step(local, batch)` is called for every mini-batch of every active
        client, or for the first `steps` of them. Models `beside` are only read.

        `first_epoch` continues the batch order of an earlier phase of the same round, `stream`
        names another order altogether; keyword arguments of `Sgd` override the protocol's.
        `in_place` overwrites the rows of `models` instead of copying them all. Steps of loops with
        equal `same` do the same, so that a GPU may keep what it recorded of them.
        """
        p = self.protocol
        schedule = Schedule(
            stream,
            self.round,
            p.epochs if epochs is None else epochs,
            first_epoch,
            p.batch,
            p.skip_single,
        )
        plans = self._local.planned(schedule, self.members, steps)
        options = replace(self.sgd, **sgd)
        held = Held(models, extras or {}, beside or {}, trainable, keep, in_place)
        done = self._local.run(step, plans, held, options, schedule, same)
        if self._local.ahead and self.round < self.rounds:
            self._local.plan_ahead(schedule, self._expected(), steps)
        return done

    def _expected(self) -> list[int]:
        """Who may be active in the next round where these clients are in this one."""
        if self.members != self._cohort:
            return self.members
        found: list[int] = self._drawn(self.round + 1).sort().values.tolist()
        return found

    def visit(
        self,
        step: Step,
        models: Mapping[str, Tensor],
        *,
        extras: Mapping[str, Tensor] | None = None,
        of: Tensor | None = None,
        split: str = "train",
        limit: int | None = None,
        pick: Sequence[Tensor] | None = None,
        trainable: Tensor | None = None,
        batch: int = PASS_BATCH,
    ) -> Trained:
        """One pass over data as they lie, unaugmented: `step(local, batch)` gathers statistics in
        `local.extras`.

        Row r of every model and extra sees the data of client `of[r]` (default: the active
        clients), at most `limit` samples of them, or those at the places `pick[r]`. Use
        `batch.still` as the mode of a forward pass that must not touch BN statistics.
        """
        parts = getattr(self.data, split)
        owners = self.members if of is None else of.tolist()
        own = [parts[client][:limit] for client in owners]
        plans = [
            plan_pass(held if pick is None else held[pick[r]], batch) for r, held in enumerate(own)
        ]
        return self._local.run(
            step, plans, Held(models, extras or {}, trainable=trainable), self.sgd
        )

    def once(self, what: str, of: Sequence[Tensor], work: Callable[[], Outcome]) -> Outcome:
        """The outcome of some work on tensors, which is not done again when it is asked for a
        second time in a round.
        """
        refs, versions, outcome = self._known.get(what, ([], [], None))
        now = [t._version for t in of]
        if versions == now and all(r() is t for r, t in zip(refs, of, strict=True)):
            return cast(Outcome, outcome)
        found = work()
        self._known[what] = [ref(t) for t in of], now, found
        return found

    # -- what is recorded --------------------------------------------------------------------------

    def score(self, point: str, models: Models) -> None:
        """Score the active clients' models [K, D] on their test (and validation) data, in rounds
        that are scored.
        """
        for suffix, split in (("", "test"), ("/val", "val")) if self.scoring else ():
            if any(len(getattr(self.data, split)[client]) for client in self.members):
                correct, total = self.correct(models, split)
                self.scores[point + suffix] = Score(torch.tensor(self.members), correct, total)

    def correct(self, models: Models, split: str) -> tuple[Tensor, Tensor]:
        """How many samples of their own split the active clients' models get right, and how many
        there are  [K] on the device, [K].
        """
        own = [getattr(self.data, split)[client] for client in self.members]
        with self.lowering.active(self.device):
            hits = count_correct(self.model, self.layout, models, self.data, own, self.chunk)
        return hits, torch.tensor([len(part) for part in own])

    def note(self, name: str, value: float | Tensor) -> None:
        """Keep one number of this round."""
        on_gpu = isinstance(value, Tensor) and value.is_cuda
        self.notes[name] = value if on_gpu else float(value)  # a GPU is asked once, for all

    def tally(self, name: str, hits: Tensor) -> None:
        """Count, over the rounds, where `hits` ([K, D] for the active clients, or [D]) is true, if
        the recipe asks for it.
        """
        if name in self.recipe.evaluation.tallies:
            shape = (self.N, hits.shape[1]) if hits.dim() == 2 else hits.shape
            total = self.tallies.setdefault(
                name, torch.zeros(shape, dtype=torch.int32, device=self.device)
            )
            if hits.dim() == 2:
                total[self.active] += hits
            else:
                total += hits
