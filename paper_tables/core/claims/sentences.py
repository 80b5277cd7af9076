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

from repfl.paper_tables.core.claims.claim_evidence import Side, at_least_true, level_per_difference
from repfl.paper_tables.core.claims.conditions import Condition, Form
from repfl.paper_tables.core.result import Claim


def describe_side(side: Side, condition: Condition, about: Form | Sequence[Form] | None) -> str:
    """Return the numbers that a condition rests on, on one side of the table, in words."""
    level = level_per_difference(condition)
    leaves = [leaf for leaf in condition.leaves() if side.estimate(leaf.difference) is not None]
    count = sum(1 for _ in condition.leaves())
    if not leaves:
        return ""
    if isinstance(about, Form):
        estimate = side.estimate(about)
        return "" if estimate is None else estimate.format("")
    if about:  # leads over several rows: the one over the best of them
        leads = {form: lead for form in about if (lead := side.estimate(form))}
        form = min(leads, key=lambda form: leads[form].value)
        rival = next(key[0] for key, factor in form.factors.items() if factor < 0)
        return f"{leads[form].format()} against {rival}"
    gaps = [estimate for leaf in leaves if (estimate := side.estimate(leaf.difference))]
    if count == 1:
        return gaps[0].format()
    stated = sum(side.answer(leaf, 0.0) is True for leaf in leaves)
    text = f"as stated in {stated} of {len(leaves)} comparisons"
    if side.name == "ours":
        clear = [side.answer(leaf, level) for leaf in leaves]
        text += f", significantly in {clear.count(True) or 'none'}"
        text += f", significantly not in {clear.count(False)}" if False in clear else ""
        text += f" ({count - len(leaves)} not run)" if len(leaves) < count else ""
    extremes = (min(estimate.value for estimate in gaps), max(estimate.value for estimate in gaps))
    return f"{text}; differences {' to '.join(dict.fromkeys(f'{end:+.2f}' for end in extremes))}"


@dataclass(frozen=True)
class Sentence:
    """A sentence that is a condition on a long table."""

    name: str
    text: str
    condition: Condition
    sources: tuple[str, ...] = ()
    about: Form | Sequence[Form] | None = None
    """The number that a stated one is compared with, or the leads of which it is the smallest."""
    print_: bool = True
    """Whether the paper prints the numbers that the condition needs."""
    in_print: Condition | None = None
    """The condition on the printed numbers, if it is a different one."""
    remark: str = ""
    logs: bool = False
    """Whether the published side is the authors' logs, which decide nothing."""
    full_scale_only: bool = False
    own: bool = False
    """Whether the sentence is this suite's, not the paper's."""


NOT_RUN = ("ours: not run yet", "ours: not run at full scale")


def judge_all(frame: pd.DataFrame, scale: str, sentences: Iterable[Sentence]) -> tuple[Claim, ...]:
    """Return the claims that sentences make on a table."""
    return tuple(judge(frame, scale, each) for each in sentences)


def judge(frame: pd.DataFrame, scale: str, sentence: Sentence) -> Claim:
    """Return the claim that one sentence makes on a table."""
    ours, printed = Side(frame, "ours"), Side(frame, "published")
    condition, in_print = sentence.condition, sentence.in_print or sentence.condition
    answer = ours.answer(condition, level_per_difference(condition))
    ours_words = describe_side(ours, condition, sentence.about)
    theirs = describe_side(printed, in_print, sentence.about) if sentence.print_ else ""
    ours_part = f"ours: {ours_words} ({ours.describe_seeds(condition)})"
    ours_part = ours_part if ours_words else NOT_RUN[scale == "paper"]
    estimates = filter(None, (ours.estimate(leaf.difference) for leaf in condition.leaves()))
    return Claim(
        sentence.name,
        sentence.text,
        answer,
        "; ".join(
            filter(
                None,
                [
                    ours_part,
                    f"{'logged' if sentence.logs else 'reported'}: {theirs}" if theirs else "",
                    sentence.remark,
                ],
            )
        ),
        scale,
        printed.answer(in_print, 0.0) if sentence.print_ and not sentence.logs else None,
        tuple(sentence.sources),
        full_scale_only=sentence.full_scale_only,
        few_seeds=any(estimate.paired == "client" for estimate in estimates),
        ours=sentence.own,
    )


Numbers = Mapping[str, float]


def claim_on_numbers(
    name: str,
    text: str,
    scale: str,
    ours: Numbers,
    met: Callable[[float], bool | None],
    *,
    theirs: Numbers | None = None,
    least: float = 1.0,
    template: str = "{:.2f}",
    ours_are: str = "ours (1 seed)",
    theirs_are: str = "the authors' logs",
    remark: str = "",
    **flags: Any,
) -> Claim:
    """Return a claim on numbers that are in no table: it holds if at least a share of them meets a
    condition. NaN is a missing number; `theirs`, from the authors' logs, is only reported.
    """

    def answer(numbers: Numbers) -> bool | None:
        answers = [met(value) if value == value else None for value in numbers.values()]
        return at_least_true(answers, ceil(least * len(answers))) if answers else None

    def describe(numbers: Numbers) -> str:
        texts = ((k, template.format(v) if v == v else "not known") for k, v in numbers.items())
        return ", ".join(f"{name} {value}".strip() for name, value in texts) or "not run"

    parts = [
        f"{ours_are}: {describe(ours)}",
        f"{theirs_are}: {describe(theirs)}" if theirs else "",
        remark,
    ]
    if least < 1:
        parts.append(f"at least {ceil(least * len(ours))} of {len(ours)} are needed")
    return Claim(name, text, answer(ours), "; ".join(filter(None, parts)), scale, **flags)


def close(value: float) -> bool | None:
    """Return whether a cosine, a rank correlation or a ratio is near one: True from 0.9 on, False
    below 0.5, None between.
    """
    return True if value >= 0.9 else False if value < 0.5 else None


@dataclass(frozen=True)
class Proposition:
    """A statement on an equation, checked on the rows of `propositions.csv` whose quantity begins
    with `quantity`.
    """

    name: str
    text: str
    quantity: str
    met: Callable[[float], bool | None] = close
    on: str = "a toy with digits"


def judge_propositions(
    folder: Path, scale: str, statements: Iterable[Proposition], numbers: pd.DataFrame | None = None
) -> tuple[Claim, ...]:
    """Return claims on a paper's statements on equations. They are checked on toy data of this
    suite, so the scale of runs does not matter. Seeds count by their mean.
    """
    rows = pd.read_csv(folder / "propositions.csv") if numbers is None else numbers
    claims = []
    for each in statements:
        matching = rows[rows["quantity"].str.startswith(each.quantity)]
        means = matching.groupby(["quantity", "round"], as_index=False)["value"].mean()
        values = {
            f"{quantity.removeprefix(each.quantity).lstrip(', ')} round {round_}".strip(): value
            for quantity, round_, value in means.itertuples(index=False)
        }
        seeds = matching["seed"].nunique()
        text = f"On {each.on}: {each.text}"
        ours = f"{each.quantity} ({f'means of {seeds} seeds' if seeds > 1 else '1 seed'})"
        claim = claim_on_numbers(each.name, text, scale, values, each.met, ours_are=ours, free=True)
        claims.append(replace(claim, ours=True))
    return tuple(claims)


def wide(frame: pd.DataFrame, side: str) -> pd.DataFrame:
    """Return one side of a long table, `published` or `ours`, rows against columns."""
    return frame.pivot(index="row", columns="column", values=side).astype(float)
