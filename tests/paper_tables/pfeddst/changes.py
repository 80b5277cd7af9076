"""Changes under which PFedDST's claims that are no condition on a table hold, and fail."""

from __future__ import annotations

from collections.abc import Sequence

from repfl.paper_tables.core.result import Claim, Result
from repfl.paper_tables.pfeddst import curves, peers, speed
from tests.paper_tables.doctored import (
    Case,
    Doctored,
    as_it_is,
    giving,
    propositions,
    rendered_anew,
    told_beside,
)


def other_protocol(evidence: Doctored) -> None:
    """Every setting that the text states is another one."""
    recipe = ("recipe.clients", "recipe.training.batch", "partition.classes")
    for field in ("hp.degree", "hp.head_epochs", *recipe):
        if field in evidence.cells:
            evidence.move(field, 1)


def worthless(evidence: Doctored) -> None:
    """Models are worth what they lack, and the text states another number of peers."""
    other_protocol(evidence)
    evidence.curve = lambda f: f.assign(value=1 - f["value"])


def scored(evidence: Doctored, result: Result, rate: float) -> Sequence[Claim]:
    return (peers.recency(evidence, lambda _, gap: rate * gap),)


def shaken(evidence: Doctored, result: Result, own: float) -> Sequence[Claim]:
    """Curves that go up and down, PFedDST's by a given number of points."""
    evidence.shake(curves.OURS, own)
    return (curves.stability(evidence, {"fig3": "cifar10", "fig4": "cifar100"}[result.name]),)


STATED = ("size", "peers-per-round", "training", "epochs")
DRAWN = ("peers-in-figure", "header-better-than-random", "own-model-best")
CASES = (
    Case("table2", STATED, told_beside(speed.claims), as_it_is, other_protocol),
    Case("fig2", DRAWN, rendered_anew, as_it_is, worthless),
    propositions("fig2", peers),
    Case("fig2", ("recency-range",), scored, giving(0.002), giving(0.02)),
    Case("fig3", ("classes-on-cifar10",), rendered_anew, as_it_is, other_protocol),
    Case("fig4", ("classes-on-cifar100",), rendered_anew, as_it_is, other_protocol),
    Case("fig3", ("stable-on-cifar10",), shaken, giving(1.0), giving(3.0)),
    Case("fig4", ("stable-on-cifar100",), shaken, giving(1.0), giving(3.0)),
)
