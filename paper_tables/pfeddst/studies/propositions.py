"""PFedDST's selection skew (equation 5): how large the losses on chosen peers' data are.

python paper_tables/pfeddst/studies/propositions.py    # writes propositions.csv of PFedDST

The formula is missing in our copy of the paper. By its words, and by the paper that it cites (Cho,
Wang, Joshi: power-of-choice), the skew of client i's choice M is

    mean over j in M of (F_j(theta_i) - F_j*)  /  mean over all j of the same

so that it is 1 on average if peers are drawn at random. F_j* is taken as peer j's own loss on its
data, and as 0. In rounds 2, 4, 6 and 8 several rules choose from one state of PFedDST.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from torch import Tensor

import repfl
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, build, register
from repfl.algorithms.pfeddst import PFedDST
from repfl.paper_tables.studies import curves, write

OURS = "by score, with the loss"
RULES: dict[str, dict[str, Any]] = {
    OURS: {},
    "by score, without the loss (α = 0)": {"alpha": 0.0},
    "by score, α = 1": {"alpha": 1.0},
    "at random": {"selection": "random"},
}
LARGEST = "with the largest losses"
OPTIMA = {"own": "F* of the peer's model", "zero": "F* = 0"}
PREFIX, ROUNDS, SEEDS = "note/", 8, (0, 1, 2)


class SelectionSkew(PFedDST):
    """PFedDST that logs, in rounds that are scored, the skew of what several rules would choose."""

    def log_peers(self, state: State, fed: Federation, graph: Tensor, scores: Tensor) -> None:
        super().log_peers(state, fed, graph, scores)
        if not fed.scoring:
            return
        pairs = [(i, j) for i in range(fed.N) for j in range(fed.N)]
        owners, peers = ([pair[side] for pair in pairs] for side in (0, 1))
        losses = self.losses(fed, state["w"], owners, peers).view(fed.N, fed.N)
        graphs = {name: self.choice(fed, state, change) for name, change in RULES.items()}
        graphs[LARGEST] = fed.topology.best(losses, self.hp.degree)
        for name, chosen in graphs.items():
            fed.log(f"skew/own/{name}", skew(losses, losses.diagonal(), chosen))
            fed.log(f"skew/zero/{name}", skew(losses, losses.diagonal() * 0, chosen))
            if name != OURS:
                fed.log(f"same/{name}", (chosen & graph).sum() / graph.sum())

    def choice(self, fed: Federation, state: State, change: dict[str, Any]) -> Tensor:
        """Return who would be chosen with other hyper-parameters  [N, N]."""
        rule = build("pfeddst", change)
        assert isinstance(rule, PFedDST)
        return fed.topology.best(rule.scores(state, fed), self.hp.degree)


def skew(losses: Tensor, optimum: Tensor, chosen: Tensor) -> Tensor:
    """Return the skew of all clients' choices together; clients hold equally much data. `losses`
    are of model i on data j  [N, N].
    """
    excess = (losses - optimum).fill_diagonal_(0)
    mean_chosen = (excess * chosen).sum(1) / chosen.sum(1)
    return mean_chosen.mean() / (excess.sum(1) / (len(losses) - 1)).mean()


# as a script, this file loads itself as a plug-in
if __name__ != "__main__":
    register(
        "selection-skew",
        title="PFedDST, with its selection skew",
        paper="PFedDST, 2025, with notes",
        year=2025,
        family="decentralised",
        needs=("p2p", "head"),
        sends="what PFedDST sends",
    )(SelectionSkew)


def measured(seed: int) -> pd.DataFrame:
    """Return the numbers of one run on CIFAR-10 at the reduced scale."""
    recipe = repfl.recipe("pfeddst/cifar10", scale="desk", training={"rounds": ROUNDS})
    lines = []
    for name, curve in curves(__file__, "selection-skew", recipe, seed, degree=4).items():
        kind, _, rule = str(name).removeprefix(PREFIX).partition("/")
        if kind == "skew":
            optimum, _, rule = rule.partition("/")
            quantity = f"selection skew, peers {rule}, {OPTIMA[optimum]}"
        elif kind == "same":
            quantity = f"share of the choice by score that is chosen {rule}"
        else:
            continue
        lines += [
            {"equation": "5", "quantity": quantity, "round": r, "value": v, "seed": seed}
            for r, v in curve.dropna().items()
        ]
    return pd.DataFrame(lines)


if __name__ == "__main__":
    write(__file__, pd.concat([measured(seed) for seed in SEEDS], ignore_index=True))
