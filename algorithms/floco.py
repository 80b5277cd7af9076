"""FLOCO: a simplex of heads, and a place in it for every client."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core import partial
from repfl.algorithms.core.batches import Batch, steps_per_epoch
from repfl.algorithms.core.chunk import Chunk, entropy_of
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.core.simplex import principal, spread
from repfl.algorithms.core.train import Trained

ENDS = "endpoints"
"""Name of the heads that span the simplex, among the tensors that train  [K, V, classes, F]."""


@hyperparameters
class HP:
    """The simplex, and how far from its place a client trains."""

    endpoints: int = param(
        10,
        "number V of heads that span the simplex",
        ge=1,
        paper="FL-bench: 10; FLOCO: 20",
        search={"one of": [5, 10, 20]},
    )
    tau: int = param(
        10,
        "round, counted from 0, in which clients get their places",
        ge=0,
        paper="FL-bench: 10; FLOCO: half-way",
        search={"log whole": [5, 20]},
    )
    rho: float = param(
        0.1,
        "radius of the region around its place in which a client trains",
        ge=0,
        paper="FL-bench: 0.1; FLOCO: 0.1, 0.01",
        search={"log": [0.01, 0.3]},
    )
    plus_epochs: int = param(
        0,
        "FLOCO+: epochs of a personal simplex, which then is what is scored",
        ge=0,
        paper="0; FLOCO+: 5",
    )
    plus_lam: float = param(
        1.0, "FLOCO+: strength of its pull towards the global simplex", ge=0, paper="FL-bench: 1"
    )


@register(
    "floco",
    title="FLOCO",
    paper=(
        "Grinwald et al., Federated Learning over Connected Modes, NeurIPS 2024, arXiv"
        " 2403.03333; code: dennis-grinwald/floco at a25b3a1"
    ),
    year=2024,
    family="mixture",
    needs=("head",),
    sends=(
        "the model with V head weights down and up; once everybody does so and gets V numbers back"
    ),
    variants=("rho=0.0", "plus_epochs=5"),
    gate={"tau": 2},
)
class FLOCO(Method[HP]):
    """The head's weight is a point sum_v a_v W_v of a simplex; body, bias and endpoints W_v are
    trained and averaged as in FedAvg.

    Every mini-batch draws its a, at first from the whole simplex: Dirichlet(1, ..., 1). In round
    tau everybody trains once more; the endpoints that come back, a row per client, are reduced to V
    principal coordinates and projected onto {x >= 0, sum x = z}, the z being that which spreads the
    clients best (least mean of 1 / distance^2). The rest of that training is thrown away. From then
    on client i has the place p_i = x_i / z and draws a = p_i + U(0, rho) u, where u is uniform in
    (-1, 1)^V over its L1 norm. Scored: the head at the centre, after round tau at p_i.

    Deviations: with fewer clients than V the missing coordinates are zero. Batches of one sample
    are treated as the protocol says (FL-bench's loop for FLOCO always trains on them). Participants
    of round tau are scored at the centre before they train (FL-bench: at their places, one point of
    a curve). FLOCO+ draws around p_i and pulls with plus_lam (w_i - w), as the paper says; in both
    codes its simplex never hears of p_i, and FL-bench lacks these parentheses.
    """

    HP = HP

    def passes(self, epochs: int) -> tuple[int, int]:
        return epochs + self.hp.plus_epochs, 0

    def init(self, fed: Federation) -> State:
        shape, count = fed.layout.head_weight.shape, self.hp.endpoints
        deviation = (2 / sum(shape)) ** 0.5  # Xavier
        drawn = np.stack(
            [fed.rng("endpoint", v).standard_normal(shape) * deviation for v in range(count)]
        )
        ends = torch.from_numpy(drawn).to(fed.device, fed.dtype)
        centre = torch.full((fed.N, count), 1 / count, dtype=fed.dtype, device=fed.device)
        state = partial.init(fed, fed.exchanged) | {
            "ends": ends,
            "places": centre,
        }  # [V, classes, F], [N, V]
        if self.hp.plus_epochs:
            state |= {
                "plus": fed.new_models().clone(),
                "plus_ends": ends.expand(fed.N, *ends.shape).clone(),
            }
        return state

    def round(self, state: State, fed: Federation) -> State:
        now = fed.round - 1
        if now == self.hp.tau:
            state = state | {"places": self.find_places(state, fed)}
        placed = now >= self.hp.tau
        trained = self.train(state, fed, self.draws(fed, state, placed=placed))
        fed.numbers("up", self.surplus(fed))
        ends = trained.extras["ends"]
        new = {"ends": fed.mean(ends.flatten(1)).view(ends.shape[1:])}
        fed.trained = self.combined(fed, trained.theta, state["places"][fed.active], ends)
        if self.hp.plus_epochs:
            new |= self.plus(state, fed, placed=placed)
        return state | new | partial.average(state, fed, trained.theta, fed.exchanged)

    def personal(self, state: State, fed: Federation) -> Tensor:
        places = state["places"][fed.active]
        if self.hp.plus_epochs:
            return self.combined(
                fed, state["plus"][fed.active], places, state["plus_ends"][fed.active]
            )
        return self.combined(fed, partial.models(state, fed, fed.exchanged), places, state["ends"])

    def offer(self, state: State, fed: Federation) -> Tensor:
        """The model with the head at the centre of the simplex: places are worked out once."""
        centre = torch.full_like(state["places"][:1], 1 / self.hp.endpoints)
        return self.combined(fed, state["theta"][None], centre, state["ends"])[0]

    def combined(self, fed: Federation, models: Tensor, places: Tensor, ends: Tensor) -> Tensor:
        """Models [K, D] with the heads at their places  [K, V], [K or 1, V, classes, F]."""
        out, at = models.clone(), fed.layout.head_weight
        out[:, at.start : at.stop] = mixed(places, ends).flatten(1)
        return out

    def surplus(self, fed: Federation) -> int:
        """Floats of the endpoints beyond the one head weight that every model has."""
        return (self.hp.endpoints - 1) * fed.layout.head_weight.size

    # -- local training ----------------------------------------------------------------------------

    def train(
        self, state: State, fed: Federation, draws: Tensor, stream: str = "batches"
    ) -> Trained:
        """Send the simplex to the active clients, which train it."""
        start = partial.received(state, fed, fed.exchanged)
        fed.numbers("down", self.surplus(fed))
        extras = {
            "ends": state["ends"].expand(fed.K, -1, -1, -1),
            "draws": draws,
            "step": torch.zeros_like(fed.active),
        }
        return fed.loop(
            self.step,
            {"w": start},
            extras=extras,
            trainable=self.trainable(fed),
            stream=stream,
            same="simplex",
        )

    def trainable(self, fed: Federation) -> Tensor:
        """All but the head weight, whose place the endpoints take  [D] bool."""
        return fed.layout.learnable & ~fed.layout.where(name=fed.layout.head_weight.name)

    def draws(
        self, fed: Federation, state: State, *, placed: bool, purpose: str = "simplex"
    ) -> Tensor:
        """Points of the simplex for every mini-batch of every active client  [K, steps, V]."""
        epochs = self.hp.plus_epochs if purpose == "plus" else fed.protocol.epochs
        steps = int(
            epochs * steps_per_epoch(fed.sizes, fed.protocol.batch, fed.protocol.skip_single).amax()
        )  # of anybody, so that recorded steps find as many in every round
        shape = (max(steps, 1), self.hp.endpoints)
        points = []
        for client, place in zip(
            fed.active.tolist(), state["places"][fed.active].cpu().numpy(), strict=True
        ):
            rng = fed.rng(purpose, client)
            if placed:
                radius = fed.rng(f"{purpose}/radius", client).uniform(0, self.hp.rho, (shape[0], 1))
                direction = rng.uniform(-1, 1, shape)
                points.append(place + radius * direction / np.abs(direction).sum(1, keepdims=True))
            else:
                drawn = rng.standard_exponential(shape)
                points.append(drawn / drawn.sum(1, keepdims=True))
        return torch.from_numpy(np.stack(points)).to(fed.device, fed.dtype)

    def step(self, local: Chunk, batch: Batch) -> None:
        """The endpoints join the tensors that train, so the chain rule, momentum and clipping treat
        them like any other.
        """
        joining = {"w": "ends"} | ({"anchor": "anchor"} if "anchor" in local.models else {})
        for model, extra in joining.items():
            local.models[model][ENDS] = local.extras[extra]
        local.masks[ENDS] = None
        grads = local.grad(batch, self.loss)
        if "anchor" in local.models:
            grads = local.pull(grads, "anchor", self.hp.plus_lam)
        local.sgd(grads)
        local.extras |= {"step": local.extras["step"] + 1}
        for model, extra in joining.items():
            local.extras[extra] = local.models[model].pop(ENDS)
        del local.masks[ENDS]

    def loss(self, local: Chunk, batch: Batch, params: Params) -> Tensor:
        """Cross-entropy with the head at this batch's point  [K]."""
        draws, step = local.extras["draws"], local.extras["step"]
        point = draws.gather(1, step[:, None, None].expand(-1, 1, draws.shape[2])).squeeze(
            1
        )  # [K, V]
        net = {**params, local.layout.head_weight.name: mixed(point, params[ENDS])}
        return entropy_of(local.model.logits(net, batch.x, batch.mode), batch)

    def plus(self, state: State, fed: Federation, *, placed: bool) -> State:
        """FLOCO+: personal simplices train on, drawn to the one that the server sent."""
        extras = {
            "ends": state["plus_ends"][fed.active],
            "anchor": state["ends"].expand(fed.K, -1, -1, -1),
            "draws": self.draws(fed, state, placed=placed, purpose="plus"),
            "step": torch.zeros_like(fed.active),
        }
        trained = fed.loop(
            self.step,
            {"w": state["plus"][fed.active]},
            beside={"anchor": partial.models(state, fed, fed.exchanged)},
            extras=extras,
            trainable=self.trainable(fed),
            epochs=self.hp.plus_epochs,
            first_epoch=fed.protocol.epochs,
            same="plus",
        )
        own = fed.put(state["plus"], trained.theta)
        ends = fed.put(state["plus_ends"], trained.extras["ends"])
        fed.trained = self.combined(
            fed, trained.theta, state["places"][fed.active], trained.extras["ends"]
        )
        return {"plus": own, "plus_ends": ends}

    # -- the clients' places -----------------------------------------------------------------------

    def find_places(self, state: State, fed: Federation) -> Tensor:
        """One more training of everybody, of which only the endpoints count  [N, V]."""
        with fed.among(fed.everybody):
            trained = self.train(
                state, fed, self.draws(fed, state, placed=False, purpose="projection"), "projection"
            )
            fed.up(trained.theta)
            fed.numbers("up", self.surplus(fed))
            fed.numbers("down", self.hp.endpoints)
        points = principal(trained.extras["ends"].flatten(1).double(), self.hp.endpoints).cpu()
        return spread(points).to(fed.device, fed.dtype)


def mixed(points: Tensor, ends: Tensor) -> Tensor:
    """Points of simplices: [K, V] weights of [K or 1, V, classes, F] heads  [K, classes, F]."""
    return (points[:, :, None, None] * ends).sum(1)
