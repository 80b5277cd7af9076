"""FedCAC: clients with similar critical parameters share them; the rest is global."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core import critical
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


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
    cutoff: critical.Cutoff = param(
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
    gate={"beta": 3},
)
class FedCAC(Method[HP]):
    """An entry is critical if |(w - w_0) w| is among the top share tau of its tensor, w_0 being the
    model before local training.

    The server averages all models into g, and each client's model with those of clients whose
    critical entries overlap enough into d_i (the bar rises with t / beta until nobody passes).
    Client i goes on with d_i on its critical entries and g elsewhere.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        own = fed.new_models()
        return {"w": torch.where(fed.layout.learnable, fed.new_model(), own)}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        hp, sent = self.hp, fed.layout.learnable
        start = state["w"][fed.active]
        theta = fed.train(start).theta
        scores = ((theta - start) * theta).abs()
        mask = critical.critical(fed.layout, scores, hp.tau, sent, hp.cutoff, floor=1e-20)
        fed.up(theta, sent)
        fed.up_mask(mask, sent)
        partners = critical.collaborators(critical.overlaps(mask), fed.round / hp.beta)
        combined = torch.where(mask, critical.mixed(theta, partners), fed.mean(theta))
        fed.down(combined, sent if fed.round <= hp.beta else sent & ~mask)
        fed.note("partners", partners.sum(1).float().mean())
        fed.tally("mask", mask)
        return {"w": fed.put(state["w"], torch.where(sent, combined, theta))}

    def personal(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]
