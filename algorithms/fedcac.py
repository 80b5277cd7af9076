"""FedCAC: clients with similar critical parameters share them; the rest is global."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.math.critical import Cutoff, average_with, collaborators, critical, overlaps


@hyperparameters
class HP:
    """Which entries are critical, and how long critical entries are shared."""

    tau: float = param(
        0.5,
        "share of each tensor that is critical",
        ge=0,
        le=1,
        paper=0.5,
        search={"uniform": [0.2, 0.8]},
    )
    beta: int = param(
        100,
        "round after which critical entries stay private",
        ge=1,
        paper="100; CIFAR-100: 170",
        search={"log whole": [5, 200]},
    )
    cutoff: Cutoff = param(
        "code", "rule for tensors whose critical share would include entries of no effect"
    )


@register(
    "fedcac",
    title="FedCAC",
    paper=(
        "Wu et al., Bold but Cautious: Unlocking the Potential of PFL through Cautiously"
        " Aggressive Collaboration, ICCV 2023, arXiv 2309.11103"
    ),
    year=2023,
    family="mask",
    sends=(
        "up: the model and a bitmap of critical entries; down: the model until beta, non-critical"
        " entries after it"
    ),
    gate_hp={"beta": 3},
)
class FedCAC(Method[HP]):
    """An entry is critical if |(w - w_0) w| is among the top share tau of its tensor, w_0 being the
    model before local training.

    The server averages all models into g, and each client's model with those of the clients whose
    critical entries overlap enough into d_i; the threshold rises with t / beta until none passes.
    w_i <- d_i on the client's critical entries, g elsewhere. Partners are the participants of a
    round; in the code of HikariX/FedPURIN (2cefe0b) all clients take part.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        first = torch.where(fed.params.learnable, fed.new_model(), fed.first_models())
        return {"w": fed.client_rows(first)}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        hp, learnable = self.hp, fed.params.learnable
        start = state["w"][fed.active]
        trained = fed.train(start)
        scores = ((trained - start) * trained).abs()
        mask = critical(scores, hp.tau, fed.params.trained, hp.cutoff, floor=1e-20)  # [K, D]

        models, masks = fed.up(trained, learnable), fed.send_mask("up", mask, learnable)
        partners = collaborators(overlaps(masks), fed.round / hp.beta)
        combined = torch.where(masks, average_with(partners, models), fed.mean(models))
        news = learnable if fed.round <= hp.beta else learnable & ~mask
        received = fed.down(combined, news)

        fed.log("partners", partners.sum(1).float().mean())
        fed.count_mask("mask", mask)
        return {"w": fed.scatter_rows(state["w"], torch.where(news, received, trained))}

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]
