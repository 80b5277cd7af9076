"""Changes under which FedPURIN's claims that are no condition on a table hold, and fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from repfl.paper_tables.core.result import Claim, Result
from repfl.paper_tables.fedpurin import claims, masks, traffic
from tests.paper_tables.doctored import Case, Doctored, frame, giving, propositions, told, working


def sent(evidence: Doctored, result: Result, ours: float | None) -> Sequence[Claim]:
    """Table 3 with the paper's own bytes, or the same for all."""
    values = frame(result)
    given = values["published"] if ours is None else ours
    return traffic.claims(evidence, values.assign(ours=given))


def selected(evidence: Doctored, result: Result, head: float) -> Sequence[Claim]:
    """Figure 5 with such an agreement in the classifier, and that many silenced; the outer blocks
    are always critical and the middle ones in turns, or the other way round.
    """
    tally = masks.read(evidence)
    assert isinstance(tally, masks.Tally)
    names = list(tally.agreement)
    agreement = dict.fromkeys(names, 0.5) | {names[-1]: head}
    as_stated = head < 0.5
    counts = {}
    for name, old in tally.counts.items():
        outer = name in (names[0], names[-2])
        turns = np.where(np.arange(old.shape[1]) % 2, tally.rounds / 2, 0.0)
        row = np.full(old.shape[1], tally.rounds - 1.0) if outer == as_stated else turns
        counts[name] = np.vstack([*[row] * (len(old) - 1), row + (1 if as_stated else -1)])
    found = replace(tally, agreement=agreement, silent=0.0 if as_stated else 0.01, counts=counts)
    return masks.claims(found, "paper")


def slope(way: float) -> Callable[[Doctored], None]:
    """Bytes that rise or fall from round to round, of runs without a first phase."""

    def change(evidence: Doctored) -> None:
        evidence.set("hp.beta", 1)
        evidence.curve = lambda f: f.assign(value=1000 + way * f["round"])

    return change


SAVINGS = tuple(saving.metric.replace("_", "-") for saving in traffic.SAVINGS)
FALLS = ("downlink-falls-after-beta",)
MASKS = ("consensus-in-extractor", "none-silenced", "server-denser")
MASKS += ("middle-blocks-sparser", "outer-blocks-uniform")
CASES = (
    propositions("table2", claims),
    Case("table3", SAVINGS, sent, giving(None), giving(1.0)),
    Case("table3", FALLS, told(traffic.alignment), slope(-1.0), slope(1.0)),
    working("no-extra-computation", "table1", "FedPURIN"),
    Case("fig5", MASKS, selected, giving(0.1), giving(0.9)),
)
