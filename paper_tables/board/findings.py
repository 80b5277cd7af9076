"""What the board's numbers say, in sentences that are made from them and never typed.

A recipe is spoken of once every method has made its last trial in it: before, another trial may win
a study.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite, nan

import pandas as pd

from repfl.paper_tables.board import analysis, frozen
from repfl.paper_tables.board.analysis import Standing
from repfl.paper_tables.board.view import ALONE, APART, COMMON, TUNED, View
from repfl.paper_tables.board.words import counted, listed, ordinal, row, rows, signed
from repfl.paper_tables.core.statistics import LEVEL

PAPERS = ("FedPURIN", "FedOBP", "PFedDST", "Star-PFL, before aggregation", "FedSelect")
"""The methods of the five papers of this suite."""
NOT_IN = {"work": " (without what is trained before scoring, such as fine-tuning)"}
FRONTS = {"traffic": ("bytes", "KiB"), "work": ("multiply-adds", "million")}


def of(view: View, says: Callable[[View], Iterable[str]]) -> tuple[str, ...]:
    """What some numbers say at the board's own size; the self-test on digits says nothing."""
    return tuple(says(view)) if view.evidence.scale == "paper" else ()


# -- accuracy --------------------------------------------------------------------------------------


def accuracy(view: View) -> Iterator[str]:
    """Say what the frozen protocol says, then what its addenda change: who leads, who is told
    apart from whom, and where the five papers' methods are.
    """
    if added := frozen.added_rows(view):
        yield from frozen.leaders(view)
        if view.spoken:
            yield frozen.addenda(added)
    if len(view.spoken) > 1:
        yield from _over_all(view)
    for key, label in view.spoken.items():
        here = analysis.standing(view.scores, key)
        order = here.means.dropna().sort_values(ascending=False)
        if len(order) < 2 or not isfinite(here.apart):
            continue
        if fallen := [str(m) for m in here.means.index if m not in order]:
            yield f"{label}: all five trials of {rows(fallen)} diverged in some study: no score."
        leader, *near = analysis.near_leader(here, order)
        yield (
            f"{label}{frozen.WITH if added else ''}: {leader} has the highest"
            f" accuracy, {order.iloc[0]:.1f} %"
            f" (± {here.half:.1f} beside the others). {rows(near) or 'No other row'} cannot be"
            f" told apart from it: between {len(order)} rows and {here.studies} studies,"
            f" differences below {here.apart:.1f} points may be chance (Tukey's test)."
        )
        yield _noise(label, analysis.noise_shares(view.scores, key))
        yield from _beside_alone(label, here, order)
        yield from _papers(label, here, order)
    if view.spoken and view.apart:
        yield (
            f"The rows {rows(view.apart)} stand apart and are not compared;"
            f" {rows([APART[name] for name in view.apart])} are, in their place. The protocol's"
            " addenda say why."
        )
    for key, open_ in view.missing.items():
        if open_:
            yield (
                f"{view.columns[key]}: {len(view.methods) - len(open_)} of {len(view.methods)} rows"
                " have made all their trials. Nothing is said of it before the others have."
            )


def _over_all(view: View) -> Iterator[str]:
    """Who ranks first over several recipes, and who cannot be told apart from it."""
    leader, told = analysis.overall(view.compared)
    if not leader:
        return
    others = told.drop(index=leader).sort_values("rank")
    near = [str(name) for name in others.index[~(others["p"] < 1 - LEVEL)]]
    blocks = int(told["blocks"].max())
    with_added = frozen.WITH if frozen.added_rows(view) else ""
    yield (
        f"{listed(list(view.spoken.values()))}{with_added}: {leader} ranks first on average"
        f" ({float(told['rank'][leader]):.1f} of {len(told)}, over {blocks} studies)."
        f" {rows(near) or 'No other row'} cannot be told apart from it (Tukey's test of the mean"
        " differences). This is about these recipes, and not about others."
    )


def _noise(label: str, shares: pd.Series) -> str:
    """Whose accuracy moves most from study to study."""
    most = shares.nlargest(2)
    return (
        f"{label}: the interval takes all rows for equally noisy. They are not: {most.index[0]} and"
        f" {most.index[1]} make up {100 * most.sum():.0f} % of the noise. They are less certain"
        " than it says, and most others more."
    )


def _beside_alone(label: str, here: Standing, order: pd.Series) -> Iterator[str]:
    if ALONE not in order:
        return
    gaps = order.drop(ALONE) - order[ALONE]
    above, below = (gaps > here.apart).sum(), gaps[gaps < -here.apart]
    said = f": {rows(list(below.index))}" if len(below) else ""
    yield (
        f"{label}: {above} of {len(gaps)} rows are above {ALONE} ({order[ALONE]:.1f} %) by more"
        f" than chance, {len(gaps) - above - len(below)} cannot be told apart from it, {len(below)}"
        f" {'is' if len(below) == 1 else 'are'} below{said}."
    )
    for name in (TUNED, COMMON):
        if name in gaps:
            yield f"{label}: {name} minus {ALONE}: {signed(gaps[name], here.gap)}."


def _papers(label: str, here: Standing, order: pd.Series) -> Iterator[str]:
    mine = [name for name in order.index if name in PAPERS]
    if not mine or TUNED not in order:
        return
    places = order.rank(ascending=False, method="min").astype(int)
    told = [
        f"{row(name)} is {ordinal(places[name])} of {len(order)},"
        f" {signed(order[name] - order[TUNED], here.gap)}"
        for name in mine
    ]
    yield (
        f"{label}: the methods of the five papers in this protocol, tuned like all others, and how"
        f" far they are from {TUNED}: {'; '.join(told)}."
    )


# -- clients ---------------------------------------------------------------------------------------


def clients(view: View) -> Iterator[str]:
    """Whom methods harm, and what they offer those who come late."""
    for key, label in view.spoken.items():
        yield from _harmed(label, analysis.standing(view.scores, key, "harm"))
        yield from _late(label, analysis.standing(view.scores, key, "newcomers"))


def _harmed(label: str, here: Standing) -> Iterator[str]:
    order = here.means.dropna().sort_values()
    if order.empty:
        return
    first, *near = analysis.near_leader(here, order)
    last = str(order.index[-1])
    yield (
        f"{label}: fewest clients score below their own {ALONE} model under {first},"
        f" {order.iloc[0]:.1f} %; most under {last}, {order.iloc[-1]:.1f} %; under the middle row"
        f" {order.median():.0f} %. {_open(near, here)}"
    )


def _open(near: Sequence[str], here: Standing) -> str:
    """How many cannot be told apart from the first."""
    if not isfinite(here.apart):
        return "How far chance goes is not known."
    told = counted(len(near), "other row lies", "other rows lie") if near else "no other row lies"
    return (
        f"Differences below {here.apart:.1f} points may be chance, and {told} within that distance."
    )


def _late(label: str, here: Standing) -> Iterator[str]:
    order = here.means.dropna().sort_values(ascending=False)
    if order.empty:
        return
    first, *near = analysis.near_leader(here, order)
    none = len(here.means) - len(order)
    alone = f"; alone they reach {order[ALONE]:.1f} %" if ALONE in order else ""
    missing = f" {counted(none, 'row has', 'rows have')} nothing for a client that joins late."
    yield (
        f"{label}: newcomers reach most with what {first} gives them, {order.iloc[0]:.1f} %{alone}."
        f" {_open(near, here)}{missing if none else ''}"
    )


# -- costs -----------------------------------------------------------------------------------------


def costs(view: View) -> Iterator[str]:
    """What is gained per byte and per operation, over recipes."""
    value = view.mean("value").dropna()
    if value.empty:
        return
    over = listed(list(view.spoken.values()))
    for name, (what, unit) in FRONTS.items():
        cost = view.mean(name)
        front = analysis.front(value, cost)
        if front:
            told = (f"{row(m)} ({cost[m]:,.0f} {unit}, {value[m]:.1f} %)" for m in front)
            yield (
                f"{over}: best accuracy for {what} per client and round{NOT_IN.get(name, '')}, from"
                f" little to much: {listed(list(told))}. For every other row, one of these is at"
                " least as accurate and costs no more than it, or less than 1 % more."
            )
    close = _close(view)
    sent = view.mean("traffic").reindex(close).dropna()
    if len(sent) > 1:
        leader, least = close[0], str(sent.idxmin())
        yield (
            f"{over}: of the rows that cannot be told apart from the best, {least} sends and"
            f" receives least, {sent[least]:,.0f} KiB per client and round"
            + (f"; {leader}: {sent[leader]:,.0f} KiB." if leader in sent.drop(least) else ".")
        )


def _close(view: View) -> list[str]:
    """The methods that are not told apart from the leader in any recipe, the best
    first.
    """
    near = view.mean("value").dropna().sort_values(ascending=False)
    for key in view.spoken:
        here = analysis.standing(view.scores, key)
        near = near[here.means.max() - here.means.reindex(near.index) < here.apart]
    return [str(name) for name in near.index]


# -- tuning ----------------------------------------------------------------------------------------


def tuning(view: View) -> Iterator[str]:
    """What tuning is worth; nothing before all rows that a paper has values for have run as
    printed, too.
    """
    for key, label in view.spoken.items():
        gains = analysis.gains(view.scores, view.printed, key)
        order = gains.means.dropna().sort_values()
        if len(order) < 2 or key in view.unprinted:
            continue
        worse, clear = int((order < 0).sum()), int((order < -gains.half).sum())
        told = counted(worse, "method scores higher", "methods score higher")
        yield (
            f"{label}: five trials are worth {signed(order.mean(), nan)} on average over"
            f" {len(order)} methods: most to {order.index[-1]}"
            f" ({signed(order.iloc[-1], gains.half)}), least to {order.index[0]}"
            f" ({signed(order.iloc[0], gains.half)}). {told} with the values"
            f" that {'its paper prints' if worse == 1 else 'their papers print'} and a learning"
            f" rate of 0.05, {clear or 'none'} of them by more than chance."
        )
        printed = analysis.standing(view.printed, key).means.reindex(order.index).dropna()
        tuned = analysis.standing(view.scores, key).means.dropna()
        leader = str(printed.idxmax())
        place = int(tuned.rank(ascending=False, method="min").get(leader, 0))
        if place:
            yield (
                f"{label}: as printed, {leader} would lead with {printed.max():.1f} %; tuned alike"
                f" it is {ordinal(place)}."
            )


def spread(view: View) -> Iterator[str]:
    """Who must be tuned most."""
    found = analysis.spread_of_trials(view.trials).unstack()
    for key, label in view.spoken.items():
        order = found[key].drop(list(view.apart), errors="ignore").dropna().sort_values()
        if len(order) > 1:
            yield (
                f"{label}: from the worst to the best of five trials, validation accuracy moves by"
                f" {order.median():.1f} points in the middle row; least with {order.index[0]}"
                f" ({order.iloc[0]:.1f}), most with {order.index[-1]} ({order.iloc[-1]:.1f})."
                f"{_diverged(view, key)}"
            )


def _diverged(view: View, key: str) -> str:
    """Trials without an end, which no range counts."""
    trials = view.trials
    fell = trials[(trials["column"] == key) & trials["status"].isin(["diverged", "failed"])]
    counts = fell.groupby("method").size()
    told = [f"{name} {counted(count, 'trial', 'trials')}" for name, count in counts.items()]
    return f" Not counted, since they diverged: {listed(told)}." if told else ""
