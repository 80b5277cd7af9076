"""Changes under which PFedDST's claims that are no condition on a table hold, and fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repfl.paper_tables.core.result import Claim, Result
from repfl.paper_tables.pfeddst import peers, speed
from repfl.paper_tables.pfeddst.artefacts import ARTEFACTS
from tests.paper_tables.doctored import Case, Doctored, as_it_is, frame, giving


def other_protocol(evidence: Doctored) -> None:
    """Every setting that the text states is another one."""
    for field in (
        *("hp.degree", "hp.head_epochs", "recipe.clients", "recipe.training.batch"),
        "partition.classes",
    ):
        if field in evidence.cells:
            evidence.move(field, 1)


def worthless(evidence: Doctored) -> None:
    """Models are worth what they lack, and the text states another number of peers."""
    other_protocol(evidence)
    evidence.curve = lambda f: f.assign(value=1 - f["value"])


def rendered_anew(evidence: Doctored, result: Result, extra: Any) -> Sequence[Claim]:
    return ARTEFACTS[result.name](evidence).claims


def scored(evidence: Doctored, result: Result, rate: float) -> Sequence[Claim]:
    return (peers.recency(evidence, lambda _, gap: rate * gap),)


CASES = (
    Case(
        "table2",
        ("size", "peers-per-round", "training", "epochs"),
        lambda evidence, result, extra: speed.claims(evidence, frame(result)),
        as_it_is,
        other_protocol,
    ),
    Case(
        "fig2",
        ("peers-in-figure", "header-better-than-random", "own-model-best"),
        rendered_anew,
        as_it_is,
        worthless,
    ),
    Case("fig2", ("recency-range",), scored, giving(0.002), giving(0.02)),
    Case("fig3", ("classes-on-cifar10",), rendered_anew, as_it_is, other_protocol),
    Case("fig4", ("classes-on-cifar100",), rendered_anew, as_it_is, other_protocol),
)
