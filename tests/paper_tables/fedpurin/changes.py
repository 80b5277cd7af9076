"""Changes under which FedPURIN's claims that are no condition on a table hold, and fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repfl.paper_tables.core.result import Claim, Result
from repfl.paper_tables.fedpurin import masks, traffic
from tests.paper_tables.doctored import Case, Doctored, frame, giving


def sent(evidence: Doctored, result: Result, ours: float | None) -> Sequence[Claim]:
    """Table 3 with the paper's own bytes, or the same for all."""
    values = frame(result)
    told_ = values["published"] if ours is None else ours
    return traffic.claims(evidence, values.assign(ours=told_))


def selected(evidence: Doctored, result: Result, head: float) -> Sequence[Claim]:
    """Figure 5 with such an agreement in the classifier, and that many silenced."""
    tally = masks.read(evidence)
    assert isinstance(tally, masks.Tally)
    names = list(tally.agreement)
    agreement = dict.fromkeys(names, 0.5) | {names[-1]: head}
    silent = 0.0 if head < 0.5 else 0.01
    return masks.claims(replace(tally, agreement=agreement, silent=silent), "paper")


CASES = (
    Case(
        "table3",
        tuple(saving.metric.replace("_", "-") for saving in traffic.SAVINGS),
        sent,
        giving(None),
        giving(1.0),
    ),
    Case("fig5", ("consensus-in-extractor", "none-silenced"), selected, giving(0.1), giving(0.9)),
)
