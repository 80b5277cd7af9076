"""FedALA: learn, entry by entry, how much of the global model to take over before training on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, Extras, cross_entropy_eval
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.engine.params import Slice, columns
from repfl.algorithms.engine.training import Step

WINDOW = 10
"""Number of last losses whose standard deviation ends the first search."""


@hyperparameters
class HP:
    """The search for the weights A."""

    eta: float = param(
        1.0,
        "learning rate of the weights; 0 leaves them as they start",
        ge=0,
        paper=1.0,
        search={"log": [0.1, 10]},
    )
    share: float = param(
        0.8,
        "share of a client's training samples that the weights are learned on",
        gt=0,
        le=1,
        paper=0.8,
        search={"uniform": [0.5, 1]},
    )
    tensors: int | None = param(
        2,
        "how many parameter tensors have weights, counted from the output; none: all",
        ge=0,
        paper="2: the head",
        search={"one of": [2, 4, None]},
    )
    threshold: float = param(
        0.1, "the first search ends when the last 10 losses deviate less than this", ge=0, paper=0.1
    )
    passes: int = param(
        100, "limit on the passes of a client's first search (the codes have none)", ge=1
    )
    initial: float = param(1.0, "what the weights start at", ge=0, le=1, paper=1.0)
    subset: Literal["block", "random"] = param(
        "block", "which samples: neighbours in the client's list (author's code), or any (FL-bench)"
    )
    worker: Literal["own", "shared"] = param(
        "own",
        "`shared` reproduces FL-bench, hence FedOBP's tables: model and weights live in one worker"
        " that serves all clients as they were drawn, so what a client takes for its own last model"
        " is that of whoever came before it (before training everybody is scored against the last"
        " round's, not each against the one before; momentum starts afresh, where FL-bench's FedALA"
        " keeps it)",
        paper="FedOBP's tables: shared",
    )


@register(
    "fedala",
    title="FedALA",
    paper=(
        "Zhang et al., FedALA: Adaptive Local Aggregation for Personalized Federated Learning,"
        " AAAI 2023, https://ojs.aaai.org/index.php/AAAI/article/view/26330; code: TsingZ0/PFLlib"
        " at d832e76"
    ),
    year=2023,
    family="mixture",
    needs=("head",),
    sends="the whole model down and up; the weights stay",
    version=2,
    variants=("worker=shared, subset=random", "subset=random", "tensors=none"),
    cost=1.3,
)
class FedALA(Method[HP]):
    """FedAvg whose client i starts training from t_i = w_i + A_i o (w - w_i), w_i being its own
    last model and w the global one.

    Only the last p tensors have weights; the others are taken over. For every batch of a random
    part of the client's data, in order: A_i <- clip(A_i - eta grad f(t_i) o (w - w_i), 0, 1), and
    t_i is formed again. One pass each round; a client's first search goes on until its loss no
    longer moves. A client whose first tensor differs from that of w by a sum of zero (at the start
    they are equal) takes w and searches nothing. Scored is t_i, formed and searched with the
    current w, on copies. The search reads BN statistics and leaves them alone.

    Differences from published code: docs/methods/fedala.md.
    """

    HP = HP

    def upper(self, fed: Federation) -> list[Slice]:
        """Return the tensors that have weights."""
        trained = fed.params.trained
        count = len(trained) if self.hp.tensors is None else min(self.hp.tensors, len(trained))
        return trained[len(trained) - count :]

    def init(self, fed: Federation) -> State:
        keepers = 1 if self.hp.worker == "shared" else fed.N
        shape = (keepers, sum(s.size for s in self.upper(fed)))
        return {
            "theta": fed.new_model(),
            "w": fed.new_models()[:keepers].clone(),
            "weights": torch.full(shape, self.hp.initial, dtype=fed.dtype, device=fed.device),
            "searched": torch.zeros(keepers, dtype=torch.bool, device=fed.device),
        }

    def round(self, state: State, fed: Federation) -> State:
        received = fed.down(state["theta"])  # [K, D]
        trained, shared = torch.empty_like(received), self.hp.worker == "shared"
        row = {client: k for k, client in enumerate(fed.active_ids)}
        for clients in [[client] for client in fed.sampled] if shared else [fed.active_ids]:
            rows = [row[client] for client in clients]
            with fed.as_active(clients):
                start, weights, apart = self.aggregate(state, fed, received[rows])
                trained[rows] = end = fed.train(start)
                keepers = self.keepers(fed)
                state["w"][keepers], state["weights"][keepers] = end, weights
                state["searched"][keepers] |= apart | shared
        fed.trained = trained
        theta = torch.where(fed.communicated, fed.mean(fed.up(trained)), state["theta"])
        return state | {"theta": theta}

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return self.aggregate(state, fed, state["theta"].expand(fed.K, -1))[0]

    def keepers(self, fed: Federation) -> Tensor:
        """Return the rows of the state that belong to the active clients  [K]."""
        return torch.zeros_like(fed.active) if self.hp.worker == "shared" else fed.active

    def aggregate(
        self, state: State, fed: Federation, theta: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the active clients start from [K, D], the weights behind it [K, T], and who
        differs from the global model at all [K].
        """
        keepers, places = self.keepers(fed), [s.place for s in self.upper(fed)]
        own, weights = state["w"][keepers], state["weights"][keepers]
        start = torch.where(fed.communicated, theta, own)
        away = start - own
        apart = away[:, fed.params.slices[0].place].sum(1) != 0
        base, gap = columns(own, places), columns(away, places)
        thorough = ~state["searched"][keepers]
        weights = self.search(fed, start, base, gap, weights, apart, thorough)
        merged = torch.where(apart[:, None], base + weights * gap, columns(start, places))
        return write_columns(start, places, merged), weights, apart

    # -- the search for the weights ----------------------------------------------------------------

    def search(
        self,
        fed: Federation,
        start: Tensor,
        base: Tensor,
        gap: Tensor,
        weights: Tensor,
        apart: Tensor,
        thorough: Tensor,
    ) -> Tensor:
        """Return the weights after one pass, or of `thorough` searchers after enough passes
        [K, T].
        """
        upper, losses = self.upper(fed), torch.zeros(self.hp.passes, fed.K, dtype=fed.dtype)
        searching = torch.nonzero(fed.to_host(apart)).flatten().tolist() if upper else []
        picks = {k: self.pick(fed, fed.active_ids[k]) for k in searching}
        again = fed.to_host(thorough)
        params, places = start.clone(), [s.place for s in upper]
        for turn in range(self.hp.passes):
            if not searching:
                break
            write_columns(params, places, base + weights * gap)
            rows = {
                "weights": weights,
                "base": base,
                "gap": gap,
                "loss": torch.zeros_like(base[:, 0]),
            }
            done = fed.for_each_batch(
                self.search_step(upper),
                {"params": params[searching]},
                extras={name: value[searching] for name, value in rows.items()},
                of=[fed.active_ids[k] for k in searching],
                pick=[picks[k] for k in searching],
                trainable=fed.params.mask(upper),
                batch=fed.protocol.batch,
            ).extras
            weights[searching] = done["weights"]
            losses[turn, searching] = fed.to_host(done["loss"])
            last = losses[max(turn + 1 - WINDOW, 0) : turn + 1]
            ended = (last.std(0, correction=0) < self.hp.threshold) & (turn >= WINDOW)
            searching = [k for k in searching if again[k] and not ended[k]]
        return weights

    def pick(self, fed: Federation, client: int) -> Tensor:
        """Draw the positions of the samples that a client learns its weights on."""
        samples, rng = fed.samples[client], fed.rng("subset", client)
        count = max(int(self.hp.share * samples), min(samples, 1))
        first = int(rng.integers(0, samples - count + 1))
        if self.hp.subset == "block":
            return torch.arange(first, first + count)
        return torch.from_numpy(rng.permutation(samples)[:count])

    def search_step(self, upper: Sequence[Slice]) -> Step:
        """Return the step of one batch of the search."""

        def step(client: Client, batch: Batch) -> None:
            grads, loss = client.grad(batch, loss_and_value, has_aux=True)
            extras, tensors = client.extras, client.tensors()
            slope = torch.cat([grads[s.name].flatten() for s in upper])  # [T]
            weights = (extras["weights"] - self.hp.eta * slope * extras["gap"]).clamp(0, 1)
            merged = extras["base"] + weights * extras["gap"]
            for s, part in zip(upper, merged.split([s.size for s in upper]), strict=True):
                tensors[s.name].copy_(part.view(s.shape))
            extras.update(weights=weights, loss=loss)

        return step


def loss_and_value(model: ClientModel, batch: Batch, extras: Extras) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy with BN statistics at rest, and its value."""
    loss = cross_entropy_eval(model, batch, extras)
    return loss, loss.detach()


def write_columns(rows: Tensor, places: Sequence[slice], values: Tensor) -> Tensor:
    """Write values [K, T] into some columns of rows [K, D], in place."""
    sizes = [place.stop - place.start for place in places]
    for place, part in zip(places, values.split(sizes, 1), strict=True):
        rows[:, place] = part
    return rows
