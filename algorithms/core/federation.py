"""The federation: everything a method may use. One client is a row of length D, the cohort is
[K, D], all clients are [N, D].
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core import local_training, messages
from repfl.algorithms.core.local_training import PASS_BATCH, Pull, Rows, Start
from repfl.algorithms.core.messages import Direction, Encoding, Vectors
from repfl.algorithms.core.scoring import Scores, count_hits
from repfl.algorithms.core.sending import Network
from repfl.algorithms.core.settings import TrainingProtocol
from repfl.algorithms.core.topology import Topology, mix
from repfl.algorithms.engine.batches import steps_per_epoch
from repfl.algorithms.engine.client import Loss, cross_entropy
from repfl.algorithms.engine.client_data import ClientData, to_device, to_host
from repfl.algorithms.engine.evaluate import Models
from repfl.algorithms.engine.model import Model
from repfl.algorithms.engine.optimiser import learning_rates
from repfl.algorithms.engine.rng import Streams
from repfl.algorithms.engine.training import Step, Trained, Trainer


class Federation:
    """N clients with their data, one model architecture, and a protocol.

    A first method needs six names:

    * `fed.new_model()`: initial values  [D]
    * `fed.down(x)`: send from the server to the active clients; what each receives  [K, D]
    * `fed.train(params)`: train the active clients; their models  [K, D]
    * `fed.up(x)`: send from the active clients to the server; what arrives  [K, D]
    * `fed.mean(x)`: the mean over clients, weighted as the recipe says  [D]
    * `fed.active`: the ids of this round's clients, which index rows of a state  [K]

    Sizes: `N` clients, `K` of them active, `D` numbers in a model. Further attributes:

    * `round`: 1, 2, ... while a method's `round` runs, and 0 in its `init`
    * `params`: the names, kinds and places of the D entries, and masks over them (`Params`)
    * `protocol`: the recipe's training settings; of them `epochs` of a round, `rounds` of the run
    * `public`: the recipe's unlabelled samples that server and clients have  [P, C, H, W]
    * `classes`: how many there are; `samples`: the training samples of every client
    * `communicated`: mask of what is sent unless a method names a mask: parameters, and batch-norm
      statistics if the recipe says `buffers = global`  [D] bool
    * `model`: the network; `fed.model.of(theta)(x)` are the logits of a vector, at the server too
    * `topology`: the graphs of a round without a server
    * `device`, `dtype`: where tensors of a state lie, and their type
    * `active_ids`: `active` as a list; `sampled`: in the order in which they were drawn
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
        self.device, self.dtype = torch.device(device), dtype
        self.stack, self.precision = stack, precision
        self.model, self.data = model.at(self.device, dtype), data.to(self.device, dtype)
        self.params, self.recipe, self.protocol = self.model.params, recipe, recipe.training
        self.rounds = self.protocol.rounds
        self._rates = learning_rates(self.protocol) if self.protocol.scheduler else []
        self.N, self.D, self.classes = data.clients, self.params.size, data.classes
        self.communicated = self.params.learnable | (self.protocol.buffers == "global")
        self.round = 0
        self.all_clients = torch.arange(self.N, device=self.device)
        self.samples = [len(part) for part in data.train]
        self.set_active(range(self.N))
        self.streams = Streams(seed)
        self.network = Network(self.N, self.device)
        self.scores = Scores(self.model, self.data, recipe.evaluation.metrics, stack, precision)
        self.trainer = Trainer(self.model, self.data, self.streams, stack)
        self.run_training = self.trainer.run  # computes `train`; a check may wrap it
        self.topology = Topology(self.N, self.rng, self.device)
        self.trained_rows = Rows()
        self.logged: dict[str, float | Tensor] = {}
        self.masks_counted: dict[str, Tensor] = {}

    def __repr__(self) -> str:
        who = f"{self.N} clients, {self.K} active, round {self.round} of {self.rounds}"
        return f"<Federation: {who}, {self.D:,} numbers in a model, {self.dtype} on {self.device}>"

    # -- who and when ------------------------------------------------------------------------------

    @property
    def K(self) -> int:
        """Number of active clients."""
        return len(self.active_ids)

    def set_active(self, clients: Iterable[int]) -> None:
        """Set the active clients by their ids."""
        self.active_ids = list(clients)
        self.active = to_device(torch.tensor(self.active_ids, dtype=torch.int64), self.device)

    @contextmanager
    def as_active(self, clients: Iterable[int]) -> Iterator[None]:
        """Context manager: make other clients the active ones."""
        before = self.active_ids
        self.set_active(clients)
        try:
            yield
        finally:
            self.set_active(before)

    @property
    def lr(self) -> float:
        """The protocol's learning rate in this round."""
        done = max(self.round - 1, 0)
        decayed = self.protocol.lr * self.protocol.lr_decay**done
        return self._rates[done] if self._rates else decayed

    @property
    def n_train(self) -> Tensor:
        """Training samples of the active clients  [K]."""
        return self._counts([self.samples[client] for client in self.active_ids])

    @property
    def steps_per_epoch(self) -> Tensor:
        """Mini-batches in an epoch of the active clients  [K]."""
        return steps_per_epoch(self.n_train, self.protocol.batch, self.protocol.skip_single)

    @property
    def epochs(self) -> int:
        """Epochs of a round, of methods that divide them: they have "epochs" in their `needs`."""
        return local_training.whole_epochs(self.protocol)

    @property
    def local_steps(self) -> Tensor:
        """Mini-batches of a round's local training of the active clients  [K]."""
        whole = local_training.schedule(self)
        return self._counts([whole.length(self.samples[client]) for client in self.active_ids])

    def _counts(self, of_clients: list[int]) -> Tensor:
        return to_device(torch.tensor(of_clients, dtype=torch.int64), self.device)

    @property
    def public(self) -> Tensor:
        """Unlabelled samples that the server and all clients have  [P, C, H, W]."""
        return self.data.public_inputs

    @property
    def class_counts(self) -> Tensor:
        """Training samples of the active clients by class  [K, classes]."""
        return self.data.class_counts[self.active]

    def begin(self, round_: int, *, all_clients: bool = False, due: Collection[str] = ()) -> None:
        """Open a round: draw its cohort or take all clients; `due` are its scores (`scoring`)."""
        drawn = list(range(self.N)) if all_clients else local_training.draw_cohort(self, round_)
        self.sampled, self.round = drawn, round_
        self.set_active(sorted(drawn))
        self.trained_rows, self.logged = Rows(), {}
        self.scores.open_round(due)
        self.network.ledger.open_round()

    def rng(self, purpose: str, *address: int) -> np.random.Generator:
        """Return a method's own generator, keyed by the round and an address (client, epoch)."""
        return self.streams.at(f"method/{purpose}", self.round, *address)

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
        """Return rows of all clients, from [D], [1, ...] or [N, ...]  -> [N, ...]."""
        initial = initial[None] if initial.shape == (self.params.size,) else initial
        return initial.expand(self.N, *initial.shape[1:]).clone()

    def scatter_rows(self, everyone: Tensor, rows: Tensor) -> Tensor:
        """Write the active clients' rows [K, ...] into a state's tensor [N, ...], in place."""
        if len(everyone) > 1 and everyone.numel() and everyone.stride(0) == 0:
            raise ValueError("all rows are one; fed.client_rows(...) makes rows to be written")
        return everyone.index_copy_(0, self.active, rows)

    @property
    def weights(self) -> Tensor:
        """The protocol's weights of the active clients, which sum to one  [K]."""
        return local_training.weights(self)

    def mean(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the weighted mean over clients; weights need not sum to one  [K, ...] -> [...]."""
        return local_training.mean(self, x, weights)

    to_host = staticmethod(to_host)

    # -- messages: a method computes with what these return, and their bytes are counted -----------

    def down(self, x: Tensor, mask: Tensor | None = None, **how: Unpack[Encoding]) -> Tensor:
        """Send from the server to every active client; return what each receives, zeros where
        nothing is sent  [D] or [K, D] -> [K, D].

        `mask` ([D] or [K, D], default: `communicated`) says which entries travel, `code` how their
        positions are encoded if the receiver cannot derive them ("none", "bitmap", "index" or
        "shorter"), `domain` [D] which entries could travel, `scalars` how many further numbers go
        along.
        """
        return self._send("down", self._vectors(x.expand(self.K, *x.shape[-1:]), mask, **how))

    def up(self, x: Tensor, mask: Tensor | None = None, **how: Unpack[Encoding]) -> Tensor:
        """Send from every active client to the server; parameters as for `down`  [K, D]."""
        return self._send("up", self._vectors(x, mask, **how))

    def gossip(
        self,
        x: Tensor,
        mixing: Tensor,
        mask: Tensor | None = None,
        *,
        renormalise: bool = False,
        **how: Unpack[Encoding],
    ) -> Tensor:
        """Send from clients to clients: entry [i, j] of `mixing` [N, N] is the weight of client j's
        message at client i; every message of another client is billed  [N, D].

        Entries outside a common mask [D] stay each client's own; for masks per sender [N, D] see
        `topology.mix`. Further parameters as for `down`; `bits` is the width of a quantised value.
        """
        sent = self.network.send_peers(self._vectors(x, mask, graph=mixing != 0, **how))
        assert isinstance(sent, Vectors)
        return mix(sent.values, mixing.to(x.dtype), sent.mask, renormalise=renormalise)

    def _send(self, direction: Direction, message: messages.Message) -> Tensor:
        return self.network.send(direction, message, self.active_ids, self.active)

    def _vectors(self, x: Tensor, mask: Tensor | None, **how: Any) -> Vectors:
        how["domain"] = self.communicated if how.get("domain") is None else how["domain"]
        how["whole"] = mask is None and self.protocol.buffers != "local"
        return Vectors(x, self.communicated if mask is None else mask, common=mask is None, **how)

    def send(
        self,
        direction: Direction,
        x: Tensor,
        *,
        each: bool = False,
        floats: int | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Send a tensor of any shape that is no model vector between the server and every active
        client, and return it as it arrives. Up, and down with `each`, it has a row for each client
        [K, ...]; down without `each` it is one message for all.

        Numbers are billed as float32, booleans as bits; `floats` says how many numbers a message
        needs if the tensor repeats some, as a symmetric matrix does. `rows` says which rows of a
        message [R, ...] travel ([R] or [K, R] bool): the others arrive as zeros, and a bitmap of R
        bits goes along.
        """
        shape = x.shape[1:] if direction == "up" or each else x.shape
        return self._send(direction, messages.Numbers(x, shape, floats, rows))

    def send_mask(
        self, direction: Direction, mask: Tensor, domain: Tensor, *, code: messages.Code = "bitmap"
    ) -> Tensor:
        """Send a mask over `domain` [D] and return it  [D] or [K, D] bool.

        For a receiver that computes with the mask; the values themselves follow without a code.
        """
        return self._send(direction, messages.Mask(mask, domain, code))

    def send_peers(self, x: Tensor, graph: Tensor, *, floats: int) -> Tensor:
        """Send `floats` numbers from client j to every other client i with `graph[i, j]`, and
        return them  [N, ...], [N, N] bool.
        """
        return self.network.send_peers(
            messages.Numbers(x, x.shape[1:], floats, graph=graph)
        ).received()

    # -- local training ----------------------------------------------------------------------------

    @overload
    def train(self, params: Start, *, keep: None = None, **options: Any) -> Tensor: ...
    @overload
    def train(self, params: Start, *, keep: tuple[str, ...], **options: Any) -> Trained: ...
    def train(
        self,
        params: Start,
        *,
        loss: Loss = cross_entropy,
        step: Step | None = None,
        pull: Pull | None = None,
        models: Mapping[str, Tensor] | None = None,
        extras: Mapping[str, Tensor] | None = None,
        learn: tuple[str, ...] = (),
        trainable: Tensor | None = None,
        keep: tuple[str, ...] | None = None,
        epochs: int | Sequence[int] | None = None,
        scored: bool = True,
        **options: Any,
    ) -> Any:
        """Train the active clients from their rows of `params` and return the result  [K, D].

        `loss(model, batch, extras)` is written for one client; `models` [K, D] are further models
        that it finds in `extras`, and `extras` further tensors, a row for each client; `learn`
        names those of them that are trained, too. `pull` (anchor [K, D], strength) adds the
        gradient of strength / 2 |w - anchor|^2; the strength is a number, or a tensor [D] or
        [K, D]. `trainable` ([D] or [K, D]) freezes all other entries. `epochs` is a number, or one
        for each active client.

        `step(client, batch)` replaces all of this by one's own step on a mini-batch; `params` may
        then be several models by name, `params` among them, all of which it may change.

        `keep` names what else is needed: "last_grad" (of the last mini-batch), "epochs" (the model
        after each), "models", "extras" or "collected"; a `Trained` with these is then returned.

        `first_epoch` continues the batch order of an earlier phase of the round, `stream` names
        another order, `steps` limits the number of batches. Further options override the protocol's
        optimiser: lr, momentum, weight_decay, clip, name (a class of `torch.optim`) and options.

        The last result is scored as `pre_agg`, unless `scored` is False or the method scores it.
        """
        work = step or local_training.descend(loss, pull, learn, extras or {})
        models = dict(models or {}) | local_training.pull_models(pull)
        how: dict[str, Any] = {"trainable": trainable, "keep": keep or (), "epochs": epochs}
        done = local_training.train(self, work, params, models, extras or {}, **how, **options)
        if scored:
            self.trained_rows.add(self.active_ids, done.params)
        return done.params if keep is None else done

    @property
    def trained(self) -> Tensor | None:
        """What the active clients were trained to, if all were; scored as `pre_agg`  [K, D]."""
        return self.trained_rows.complete(self.active_ids)

    @trained.setter
    def trained(self, models: Tensor | None) -> None:
        self.trained_rows.set(self.active_ids, models)

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
        plans = local_training.passes(self, split, of, pick, batch)
        return local_training.visit(self, step, plans, params, extras or {}, trainable)

    # -- what is recorded --------------------------------------------------------------------------

    @property
    def scoring(self) -> bool:
        """Whether this round is scored."""
        return self.scores.is_due("pre_agg")

    def score(self, point: str, models: Models) -> None:
        """Score the active clients' models [K, D] on test and validation data, if that is due."""
        self.scores.score(point, models, self.active_ids)

    def count_correct(self, models: Models, split: str) -> tuple[Tensor, Tensor]:
        """Count samples that the active clients' models get right, and all  [K], [K]."""
        return self.scores.count_correct(models, split, self.active_ids)

    def log(self, name: str, value: float | Tensor) -> None:
        """Record one number of this round."""
        later = isinstance(value, Tensor) and not value.is_cpu
        self.logged[name] = value if later else float(value)

    def count_mask(self, name: str, hits: Tensor) -> None:
        """Count over the rounds where `hits` ([K, D] or [D]) is true, if the recipe asks for it."""
        if name in self.recipe.evaluation.tallies:
            count_hits(self.masks_counted, name, hits, self.active, self.N)
