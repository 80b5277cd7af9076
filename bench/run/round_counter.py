"""Multiply-adds of whole rounds, counted by `torch.utils.flop_counter` in a few of many rounds."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

from torch.utils.flop_counter import FlopCounterMode

if TYPE_CHECKING:
    from repfl.algorithms.core.method import State
    from repfl.algorithms.core.run import Run

MIN_ROUNDS = 30
"""Rounds from which on a run is counted: counting makes a round half as long again."""
FIRST = 3
"""Rounds at the beginning that are all counted."""


class RoundCounter:
    """Estimates the multiply-adds of all rounds from a few of them. Their numbers are fixed, so
    that a run that was interrupted counts the same.
    """

    def __init__(self, rounds: int, counted: Mapping[int, int]) -> None:
        """`counted`: multiply-adds by round, from before the run was interrupted."""
        self.rounds, self.counted = rounds, dict(counted)
        # methods begin with a round or two of another kind, or change in the middle
        self.typical = {rounds // 3, 2 * rounds // 3, rounds}

    def step(self, run: Run) -> None:
        """Run the next round; count its multiply-adds if it is one of the few."""
        number = run.round + 1
        if self.rounds < MIN_ROUNDS or (number > FIRST and number not in self.typical):
            run.step()
            return
        method_round, counter = run.method.round, FlopCounterMode(display=False)

        def counted_round(state: State, fed: object) -> State:
            with counter:
                return method_round(state, fed)  # type: ignore[arg-type]

        run.method.round = counted_round  # type: ignore[method-assign]
        try:
            run.step()
        finally:
            del run.method.round
        self.counted[number] = counter.get_total_flops() // 2

    def total(self, clients: int) -> dict[str, int]:
        """Return the sum over rounds of `clients` each; empty for a run that is short or was partly
        computed without counting.
        """
        first = set(range(1, FIRST + 1))
        if self.rounds < MIN_ROUNDS or not first | self.typical <= self.counted.keys():
            return {}
        typical = median(self.counted[number] for number in self.typical)
        total = sum(self.counted[number] for number in first) + (self.rounds - FIRST) * typical
        return {"clients": clients, "rounds": self.rounds, "multiply_adds": round(total)}
