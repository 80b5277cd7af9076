"""My method: every client keeps its own last linear layer, and the rest is averaged.

Replace the three functions. All that a method may use is on `fed`: `fed.new_model()`, `fed.down`,
`fed.train`, `fed.up`, `fed.mean`, `fed.gossip`, `fed.params`, `fed.active`, `fed.N`. Tensors of
models have one row per client: N clients, K of them in this round, D numbers in a model.
"""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


@hyperparameters
class HP:
    """What can be chosen; each is checked when a cell is planned."""

    share: float = param(1.0, "how far a client moves towards the average", ge=0, le=1)


@register(
    "my-method",
    title="My method",
    paper="unpublished",
    year=2026,
    family="partial",
    sends="the model without its last layer, down and up",
)
class MyMethod(Method[HP]):
    """w_i <- E epochs of SGD from w_i;  body_i <- body_i + share * (mean of bodies - body_i)."""

    HP = HP

    def init(self, fed: Federation) -> State:
        """Start all clients from the same model  [N, D]."""
        return {"w": fed.new_model().repeat(fed.N, 1)}

    def round(self, state: State, fed: Federation) -> State:
        """Train, send the body, move towards the average."""
        body = fed.communicated & fed.params.body  # [D]
        params = fed.train(state["w"][fed.active])  # [K, D]
        average = fed.mean(fed.up(params, mask=body), weights=fed.n_train)  # [D]
        received = fed.down(average, mask=body)  # [K, D]
        params = params + self.hp.share * body * (received - params)
        return {"w": fed.scatter_rows(state["w"], params)}

    def client_params(self, state: State, fed: Federation) -> Tensor:
        """Return the models that clients are scored with  [K, D]."""
        return state["w"][fed.active]
