"""What the board's numbers say, in about five sentences that are made from them and never typed.

A setting is spoken of once every method has made its last trial in it: before, another trial may
win a study. What the frozen protocol says stands before what its addenda added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite, nan

import pandas as pd

from repfl.paper_tables.board import analysis
from repfl.paper_tables.board.analysis import MethodMeans
from repfl.paper_tables.board.view import ADDED, ALONE, APART, COMMON, TUNED, WIDER, View

PAPERS = (
    "FedPURIN",
    "FedOBP",
    "PFedDST, as reconstructed",
    "Star-PFL, before aggregation",
    "FedSelect",
)
"""The methods of the five papers of this suite."""
FRONTS = {"traffic": ("bytes", "KiB"), "work": ("multiply-adds", "million")}
WITH = "With the addenda's rows. "
NAMED = 4
"""Rows that are named one by one; of more the number is given."""


def of(view: View, says: Callable[[View], Iterable[str]]) -> tuple[str, ...]:
    """Return what some numbers say; those of the self-test on digits say nothing."""
    return tuple(says(view)) if view.evidence.scale == "paper" else ()


# -- words -----------------------------------------------------------------------------------------


def signed(gap: float, half: float = nan) -> str:
    """Return a difference in points with its interval."""
    told = f"{gap:+.1f}"
    if isfinite(half):
        told += f" ({gap - half:+.1f} to {gap + half:+.1f})"
    return told.replace("-", "\N{MINUS SIGN}")


def ordinal(place: int) -> str:
    """Return a place in words."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{'th' if place % 100 in (11, 12, 13) else ending}"


def listed(names: Sequence[str]) -> str:
    """Return parts of a sentence as one reads them."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def rows(names: Iterable[str]) -> str:
    """Return names of rows, in quotation marks if they have a comma of their own."""
    return listed([f"“{name}”" if "," in name else name for name in names])


def _alike(names: Sequence[str]) -> str:
    """Say which rows are not significantly different: a few by name, many by number."""
    if not names:
        return "all others are significantly different"
    who = rows(names) if len(names) <= NAMED else f"{len(names)} others"
    return f"{who} {'is' if len(names) == 1 else 'are'} not significantly different"


def _ranked(scores: pd.DataFrame, view: View) -> Iterator[tuple[str, MethodMeans, pd.Series]]:
    """Yield every setting that is spoken of, with its methods in order."""
    for key, label in view.spoken.items():
        here = analysis.method_means(scores, key)
        order = here.means.dropna().sort_values(ascending=False)
        if len(order) > 1 and here.pairs.blocks:
            yield label, here, order


# -- accuracy --------------------------------------------------------------------------------------


def accuracy(view: View) -> Iterator[str]:
    """Say who leads by the frozen protocol, then with the addenda's rows, who is significantly
    different from local training, and where the five papers' methods are.
    """
    added = [name for name in view.methods if name in ADDED]
    if added and view.spoken:
        yield f"Frozen protocol. {_leaders(view.frozen, view)}"
        wider = rows(name for name in added if name in WIDER)
        more = f" {wider} also search a fine-tuning rate, with as many trials." if wider else ""
        yield (
            f"Addenda, written when the first setting had run, add {rows(added)}.{more} The"
            " figure of ranks and the lines below include them."
        )
    if leaders := _leaders(view.scores, view):
        yield f"{WITH if added else ''}{leaders}{_over_all(view)}"
    yield from _beside_alone(view)
    yield from _papers(view)
    waiting = [
        f"{view.columns[key]} ({len(view.methods) - len(open_)} of {len(view.methods)} methods are"
        " complete)"
        for key, open_ in view.missing.items()
        if open_
    ]
    if waiting:
        yield f"Nothing is said yet of {listed(waiting)}."


def _leaders(scores: pd.DataFrame, view: View) -> str:
    """Return who leads in every setting, and who is not significantly different."""
    told = []
    for label, here, order in _ranked(scores, view):
        leader, *near = analysis.near_leader(here, order)
        lost = [str(name) for name in here.means.index if name not in order]
        places = order.rank(ascending=False, method="min").astype(int)
        later = [f"{name} {ordinal(places[name])}" for name in APART if name in places]
        more = f". Replaced by an addendum: {listed(later)}" if later else ""
        more += f". No score, since all trials of a study diverged: {rows(lost)}" if lost else ""
        told.append(
            f"{label}: {leader} has the highest accuracy of {len(order)} methods,"
            f" {order.iloc[0]:.1f} %; {_alike(near)} (Games-Howell, {here.pairs.blocks} studies)"
            f"{more}"
        )
    return f"{'. '.join(told)}." if told else ""


def _over_all(view: View) -> str:
    """Return who ranks first over several settings, and who is not significantly different in
    accuracy, then in ranks: the protocol names a test of each.
    """
    if len(view.spoken) < 2:
        return ""
    leader, told = analysis.overall(view.compared)
    if not leader:
        return ""
    others = told.drop(index=leader).sort_values("rank")
    near = [str(name) for name in others.index[others["near"]]]
    first = float(told["rank"][leader])
    _, critical = analysis.ranks(view.compared)
    return (
        f" Over {int(told['blocks'].max())} studies {leader} ranks first on average"
        f" (mean rank {first:.1f} of {len(told)}); in accuracy {_alike(near)}"
        " (Games-Howell). By ranks alone,"
        f" {int((others['rank'] <= first + critical).sum())} others are not significantly different"
        f" (Nemenyi's critical difference, {critical:.1f} ranks)."
    )


def _beside_alone(view: View) -> Iterator[str]:
    """Say how many methods are significantly different from local training."""
    told = []
    for label, here, order in _ranked(view.scores, view):
        if ALONE not in order:
            continue
        gaps = order.drop(ALONE) - order[ALONE]
        apart = pd.Series({name: here.pairs.apart(str(name), ALONE) for name in gaps.index})
        below = [str(name) for name in gaps.index[gaps < -apart]]
        who = f" ({rows(below)})" if 0 < len(below) <= NAMED else ""
        said = [
            f"{name} {signed(gaps[name], apart[name])}" for name in (TUNED, COMMON) if name in gaps
        ]
        told.append(
            f"{label}: {int((gaps > apart).sum())} of {len(gaps)} methods are better,"
            f" {len(below)} {'is' if len(below) == 1 else 'are'} worse{who}."
            + (f" In points: {', '.join(said)}." if said else "")
        )
    if told:
        yield f"Significant differences from {ALONE}, with 95 % intervals. {' '.join(told)}"


def _papers(view: View) -> Iterator[str]:
    """Say where the methods of the five papers are."""
    told = []
    for label, here, order in _ranked(view.scores, view):
        mine = [name for name in order.index if name in PAPERS]
        places = order.rank(ascending=False, method="min").astype(int)
        if mine and TUNED in order:
            each = (
                f"{rows([name])} {ordinal(places[name])},"
                f" {signed(order[name] - order[TUNED], here.pairs.apart(name, TUNED))}"
                for name in mine
            )
            told.append(f"{label}, {len(order)} methods: {'; '.join(each)}")
    if told:
        yield (
            "The five papers' methods, tuned like all others: the place by accuracy, and the"
            f" difference to {TUNED} in points with a 95 % interval. {'. '.join(told)}."
        )


def apart(view: View) -> Iterator[str]:
    """Say which rows are not compared."""
    if view.apart:
        instead = rows(APART[name] for name in view.apart)
        yield f"{rows(view.apart)} are shown and not compared; {instead} are, in their place."


# -- clients, costs, tuning ------------------------------------------------------------------------


def clients(view: View) -> Iterator[str]:
    """Say whom methods harm, and what they offer unseen clients."""
    harmed, late = [], []
    for key, label in view.spoken.items():
        here = analysis.method_means(view.scores, key, "harm")
        order = here.means.dropna().sort_values()
        if len(order):
            first, last = ((order.index[end], f"{order.iloc[end]:.1f} %") for end in (0, -1))
            harmed.append(
                f"{label}: {first[0]} {first[1]} (fewest), median method {order.median():.0f} %,"
                f" {last[0]} {last[1]}{_near(here, order)}"
            )
        here = analysis.method_means(view.scores, key, "newcomers")
        order = here.means.dropna().sort_values(ascending=False)
        if len(order):
            alone = f", local training {order[ALONE]:.1f} %" if ALONE in order else ""
            late.append(
                f"{label}: {order.index[0]} {order.iloc[0]:.1f} %{alone}{_near(here, order)}"
            )
    if harmed:
        yield f"Clients worse off than with local training. {'. '.join(harmed)}."
    if late:
        yield f"Accuracy of unseen clients, at best and alone. {'. '.join(late)}."


def _near(here: MethodMeans, order: pd.Series) -> str:
    """Return how many are not significantly different from the first."""
    if not here.pairs.blocks:
        return ""
    near = len(analysis.near_leader(here, order)) - 1
    return f"; {near} others within chance of the first"


def costs(view: View) -> Iterator[str]:
    """Say what is gained per byte and per operation, over settings."""
    value = view.mean("value").dropna()
    for name, (what, unit) in FRONTS.items():
        cost = view.mean(name)
        if front := analysis.front(value, cost):
            told = [
                f"{rows([method])} ({cost[method]:,.0f} {unit}, {value[method]:.1f} %)"
                for method in front
            ]
            yield (
                f"Best accuracy for {what} per client and round, mean over"
                f" {listed(list(view.spoken.values()))}: {listed(told)}. No other method is more"
                " accurate at the same cost."
            )


def tuning(view: View) -> Iterator[str]:
    """Say what tuning is worth; nothing before all rows that a paper has values for have run as
    printed, too.
    """
    for key, label in view.spoken.items():
        gains = analysis.gains(view.scores, view.printed, key)
        order = gains.means.dropna().sort_values()
        if len(order) < 2 or key in view.unprinted:
            continue
        half = gains.half[order.index]
        printed = analysis.method_means(view.printed, key).means.reindex(order.index).dropna()
        tuned = analysis.method_means(view.scores, key).means.dropna()
        leader = str(printed.idxmax())
        place = int(tuned.rank(ascending=False, method="min").get(leader, 0))
        yield (
            f"{label}: tuning with five trials adds {signed(order.mean())} points on average over"
            f" {len(order)} methods, most for {order.index[-1]}"
            f" ({signed(order.iloc[-1], half.iloc[-1])}), least for {order.index[0]}"
            f" ({signed(order.iloc[0], half.iloc[0])}); {int((order < 0).sum())} score higher as"
            f" printed, {int((order < -half).sum())} significantly."
            + (
                f" As printed {leader} would lead with {printed.max():.1f} %; tuned it is"
                f" {ordinal(place)}."
                if place
                else ""
            )
        )


def spread(view: View) -> Iterator[str]:
    """Say who must be tuned most."""
    found, trials = analysis.spread_of_trials(view.trials).unstack(), view.trials
    for key, label in view.spoken.items():
        order = found[key].drop(list(view.apart), errors="ignore").dropna().sort_values()
        fell = trials[(trials["column"] == key) & trials["status"].isin(["diverged", "failed"])]
        told = listed([f"{name} {count}" for name, count in fell.groupby("method").size().items()])
        if len(order) > 1:
            least, most = (f"{order.index[end]} ({order.iloc[end]:.1f})" for end in (0, -1))
            yield (
                f"{label}: over five trials validation accuracy moves by {order.median():.1f}"
                f" points (median method), least with {least}, most with {most}."
                + (f" Trials that diverged are not counted: {told}." if told else "")
            )
