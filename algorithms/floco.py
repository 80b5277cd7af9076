"""FLOCO: a simplex of heads, and a place in it for every client."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import Direction
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.engine.training import Trained
from repfl.algorithms.fedavg import FedAvg
from repfl.algorithms.math.simplex import principal, spread


@hyperparameters
class HP:
    """The simplex, and how far from its place a client trains."""

    endpoints: int = param(
        10,
        "number V of heads that span the simplex",
        ge=1,
        paper="FL-bench: 10; FLOCO: 10, 20",
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
        paper="FL-bench: 0.1; FLOCO: 0.01, 0.1, 0.5",
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
        "the model with V head weights down and up; once all clients do so and get V numbers back"
    ),
    variants=("rho=0.0", "plus_epochs=5"),
    gate_hp={"tau": 2},
)
class FLOCO(FedAvg[HP]):
    """The head's weight is a point sum_v a_v W_v of a simplex; body, bias and endpoints W_v are
    trained and averaged as in FedAvg.

    Every mini-batch draws its a, at first from the whole simplex: Dirichlet(1, ..., 1). In round
    tau all clients train once more; the endpoints that come back, a row per client, are reduced to
    V principal coordinates and projected onto {x >= 0, sum x = z}, with the z that spreads the
    clients best (least mean of 1 / distance^2). The rest of that training is thrown away. From then
    on client i has the place p_i = x_i / z and draws a = p_i + U(0, rho) u, where u is uniform in
    (-1, 1)^V over its L1 norm. Scored: the head at the centre, after round tau at p_i.

    Differences from published code: docs/methods/floco.md.
    """

    HP = HP

    @classmethod
    def chosen_by(cls, hp: Any) -> type[Method[Any]]:
        return FLOCOPlus if hp.plus_epochs else cls

    def init(self, fed: Federation) -> State:
        shape, count = fed.params.head_weight.shape, self.hp.endpoints
        deviation = (2 / sum(shape)) ** 0.5  # Xavier
        drawn = np.stack(
            [fed.rng("endpoint", v).standard_normal(shape) * deviation for v in range(count)]
        )
        ends = torch.from_numpy(drawn).to(fed.device, fed.dtype)  # [V, classes, F]
        centre = torch.full((fed.N, count), 1 / count, dtype=fed.dtype, device=fed.device)
        return super().init(fed) | {"ends": ends, "places": centre}

    def round(self, state: State, fed: Federation) -> State:
        if fed.round == self.hp.tau + 1:
            state |= {"places": self.find_places(state, fed)}
        places = state["places"][fed.active]
        model, ends = self.receive(state, fed)
        trained = train(fed, model, ends, self.draws(fed, places))
        fed.trained = with_head(fed, trained.params, places, trained.extras["ends"])
        arrived = self.send_ends(fed, "up", trained.extras["ends"])  # [K, V, classes, F]
        state |= self.train_personal(state, fed, model, ends)
        new = {"ends": fed.mean(arrived)}
        return state | new | self.upload_and_average(state, fed, trained.params)

    def train_personal(self, state: State, fed: Federation, model: Tensor, ends: Tensor) -> State:
        """Train what FLOCO+ keeps at clients, given what the server sent: here nothing."""
        return {}

    def client_params(self, state: State, fed: Federation) -> Tensor:
        places = state["places"][fed.active]
        return with_head(fed, super().client_params(state, fed), places, state["ends"])

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return the model with the head at the centre of the simplex: places are found once."""
        centre = torch.full_like(state["places"][:1], 1 / self.hp.endpoints)
        return with_head(fed, state["theta"][None], centre, state["ends"])[0]

    def receive(self, state: State, fed: Federation) -> tuple[Tensor, Tensor]:
        """Send model and endpoints to the active clients  [K, D], [K, V, classes, F]."""
        ends = self.send_ends(fed, "down", state["ends"])
        return self.download(state, fed), ends.expand(fed.K, -1, -1, -1)

    def send_ends(self, fed: Federation, direction: Direction, ends: Tensor) -> Tensor:
        """Send endpoints, of which one fills the place of the head weight in the model's vector."""
        return fed.send(
            direction, ends, floats=(self.hp.endpoints - 1) * fed.params.head_weight.size
        )

    def draws(
        self, fed: Federation, places: Tensor, purpose: str = "simplex", epochs: int | None = None
    ) -> Tensor:
        """Draw a point of the simplex for every mini-batch of every active client: of all of it, or
        near the client's place after round tau  [K, steps, V].
        """
        steps = fed.local_steps if epochs is None else epochs * fed.steps_per_epoch
        shape = (max(int(fed.to_host(steps).max()), 1), self.hp.endpoints)
        if fed.round > self.hp.tau and purpose != "projection":
            return (places[:, None] + offsets(fed, purpose, shape, self.hp.rho)).to(fed.dtype)
        return points(fed, purpose, shape).to(fed.dtype)

    def find_places(self, state: State, fed: Federation) -> Tensor:
        """Train all clients once more and return the places that their endpoints give  [N, V]."""
        with fed.as_active(range(fed.N)):
            model, ends = self.receive(state, fed)
            draws = self.draws(fed, state["places"], "projection")
            trained = train(fed, model, ends, draws, stream="projection")
            fed.up(trained.params)
            ends = self.send_ends(fed, "up", trained.extras["ends"])
            coordinates = principal(fed.to_host(ends).flatten(1).double(), self.hp.endpoints)
            places = spread(coordinates).to(fed.device, fed.dtype)
            return fed.send("down", places, each=True)


class FLOCOPlus(FLOCO):
    """FLOCO+: clients go on with simplices of their own, pulled towards the one that the server
    sent, and are scored with these.
    """

    def init(self, fed: Federation) -> State:
        state = super().init(fed)
        models, ends = fed.first_models(), state["ends"][None]
        return state | {"plus": fed.client_rows(models), "plus_ends": fed.client_rows(ends)}

    def train_personal(self, state: State, fed: Federation, model: Tensor, ends: Tensor) -> State:
        places, epochs = state["places"][fed.active], self.hp.plus_epochs
        trained = train(
            fed,
            state["plus"][fed.active],
            state["plus_ends"][fed.active],
            self.draws(fed, places, "plus", epochs),
            pull=(model, ends, self.hp.plus_lam),
            epochs=epochs,
            first_epoch=ceil(fed.protocol.epochs or 0),
        )
        fed.trained = with_head(fed, trained.params, places, trained.extras["ends"])
        return {
            "plus": fed.scatter_rows(state["plus"], trained.params),
            "plus_ends": fed.scatter_rows(state["plus_ends"], trained.extras["ends"]),
        }

    def client_params(self, state: State, fed: Federation) -> Tensor:
        rows = (state[name][fed.active] for name in ("plus", "places", "plus_ends"))
        return with_head(fed, *rows)


# -- one simplex: training, and points of it -------------------------------------------------------


def train(
    fed: Federation,
    params: Tensor,
    ends: Tensor,
    draws: Tensor,
    pull: tuple[Tensor, Tensor, float] | None = None,
    **options: Any,
) -> Trained:
    """Train models and endpoints, the head weight of each batch being the one at its draw.

    `pull` (model, endpoints, strength) adds the gradient of strength / 2 |difference|^2.
    """
    weight = fed.params.head_weight.name
    extras, reference = {"ends": ends, "draws": draws}, {}
    if pull is not None:
        reference["anchor"], extras["anchor_ends"], strength = pull

    def loss(model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        model = model.replace({weight: at(extras["draws"][0], extras["ends"])})
        return F.cross_entropy(model(batch.x), batch.y)

    def step(client: Client, batch: Batch) -> None:
        grads = client.grad(batch, loss, extras=("ends",))
        if pull is not None:
            here = client.tensors() | {"ends": client.extras["ends"]}
            goal = client.tensors("anchor") | {"ends": client.extras["anchor_ends"]}
            grads = {n: g.add(here[n] - goal[n], alpha=strength) for n, g in grads.items()}
        client.update(grads)
        client.extras["draws"] = client.extras["draws"].roll(-1, 0)

    options["trainable"] = fed.params.learnable & ~fed.params.where(name=weight)
    how = {"extras": extras, "models": reference, **options}
    return fed.train(params, step=step, keep=("extras",), scored=False, **how)


def points(fed: Federation, purpose: str, shape: tuple[int, int]) -> Tensor:
    """Draw points of the whole simplex for every active client  [K, steps, V] float64."""
    drawn = [fed.rng(purpose, client).standard_exponential(shape) for client in fed.active_ids]
    rows = [row / row.sum(1, keepdims=True) for row in drawn]  # Dirichlet(1, ..., 1)
    return torch.from_numpy(np.stack(rows)).to(fed.device)


def offsets(fed: Federation, purpose: str, shape: tuple[int, int], rho: float) -> Tensor:
    """Draw steps away from the places of the active clients  [K, steps, V] float64."""
    rows = []
    for client in fed.active_ids:
        u = fed.rng(purpose, client).uniform(-1, 1, shape)
        radius = fed.rng(f"{purpose}/radius", client).uniform(0, rho, (shape[0], 1))
        rows.append(radius * u / np.abs(u).sum(1, keepdims=True))
    return torch.from_numpy(np.stack(rows)).to(fed.device)


def with_head(fed: Federation, models: Tensor, places: Tensor, ends: Tensor) -> Tensor:
    """Return models [K, D] with the heads at their places  [K, V], [(K,) V, classes, F]."""
    params = models.clone()
    params[:, fed.params.head_weight.place] = at(places, ends).flatten(1)
    return params


def at(points: Tensor, ends: Tensor) -> Tensor:
    """Return points of simplices of heads  [..., V], [..., V, classes, F] -> [..., classes, F]."""
    return (points[..., None, None] * ends).sum(-3)
