"""pFedSD: learn from the global model without forgetting one's own last one."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """Self-distillation."""

    lam: float = param(
        0.5,
        "weight of the distillation term",
        ge=0,
        paper="FedPURIN's comparison: 0.5; its authors' code: 1",
        search={"log": [0.05, 5]},
    )
    temperature: float = param(
        3.0,
        "softmax temperature of teacher and student",
        gt=0,
        paper="FedPURIN's comparison: 3; its authors' code: 1",
        search={"uniform": [1, 5]},
    )
    teacher_mode: Literal["train", "eval"] = param(
        "train", "BN mode of the teacher; `train` is what FedPURIN's code runs"
    )


@register(
    "pfedsd",
    title="pFedSD",
    paper=(
        "Jin et al., Personalized Edge Intelligence via Federated Self-Knowledge Distillation, TPDS"
        " 2022; code: CGCL-codes/pFedSD at 8eba096"
    ),
    year=2022,
    family="regularised",
    sends="the whole model down and up; the teacher never leaves its client",
    cost=1.4,
)
class PFedSD(FedAvg[HP]):
    """FedAvg whose clients also imitate the model they ended their previous round with, the teacher
    z_i.

    L = CE(f_w(x), y) + lam * T^2 * KL( softmax(f_z(x) / T) || softmax(f_w(x) / T) );  z_i <- w_i.

    A client has no teacher when it takes part for the first time. Differences from published code:
    docs/methods/pfedsd.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        return super().init(fed) | {"teacher": fed.client_rows(fed.first_models())}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        teacher = state.pop("teacher")
        params = fed.train(
            self.download(state, fed),
            loss=self.loss,
            models={"teacher": teacher[fed.active]},
            extras={"has_teacher": state["seen"][fed.active].to(fed.dtype)},
        )
        new = self.upload_and_average(state, fed, params)
        return new | {"teacher": fed.scatter_rows(teacher, params)}

    def loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return cross-entropy plus self-distillation."""
        hp, teacher = self.hp, extras["teacher"]
        logits = model(batch.x)
        with torch.no_grad():
            goal = (teacher if hp.teacher_mode == "train" else teacher.eval())(batch.x)
        divergence = F.kl_div(
            (logits / hp.temperature).log_softmax(1),
            (goal / hp.temperature).log_softmax(1),
            reduction="batchmean",
            log_target=True,
        )
        weight = hp.lam * hp.temperature**2 * extras["has_teacher"]
        return F.cross_entropy(logits, batch.y) + weight * divergence
