"""Sentences of a paper, compared with its own printed numbers and with ours.

A `Sentence` is data: its words, and a condition on cells of a table, which `judged` weighs on both
sides (`conditions`, `claim_evidence`). `counted` is the form of sentences on numbers that stand in
no table, `tried` of statements on equations.
`Claim.holds` keeps what smaller scales and few seeds suggest from being a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd

from repfl.paper_tables.core.claims.claim_evidence import Side, join, level_of
from repfl.paper_tables.core.claims.conditions import Condition, Form
from repfl.paper_tables.core.result import Claim


def tell(side: Side, condition: Condition, about: Form | Sequence[Form] | None) -> str:
    """The numbers that a condition rests on, as one side has them."""
    level = level_of(condition)
    leaves = [leaf for leaf in condition.leaves() if side.of(leaf.difference) is not None]
    count = sum(1 for _ in condition.leaves())
    if not leaves:
        return ""
    if isinstance(about, Form):
        known = side.of(about)
        return "" if known is None else known.told("")
    if about:  # leads over several rows: the one over the best of them
        over = {form: lead for form in about if (lead := side.of(form))}
        form = min(over, key=lambda each: over[each].value)
        rival = next(place[0] for place, factor in form.factors.items() if factor < 0)
        return f"{over[form].told()} against {rival}"
    gaps = [known for leaf in leaves if (known := side.of(leaf.difference))]
    if count == 1:
        return gaps[0].told()
    met = sum(side.answer(leaf, 0.0) is True for leaf in leaves)
    told = f"as stated in {met} of {len(leaves)} comparisons"
    if side.name == "ours":
        clear = [side.answer(leaf, level) for leaf in leaves]
        told += f", significantly in {clear.count(True)}"
        told += f", significantly not in {clear.count(False)}" if False in clear else ""
        told += f" ({count - len(leaves)} not run)" if len(leaves) < count else ""
    ends = (min(known.value for known in gaps), max(known.value for known in gaps))
    return f"{told}; differences {' to '.join(dict.fromkeys(f'{end:+.2f}' for end in ends))}"


@dataclass(frozen=True)
class Sentence:
    """A sentence that is a condition on a long table."""

    name: str
    text: str
    condition: Condition
    sources: tuple[str, ...] = ()
    about: Form | Sequence[Form] | None = None
    """The number that a stated one is compared with, or the leads of which the least is it."""
    print_: bool = True
    """Whether the paper prints the numbers that it takes."""
    in_print: Condition | None = None
    """The condition on the printed numbers, if it is another."""
    remark: str = ""
    logs: bool = False
    """Whether the other side are the authors' logs: they print no number, and decide nothing."""
    full_scale_only: bool = False
    own: bool = False
    """Whether the sentence is the suite's."""


NOT_RUN = ("ours: not run yet", "ours: not run at full scale")


def judged(frame: pd.DataFrame, scale: str, sentences: Iterable[Sentence]) -> tuple[Claim, ...]:
    """Return what becomes of sentences on a table."""
    return tuple(judge(frame, scale, each) for each in sentences)


def judge(frame: pd.DataFrame, scale: str, said: Sentence) -> Claim:
    """Return what becomes of one sentence."""
    ours, printed = Side(frame, "ours"), Side(frame, "published")
    condition, there = said.condition, said.in_print or said.condition
    found = ours.answer(condition, level_of(condition))
    mine = tell(ours, condition, said.about)
    theirs = tell(printed, there, said.about) if said.print_ else ""
    told = f"ours: {mine} ({ours.seeds(condition)})" if mine else NOT_RUN[scale == "paper"]
    known = filter(None, (ours.of(leaf.difference) for leaf in condition.leaves()))
    return Claim(
        said.name,
        said.text,
        found,
        "; ".join(
            filter(
                None,
                [
                    told,
                    f"{'logged' if said.logs else 'reported'}: {theirs}" if theirs else "",
                    said.remark,
                ],
            )
        ),
        scale,
        printed.answer(there, 0.0) if said.print_ and not said.logs else None,
        tuple(said.sources),
        full_scale_only=said.full_scale_only,
        few_seeds=any(each.paired == "client" for each in known),
        ours=said.own,
    )


Numbers = Mapping[str, float]


def counted(
    name: str,
    text: str,
    scale: str,
    ours: Numbers,
    met: Callable[[float], bool | None],
    *,
    theirs: Numbers | None = None,
    least: float = 1.0,
    told: str = "{:.2f}",
    ours_are: str = "ours (1 seed)",
    theirs_are: str = "the authors' logs",
    remark: str = "",
    **flags: Any,
) -> Claim:
    """Return a sentence on numbers that stand in no table: it holds if at least a share of them
    meets a condition. NaN is a number that is missing; logs of the authors are told beside it.
    """

    def answer(numbers: Numbers) -> bool | None:
        answers = [met(value) if value == value else None for value in numbers.values()]
        return join(answers, ceil(least * len(answers))) if answers else None

    def spoken(numbers: Numbers) -> str:
        each = ((k, told.format(v) if v == v else "not known") for k, v in numbers.items())
        return ", ".join(f"{name} {value}".strip() for name, value in each) or "not run"

    said = [
        f"{ours_are}: {spoken(ours)}",
        f"{theirs_are}: {spoken(theirs)}" if theirs else "",
        remark,
    ]
    if least < 1:
        said.append(f"at least {ceil(least * len(ours))} of {len(ours)} are needed")
    return Claim(name, text, answer(ours), "; ".join(filter(None, said)), scale, **flags)


def close(value: float) -> bool | None:
    """Return whether a cosine, a rank correlation or a ratio is near one: it is from 0.9 on, it is
    not below 0.5, and between them nothing is said.
    """
    return True if value >= 0.9 else False if value < 0.5 else None


@dataclass(frozen=True)
class Proposition:
    """A statement on an equation: it is tried on the numbers of `propositions.csv` whose quantity
    begins so.
    """

    name: str
    text: str
    quantity: str
    met: Callable[[float], bool | None] = close
    on: str = "a toy with digits"


def tried(
    folder: Path, scale: str, said: Iterable[Proposition], numbers: pd.DataFrame | None = None
) -> tuple[Claim, ...]:
    """Return what becomes of a paper's statements on equations. They are checks of the suite's, on
    data of its own, so the scale of runs does not enter them. Seeds count by their mean.
    """
    found = pd.read_csv(folder / "propositions.csv") if numbers is None else numbers
    made = []
    for each in said:
        kept = found[found["quantity"].str.startswith(each.quantity)]
        means = kept.groupby(["quantity", "round"], as_index=False)["value"].mean()
        parts = {
            f"{quantity.removeprefix(each.quantity).lstrip(', ')} round {round_}".strip(): value
            for quantity, round_, value in means.itertuples(index=False)
        }
        seeds = kept["seed"].nunique()
        text = f"On {each.on}: {each.text}"
        ours = f"{each.quantity} ({f'means of {seeds} seeds' if seeds > 1 else '1 seed'})"
        claim = counted(each.name, text, scale, parts, each.met, ours_are=ours, free=True)
        made.append(replace(claim, ours=True))
    return tuple(made)


def wide(frame: pd.DataFrame, side: str) -> pd.DataFrame:
    """One side of a long table, `published` or `ours`, rows against columns."""
    return frame.pivot(index="row", columns="column", values=side).astype(float)
