"""FedALA: learn, entry by entry, how much of the global model to take over before training on."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, entropy_of
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register

WINDOW = 10
"""Losses that are looked at to decide whether the first search has settled."""


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
    t_i is formed anew. One pass each round; a client's first search goes on until its loss has
    settled. A client whose first tensor differs from that of w by a sum of zero (at the start they
    are equal) takes w and searches nothing. Scored is t_i, formed and searched with the current w,
    on copies. The search reads BN statistics and leaves them alone. (The author's code also lets
    absent clients search and keep t_i as their model; here they keep the model that they trained:
    TsingZ0/PFLlib at d832e76, flcore/servers/serverala.py:70 to 74.)

    With `worker = shared` everybody is scored against the worker as training left it. FL-bench's
    worker moves on while it scores (KarhouTam/FL-bench at 06e658b): its test sets the parameters
    like its training (src/client/fedavg.py:301), and the first client leaves it with the global
    model's lower layers, so that every later one finds no difference in the first tensor and takes
    the global model whole (src/client/fedala.py:56 to 58). Its accuracy is the global model's, but
    for one client per worker.
    """

    HP = HP

    def upper(self, fed: Federation) -> Tensor:
        """The entries that have weights  [D] bool."""
        named = [s for s in fed.layout if s.kind != "stat"]
        chosen = set(
            named
            if self.hp.tensors is None
            else named[len(named) - min(self.hp.tensors, len(named)) :]
        )
        return fed.layout.select(lambda s: s in chosen)

    def init(self, fed: Federation) -> State:
        keepers = 1 if self.hp.worker == "shared" else fed.N
        weights = torch.full(
            (keepers, int(self.upper(fed).sum())),
            self.hp.initial,
            dtype=fed.dtype,
            device=fed.device,
        )
        searched = torch.zeros(keepers, dtype=torch.bool, device=fed.device)
        return {
            "theta": fed.new_model(),
            "w": fed.new_models()[:keepers].clone(),
            "weights": weights,
            "searched": searched,
        }

    def round(self, state: State, fed: Federation) -> State:
        fed.down(state["theta"])
        kept, ends = {name: state[name] for name in ("w", "weights", "searched")}, []
        turns = fed.called.split(1) if self.hp.worker == "shared" else (fed.active,)
        for block in turns:
            with fed.among(block):
                rows = self.rows(fed)
                start, weights, apart = self.aggregated(state["theta"], kept, fed)
                kept["w"][rows], kept["weights"][rows] = fed.train(start).theta, weights
                kept["searched"][rows] |= apart | (self.hp.worker == "shared")
                ends.append(kept["w"][rows])
        fed.trained = torch.cat(ends)[torch.cat(turns).argsort()]
        theta = torch.where(fed.exchanged, fed.mean(fed.up(fed.trained)), state["theta"])
        return {"theta": theta, **kept}

    def rows(self, fed: Federation) -> Tensor:
        """Where the active clients' models and weights are kept  [K]."""
        return torch.zeros_like(fed.active) if self.hp.worker == "shared" else fed.active

    def aggregated(
        self, theta: Tensor, kept: State, fed: Federation
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the active clients start from [K, D], the weights behind it [K, T], and who is apart
        from the global model at all [K].
        """
        own, weights = kept["w"][self.rows(fed)], kept["weights"][self.rows(fed)]
        upper, first = self.upper(fed), next(iter(fed.layout))
        start = torch.where(fed.exchanged, theta, own)
        apart = (start - own)[:, first.start : first.stop].sum(1) != 0
        base, step = own[:, upper], (start - own)[:, upper]
        weights = self.search(
            fed, start, base, step, weights, apart, ~kept["searched"][self.rows(fed)]
        )
        start[:, upper] = torch.where(apart[:, None], base + weights * step, start[:, upper])
        return start, weights, apart

    def search(
        self,
        fed: Federation,
        start: Tensor,
        base: Tensor,
        step: Tensor,
        weights: Tensor,
        apart: Tensor,
        thorough: Tensor,
    ) -> Tensor:
        """Weights after one pass, or for `thorough` searchers after enough passes  [K, T]."""
        picks, upper, models = self.picks(fed), self.upper(fed), start.clone()
        losses = torch.zeros(self.hp.passes, fed.K, dtype=fed.dtype, device=fed.device)
        going = apart.nonzero().squeeze(1) if bool(upper.any()) else fed.active[:0]
        for turn in range(self.hp.passes):
            if not len(going):
                break
            models[:, upper] = base + weights * step
            extras = {
                "weights": weights[going],
                "base": base[going],
                "step": step[going],
                "loss": losses[turn, going],
            }
            who: dict[str, Any] = {
                "of": fed.active[going],
                "pick": [picks[row] for row in going.tolist()],
            }
            size = fed.protocol.batch
            done = fed.visit(
                self.learn, {"w": models[going]}, extras=extras, trainable=upper, batch=size, **who
            )
            weights[going], losses[turn, going] = done.extras["weights"], done.extras["loss"]
            settled = (
                losses[max(turn + 1 - WINDOW, 0) : turn + 1].std(0, correction=0)
                < self.hp.threshold
            )
            going = going[(thorough & ~(settled & (turn >= WINDOW)))[going]]
        return weights

    def picks(self, fed: Federation) -> list[Tensor]:
        """The places of the samples that every active client learns its weights on."""
        found = []
        for client, held in zip(fed.active.tolist(), fed.n_train.tolist(), strict=True):
            rng, count = fed.rng("subset", client), max(int(self.hp.share * held), min(held, 1))
            first = rng.integers(0, held - count + 1)
            places = (
                range(first, first + count)
                if self.hp.subset == "block"
                else rng.permutation(held)[:count].tolist()
            )
            found.append(torch.tensor(list(places), dtype=torch.int64))
        return found

    def learn(self, local: Chunk, batch: Batch) -> None:
        """One batch of the search."""
        grads = local.grad(batch, remembered_entropy)
        extras = local.extras
        slope = torch.cat([g.reshape(len(g), -1) for g in grads.values()], dim=1)  # [K, T]
        extras["weights"] = (extras["weights"] - self.hp.eta * slope * extras["step"]).clamp(0, 1)
        merged = extras["base"] + extras["weights"] * extras["step"]
        sizes = [g[0].numel() for g in grads.values()]
        for (name, g), part in zip(grads.items(), merged.split(sizes, dim=1), strict=True):
            local.models["w"][name].copy_(part.reshape(g.shape))

    def personal(self, state: State, fed: Federation) -> Tensor:
        return self.aggregated(state["theta"], state, fed)[0]


def remembered_entropy(local: Chunk, batch: Batch, params: Params) -> Tensor:
    """Cross-entropy with BN statistics at rest, kept in the extra `loss`  [K]."""
    losses = entropy_of(local.model.logits(params, batch.x, batch.still), batch)
    local.extras["loss"] = losses.detach()
    return losses
