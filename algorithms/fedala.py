"""FedALA: learn, entry by entry, how much of the global model to take over before training on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, Extras, cross_entropy_eval
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.engine.params import Slice, columns, write_columns

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
        "`shared` reproduces FL-bench, hence FedOBP's tables: one worker serves all clients, so a"
        " client takes the model of the client before it for its own last one",
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

    @classmethod
    def chosen_by(cls, hp: Any) -> type[Method[Any]]:
        return FLBenchsFedALA if hp.worker == "shared" else cls

    def init(self, fed: Federation) -> State:
        size = sum(s.size for s in self.upper(fed))
        weights = torch.full((fed.N, size), self.hp.initial, dtype=fed.dtype, device=fed.device)
        searched = torch.zeros(fed.N, dtype=torch.bool, device=fed.device)
        own = {"w": fed.new_models().clone(), "weights": weights, "searched": searched}
        return {"theta": fed.new_model()} | own

    def round(self, state: State, fed: Federation) -> State:
        trained = self.train(state, fed, fed.down(state["theta"]))
        theta = torch.where(fed.communicated, fed.mean(fed.up(trained)), state["theta"])
        return state | {"theta": theta}

    def train(self, state: State, fed: Federation, received: Tensor) -> Tensor:
        """Train the active clients from their mixtures, which they keep  [K, D] -> [K, D]."""
        start, weights, differs = self.aggregate(state, fed, received)
        trained, worker = fed.train(start), self.worker(fed)
        state["w"][worker], state["weights"][worker] = trained, weights
        state["searched"][worker] |= differs
        return trained

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return self.aggregate(state, fed, state["theta"].expand(fed.K, -1))[0]

    def worker(self, fed: Federation) -> Tensor:
        """Return the rows of the state that the active clients use  [K]."""
        return fed.active

    def upper(self, fed: Federation) -> list[Slice]:
        """Return the tensors that have weights; they have T entries together."""
        trained = fed.params.trained
        count = len(trained) if self.hp.tensors is None else min(self.hp.tensors, len(trained))
        return trained[len(trained) - count :]

    def aggregate(
        self, state: State, fed: Federation, theta: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the active clients start from [K, D], the weights A behind it [K, T], and
        which clients differ from the global model [K].
        """
        worker, places = self.worker(fed), [s.place for s in self.upper(fed)]
        own = state["w"][worker]
        start = torch.where(fed.communicated, theta, own)
        differs = (start - own)[:, fed.params.slices[0].place].sum(1) != 0
        base, gap = columns(own, places), columns(start - own, places)  # w_i, w - w_i  [K, T]
        weights, first = state["weights"][worker], ~state["searched"][worker]
        searching = fed.to_host(differs).nonzero().flatten().tolist() if places else []
        weights = self.search(fed, searching, start, base, gap, weights, fed.to_host(first))
        merged = torch.where(differs[:, None], base + weights * gap, columns(start, places))
        return write_columns(start, places, merged), weights, differs

    def search(
        self,
        fed: Federation,
        searching: list[int],
        start: Tensor,
        base: Tensor,
        gap: Tensor,
        weights: Tensor,
        first: Tensor,
    ) -> Tensor:
        """Return the weights after one pass over the samples of the clients in the given rows; in a
        first search, after as many as it takes  [K, T].
        """
        upper = self.upper(fed)
        params = write_columns(start.clone(), [s.place for s in upper], base + weights * gap)
        losses = torch.zeros(self.hp.passes, fed.K, dtype=fed.dtype)
        samples = {
            k: draw_subset(fed, fed.active_ids[k], self.hp.share, self.hp.subset) for k in searching
        }
        for turn in range(self.hp.passes):
            if not searching:
                break
            rows = {
                "weights": weights,
                "base": base,
                "gap": gap,
                "loss": torch.zeros_like(gap[:, 0]),
            }
            done = fed.for_each_batch(
                partial(search_step, upper, self.hp.eta),
                {"params": params[searching]},
                extras={name: value[searching] for name, value in rows.items()},
                of=[fed.active_ids[k] for k in searching],
                pick=[samples[k] for k in searching],
                trainable=fed.params.mask(upper),
                batch=fed.protocol.batch,
            )
            params[searching], weights[searching] = done.params, done.extras["weights"]
            losses[turn, searching] = fed.to_host(done.extras["loss"])
            last = losses[max(turn + 1 - WINDOW, 0) : turn + 1]
            ended = (last.std(0, correction=0) < self.hp.threshold) & (turn >= WINDOW)
            searching = [k for k in searching if first[k] and not ended[k]]
        return weights


class FLBenchsFedALA(FedALA):
    """FL-bench's: one worker, the only row of the state, serves all clients in the order in which
    they were drawn, so each takes the one before for its own last model.
    """

    def init(self, fed: Federation) -> State:
        state = super().init(fed)
        return {n: t if n == "theta" else t[:1].clone() for n, t in state.items()}

    def train(self, state: State, fed: Federation, received: Tensor) -> Tensor:
        trained = torch.empty_like(received)
        for client in fed.sampled:
            row = [fed.active_ids.index(client)]
            with fed.as_active([client]):
                trained[row] = super().train(state, fed, received[row])
            state["searched"].fill_(value=True)
        return trained

    def worker(self, fed: Federation) -> Tensor:
        return torch.zeros_like(fed.active)


def draw_subset(fed: Federation, client: int, share: float, subset: str) -> Tensor:
    """Draw the positions of the samples that a client learns its weights on."""
    samples, rng = fed.samples[client], fed.rng("subset", client)
    count = max(int(share * samples), min(samples, 1))
    first = int(rng.integers(0, samples - count + 1))
    if subset == "block":
        return torch.arange(first, first + count)
    return torch.from_numpy(rng.permutation(samples)[:count])


def search_step(upper: Sequence[Slice], eta: float, client: Client, batch: Batch) -> None:
    """Learn the weights of one client from one batch, and form its model again."""
    grads, loss = client.grad(batch, loss_and_value, has_aux=True)
    extras, tensors = client.extras, client.tensors()
    slope = torch.cat([grads[s.name].flatten() for s in upper])  # grad f(t_i)  [T]
    weights = (extras["weights"] - eta * slope * extras["gap"]).clamp(0, 1)
    merged = extras["base"] + weights * extras["gap"]
    for s, part in zip(upper, merged.split([s.size for s in upper]), strict=True):
        tensors[s.name].copy_(part.view(s.shape))
    extras.update(weights=weights, loss=loss)


def loss_and_value(model: ClientModel, batch: Batch, extras: Extras) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy with BN statistics at rest, and its value."""
    loss = cross_entropy_eval(model, batch, extras)
    return loss, loss.detach()
