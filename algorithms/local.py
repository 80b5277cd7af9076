"""Local training only, the baseline every personalised method has to beat."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, register


@register("local", title="Local", paper="baseline", year=2017, family="local", sends="nothing")
class Local(Method):
    """Every client trains its own model on its own data, round after round; nothing is exchanged.

    Clients train only in the rounds in which they take part, so every method sees the same number
    of local steps. Differences from published code: docs/methods/local.md.
    """

    def init(self, fed: Federation) -> State:
        return {"w": fed.client_rows(fed.first_models())}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        w = state.pop("w")
        return {"w": fed.scatter_rows(w, fed.train(w[fed.active]))}

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return initial values: unseen clients train alone."""
        return fed.new_model()
