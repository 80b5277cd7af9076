"""Star-PFL with and without its stability check (section 3.3).

python paper_tables/star_pfl/studies/propositions.py    # writes propositions.csv of Star-PFL

The check puts a frozen entry on trial after F rounds. Without it, what has been frozen once stays
frozen: F starts at more rounds than any run has.
"""

from __future__ import annotations

import pandas as pd

import repfl
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, register
from repfl.algorithms.star_pfl import StarPFL
from repfl.paper_tables.studies import curves, write

FOREVER = 10**6
SEEDS, ROUNDS = (0, 1, 2), 48
METHODS = {"with the check": "star-pfl", "without the check": "without-check"}
CURVES = {"accuracy": "pre_agg/mean", "share of values sent": "note/sent"}
"""In per cent."""


class WithoutCheck(StarPFL):
    """Star-PFL whose frozen entries stay frozen, at the server and at clients."""

    def init(self, fed: Federation) -> State:
        state = super().init(fed)
        for who in ("server", "client"):
            state[f"{who}.period"] = state[f"{who}.period"] + FOREVER
        return state


# as a script, this file loads itself as a plug-in
if __name__ != "__main__":
    register(
        "without-check",
        title="Star-PFL, without its check",
        paper="a variant of Star-PFL, 2023",
        year=2023,
        family="mask",
        sends="what Star-PFL sends",
    )(WithoutCheck)


def measured(seed: int) -> pd.DataFrame:
    """Return the numbers of both runs of a seed on Fashion-MNIST at the reduced scale."""
    recipe = repfl.recipe("star-pfl/fmnist-dir0.1", scale="desk", training={"rounds": ROUNDS})
    lines = []
    for how, method in METHODS.items():
        recorded = curves(__file__, method, recipe, seed)
        scored = recorded["pre_agg/mean"].dropna().index
        for quantity, name in CURVES.items():
            lines += [
                {"equation": "3.3", "quantity": f"{quantity}, {how}", "round": r, "value": 100 * v}
                for r, v in recorded.loc[scored, name].items()
            ]
    return pd.DataFrame(lines).assign(seed=seed)


if __name__ == "__main__":
    write(__file__, pd.concat([measured(seed) for seed in SEEDS], ignore_index=True))
