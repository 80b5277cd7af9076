"""FedDF (Lin et al., NeurIPS 2020, arXiv 2006.07242): the server distils the clients' ensemble into
their average, on unlabelled public samples. A recipe needs `public = { samples = 500 }`.

repfl run --grid GRID.toml --plugin bench/examples/feddf.py --method feddf
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """The distillation, by plain SGD."""

    steps: int = param(100, "steps of a round", ge=0)
    batch: int = param(64, "public samples of a step", ge=1)
    server_lr: float = param(0.05, "learning rate", gt=0)


@register(
    "feddf",
    title="FedDF",
    paper="Lin et al., Ensemble Distillation for Robust Model Fusion, 2020, arXiv 2006.07242",
    year=2020,
    family="global",
    needs=("public",),
    sends="what FedAvg sends",
    fast_hp={"steps": 3},
)
class FedDF(FedAvg[HP]):
    """w <- sum_i p_i w_i;  then w <- SGD on KL(softmax(mean_i f(x; w_i)) | softmax(f(x; w)))

    with public samples x and logits f.
    """

    HP = HP

    def round(self, state: State, fed: Federation) -> State:
        shared = self.shared_mask(fed)
        trained = fed.train(self.download(state, fed))
        uploaded = torch.where(shared, fed.up(trained, shared), state["theta"])  # [K, D]
        with torch.no_grad():
            logits = torch.stack([fed.model.of(w)(fed.public) for w in uploaded])
        average = torch.where(shared, fed.mean(uploaded), state["theta"])
        theta = self.distil(fed, average, logits.mean(0).softmax(1))
        return {"theta": theta, **self.keep(state, fed, trained)}

    def distil(self, fed: Federation, theta: Tensor, targets: Tensor) -> Tensor:
        """Return the student after all steps  [D], given the ensemble's probabilities."""
        for step in range(self.hp.steps):
            drawn = fed.rng("distil", step).integers(len(fed.public), size=self.hp.batch)
            index = torch.from_numpy(drawn).to(fed.device)

            def loss(student: ClientModel, index: Tensor = index) -> Tensor:
                said = student(fed.public[index]).log_softmax(1)
                return F.kl_div(said, targets[index], reduction="batchmean")

            theta = theta - self.hp.server_lr * fed.params.flatten(fed.model.of(theta).grad(loss))
        return theta
