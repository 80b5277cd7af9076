"""Claims as readers see them: their state, what runs suggest, what the paper says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from repfl.bench.report.artefact_data import ClaimData
from repfl.paper_tables.core.result import Claim


def standing(c: Claim) -> str:
    """Return the state of a claim; if undecided, which way reduced runs point."""
    if c.settings:
        text = {True: "our full-scale runs take it over", False: "our full-scale runs have another"}
        return text.get(c.holds, f"the {c.scale} scale has settings of its own")  # type: ignore[arg-type]
    if c.suggests is None:
        return str(c.state)
    return f"{c.state}; {_pointing(c)}"


def _pointing(c: Claim) -> str:
    """Return which way runs point that are not decisive."""
    runs = "runs of one or two seeds" if c.few_seeds and c.scale == "paper" else "reduced runs"
    return f"{runs} (not decisive) point {'to' if c.suggests else 'against'} it"


def line(c: Claim, paper: str) -> str:
    """Return a claim in one line."""
    printed = "; in the paper's own numbers it holds" if c.printed else ""
    prefix = "Our own check: " if c.ours else ""
    return f"{prefix}{c.text}: {standing(c)}{printed}. {_detail(c)}. ({paper}/{c.id})"


def _detail(c: Claim) -> str:
    return f"{c.detail[:1].upper()}{c.detail[1:]}"


QUOTED = re.compile(r"“([^”]+)”")
MAX_FRAGMENT_WORDS = 3
"""Quotations of up to this many words are no sentence, such as “at least”."""


def claim_data(claim: Claim, paper: str, printed: Mapping[str, Mapping[str, Any]]) -> ClaimData:
    """Return a claim for a sheet, with the sentences that published files quote from the paper."""
    notes = (str(printed.get(source, {}).get("note", "")) for source in claim.sources)
    quoted = dict.fromkeys(text for note in notes for text in QUOTED.findall(note))
    return ClaimData(
        claim.id,
        claim.text,
        _detail(claim),
        line(claim, paper),
        _suggested(claim),
        claim.printed,
        tuple(claim.sources),
        tuple(text for text in quoted if len(text.split()) > MAX_FRAGMENT_WORDS),
        str(claim.state),
        claim.ours,
    )


def _suggested(claim: Claim) -> str:
    """Return which way undecided runs point."""
    if claim.settings:
        return f"{standing(claim).capitalize()}."
    return "" if claim.suggests is None else f"Our {_pointing(claim)}."
