"""Claims as readers see them: what became of one, what runs suggest, what the paper says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from repfl.bench.report.artefact_data import Said
from repfl.paper_tables.core.result import Claim


def standing(c: Claim) -> str:
    """Return what became of a claim; if undecided, which way reduced runs point."""
    if c.settings:
        kept = {True: "our full-scale runs take it over", False: "our full-scale runs have another"}
        return kept.get(c.holds, f"the {c.scale} scale has settings of its own")  # type: ignore[arg-type]
    if c.suggests is None:
        return str(c.state)
    return f"{c.state}; {_pointing(c)}"


def _pointing(c: Claim) -> str:
    """Return which way runs point that decide nothing."""
    runs = "runs of one or two seeds" if c.few_seeds and c.scale == "paper" else "reduced runs"
    return f"{runs} (not decisive) point {'to' if c.suggests else 'against'} it"


def line(c: Claim, paper: str) -> str:
    """Return a claim in one line."""
    printed = "; in the paper's own numbers it holds" if c.printed else ""
    whose = "Our own check: " if c.ours else ""
    detail = f"{c.detail[:1].upper()}{c.detail[1:]}"
    return f"{whose}{c.text}: {standing(c)}{printed}. {detail}. ({paper}/{c.id})"


QUOTED = re.compile(r"“([^”]+)”")
FRAGMENT = 3
"""Words: fewer quoted are no sentence, such as “at least”."""


def said(claim: Claim, paper: str, printed: Mapping[str, Mapping[str, Any]]) -> Said:
    """Return a claim for a sheet, with what published files quote of the paper."""
    notes = (str(printed.get(source, {}).get("note", "")) for source in claim.sources)
    quoted = dict.fromkeys(text for note in notes for text in QUOTED.findall(note))
    return Said(
        claim.id,
        claim.text,
        claim.detail,
        line(claim, paper),
        _suggested(claim),
        claim.printed,
        tuple(claim.sources),
        tuple(text for text in quoted if len(text.split()) > FRAGMENT),
        str(claim.state),
        claim.ours,
    )


def _suggested(claim: Claim) -> str:
    """Which way runs point that decide nothing, and what the paper's own numbers say."""
    told = []
    if claim.settings:
        told.append(f"{standing(claim).capitalize()}.")
    elif claim.suggests is not None:
        told.append(f"Our {_pointing(claim)}.")
    if claim.printed and not claim.holds:
        told.append("In the paper's own numbers it holds.")
    return " ".join(told)
