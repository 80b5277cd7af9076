"""pFedSD: learn from the global model without forgetting one's own last one."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, entropy_of
from repfl.algorithms.core.distil import divergence
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.core.partial import Partial


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
class PFedSD(Partial[HP]):
    """FedAvg whose clients also imitate the model they ended their previous round with, the teacher
    z_i.

    L = CE(f_w(x), y) + lam * T^2 * KL( softmax(f_z(x) / T) || softmax(f_w(x) / T) ); then z_i <-
    w_i. First rounds have no teacher.

    FedPURIN compares with lam 0.5 and T 3, the defaults here. The code of pFedSD's authors has lam
    1 and T 1 (parameters.py:249, 251), averages uniformly, and scores clients right after local
    training (master_pFedSD.py:112 to 118), which is the scoring point `pre_agg`.
    """

    HP = HP

    def averaged(self, fed: Federation) -> Tensor:
        return fed.exchanged

    def init(self, fed: Federation) -> State:
        return super().init(fed) | {"teacher": fed.new_models().clone()}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        start = self.received(state, fed)
        taught = state["seen"][fed.active].to(fed.dtype)  # [K]
        if self.hp.lam and bool(taught.any()):
            end = fed.train(
                start,
                objective=self.loss,
                models={"teacher": state["teacher"][fed.active]},
                extras={"taught": taught},
            ).theta
        else:
            end = fed.train(start).theta
        teacher = fed.put(state["teacher"], end)
        return self.average(state, fed, end) | {"teacher": teacher}

    def loss(self, local: Chunk, batch: Batch, student: Params) -> Tensor:
        """Cross-entropy and self-distillation  [K]."""
        logits = local.model.logits(student, batch.x, batch.mode)
        mode = batch.mode if self.hp.teacher_mode == "train" else type(batch.mode)(train=False)
        with torch.no_grad():
            goal = local.model.logits(local.models["teacher"], batch.x, mode)
        distilled = batch.mean(divergence(goal, logits, self.hp.temperature))
        return (
            entropy_of(logits, batch)
            + self.hp.lam * self.hp.temperature**2 * local.extras["taught"] * distilled
        )
