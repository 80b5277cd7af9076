"""The board's findings: about five sentences that are generated from its numbers.

A setting is reported once every method has made its last trial in it, because another trial may
change a study's winner. The frozen protocol comes before its addenda.
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
    "FedSelect, exact cut",
    "FedSelect",
)
"""The methods of the five papers of this suite."""
COSTS = {"traffic": ("bytes", "KiB"), "work": ("multiply-adds", "million")}
WITH_ADDENDA = "With the addenda's rows. "
MAX_NAMED_ROWS = 4
"""Rows that are named one by one; of more rows the number is given."""


def of(view: View, sentences: Callable[[View], Iterable[str]]) -> tuple[str, ...]:
    """Return the sentences of a view; none for the self-test on digits."""
    return tuple(sentences(view)) if view.evidence.scale == "paper" else ()


# -- words -----------------------------------------------------------------------------------------


def signed(gap: float, half_width: float = nan) -> str:
    """Return a difference in points with its interval."""
    text = f"{gap:+.1f}"
    if isfinite(half_width):
        text += f" ({gap - half_width:+.1f} to {gap + half_width:+.1f})"
    return text.replace("-", "\N{MINUS SIGN}")


def ordinal(number: int) -> str:
    """Return an ordinal number, such as 1st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def listed(names: Sequence[str]) -> str:
    """Return names joined by commas and a last "and"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def rows(names: Iterable[str]) -> str:
    """Return names of rows joined, in quotation marks if a name contains a comma."""
    return listed([f"“{name}”" if "," in name else name for name in names])


def _alike(names: Sequence[str]) -> str:
    """Return which rows are not significantly different: a few by name, many by number."""
    if not names:
        return "all others are significantly different"
    subject = rows(names) if len(names) <= MAX_NAMED_ROWS else f"{len(names)} others"
    return f"{subject} {'is' if len(names) == 1 else 'are'} not significantly different"


def _ranked(scores: pd.DataFrame, view: View) -> Iterator[tuple[str, MethodMeans, pd.Series]]:
    """Yield every complete setting, with the means of its methods and their order."""
    for key, label in view.complete.items():
        stats = analysis.method_means(scores, key)
        order = stats.means.dropna().sort_values(ascending=False)
        if len(order) > 1 and stats.pairs.blocks:
            yield label, stats, order


# -- accuracy --------------------------------------------------------------------------------------


def accuracy(view: View) -> Iterator[str]:
    """Report who leads by the frozen protocol, then with the addenda's rows, who is significantly
    different from local training, and where the five papers' methods are.
    """
    added = [name for name in view.methods if name in ADDED]
    if added and view.complete:
        yield f"Frozen protocol. {_leaders(view.frozen, view)}"
        wider = rows(name for name in added if name in WIDER)
        note = f" {wider} also search a fine-tuning rate, with as many trials." if wider else ""
        yield (
            f"Addenda, written when the first setting had run, add {rows(added)}.{note} The"
            " figure of ranks and the lines below include them."
        )
    if leaders := _leaders(view.scores, view):
        yield f"{WITH_ADDENDA if added else ''}{leaders}{_over_all(view)}"
    yield from _beside_alone(view)
    yield from _papers(view)
    incomplete = [
        f"{view.columns[key]} ({len(view.methods) - len(open_)} of {len(view.methods)} methods are"
        " complete)"
        for key, open_ in view.missing.items()
        if open_
    ]
    if incomplete:
        yield f"Nothing is said yet of {listed(incomplete)}."


def _leaders(scores: pd.DataFrame, view: View) -> str:
    """Return who leads in every setting, and who is not significantly different."""
    settings = []
    for label, stats, order in _ranked(scores, view):
        leader, *near = analysis.near_leader(stats, order)
        lost = [str(name) for name in stats.means.index if name not in order]
        places = order.rank(ascending=False, method="min").astype(int)
        replaced = [f"{name} {ordinal(places[name])}" for name in APART if name in places]
        notes = f". Replaced by an addendum: {listed(replaced)}" if replaced else ""
        notes += f". No score, since all trials of a study diverged: {rows(lost)}" if lost else ""
        settings.append(
            f"{label}: {leader} has the highest accuracy of {len(order)} methods,"
            f" {order.iloc[0]:.1f} %; {_alike(near)} (Games-Howell, {stats.pairs.blocks} studies)"
            f"{notes}"
        )
    return f"{'. '.join(settings)}." if settings else ""


def _over_all(view: View) -> str:
    """Return who ranks first over several settings, and who is not significantly different in
    accuracy, then in ranks: the protocol names a test of each.
    """
    if len(view.shown) < 2:
        return ""
    leader, comparison = analysis.overall(view.compared)
    if not leader:
        return ""
    others = comparison.drop(index=leader).sort_values("rank")
    near = [str(name) for name in others.index[others["near"]]]
    first = float(comparison["rank"][leader])
    _, critical = analysis.ranks(view.compared)
    return (
        f" Over {int(comparison['blocks'].max())} studies {leader} ranks first on average"
        f" (mean rank {first:.1f} of {len(comparison)}); in accuracy {_alike(near)}"
        " (Games-Howell). By ranks alone,"
        f" {int((others['rank'] <= first + critical).sum())} others are not significantly different"
        f" (Nemenyi's critical difference, {critical:.1f} ranks)."
    )


def _beside_alone(view: View) -> Iterator[str]:
    """Report how many methods are significantly different from local training."""
    settings = []
    for label, stats, order in _ranked(view.scores, view):
        if ALONE not in order:
            continue
        gaps = order.drop(ALONE) - order[ALONE]
        limits = {n: stats.pairs.critical_difference(str(n), ALONE) for n in gaps.index}
        critical = pd.Series(limits)
        below = [str(name) for name in gaps.index[gaps < -critical]]
        names = f" ({rows(below)})" if 0 < len(below) <= MAX_NAMED_ROWS else ""
        present = [name for name in (TUNED, COMMON) if name in gaps]
        baselines = [f"{name} {signed(gaps[name], critical[name])}" for name in present]
        settings.append(
            f"{label}: {int((gaps > critical).sum())} of {len(gaps)} methods are better,"
            f" {len(below)} {'is' if len(below) == 1 else 'are'} worse{names}."
            + (f" In points: {', '.join(baselines)}." if baselines else "")
        )
    if settings:
        yield f"Significant differences from {ALONE}, with 95 % intervals. {' '.join(settings)}"


def _papers(view: View) -> Iterator[str]:
    """Report the ranks of the five papers' methods."""
    settings = []
    for label, stats, order in _ranked(view.scores, view):
        papers = [name for name in order.index if name in PAPERS]
        places = order.rank(ascending=False, method="min").astype(int)
        if papers and TUNED in order:
            halves = {n: stats.pairs.critical_difference(n, TUNED) for n in papers}
            methods = (
                f"{rows([name])} {ordinal(places[name])},"
                f" {signed(order[name] - order[TUNED], halves[name])}"
                for name in papers
            )
            settings.append(f"{label}, {len(order)} methods: {'; '.join(methods)}")
    if settings:
        yield (
            "The five papers' methods, tuned like all others: the place by accuracy, and the"
            f" difference to {TUNED} in points with a 95 % interval. {'. '.join(settings)}."
        )


def apart(view: View) -> Iterator[str]:
    """Report which rows are not compared."""
    if view.apart:
        instead = rows(APART[name] for name in view.apart)
        yield f"{rows(view.apart)} are shown and not compared; {instead} are, in their place."


# -- clients, costs, tuning ------------------------------------------------------------------------


def clients(view: View) -> Iterator[str]:
    """Report how many clients methods harm, and the accuracy of unseen clients."""
    harm_texts, newcomer_texts = [], []
    for key, label in view.complete.items():
        stats = analysis.method_means(view.scores, key, "harm")
        order = stats.means.dropna().sort_values()
        if len(order):
            first, last = ((order.index[end], f"{order.iloc[end]:.1f} %") for end in (0, -1))
            harm_texts.append(
                f"{label}: {first[0]} {first[1]} (fewest), median method {order.median():.0f} %,"
                f" {last[0]} {last[1]}{_near(stats, order)}"
            )
        stats = analysis.method_means(view.scores, key, "newcomers")
        order = stats.means.dropna().sort_values(ascending=False)
        if len(order):
            alone = f", local training {order[ALONE]:.1f} %" if ALONE in order else ""
            newcomer_texts.append(
                f"{label}: {order.index[0]} {order.iloc[0]:.1f} %{alone}{_near(stats, order)}"
            )
    if harm_texts:
        yield f"Clients worse off than with local training. {'. '.join(harm_texts)}."
    if newcomer_texts:
        yield f"Accuracy of unseen clients, at best and alone. {'. '.join(newcomer_texts)}."


def _near(stats: MethodMeans, order: pd.Series) -> str:
    """Return how many methods are not significantly different from the first."""
    if not stats.pairs.blocks:
        return ""
    near = len(analysis.near_leader(stats, order)) - 1
    return f"; {near} others within chance of the first"


def costs(view: View) -> Iterator[str]:
    """Report the best accuracy per byte and per operation, over settings."""
    value = view.mean("value").dropna()
    for name, (what, unit) in COSTS.items():
        cost = view.mean(name)
        if front := analysis.pareto_front(value, cost):
            points = [
                f"{rows([method])} ({cost[method]:,.0f} {unit}, {value[method]:.1f} %)"
                for method in front
            ]
            yield (
                f"Best accuracy for {what} per client and round, mean over"
                f" {listed(list(view.shown.values()))}: {listed(points)}. No other method is"
                " more accurate at the same cost."
            )


def tuning(view: View) -> Iterator[str]:
    """Report what tuning adds, once all rows whose papers print values have also run as printed."""
    for key, label in view.complete.items():
        gains = analysis.gains(view.scores, view.printed, key)
        order = gains.means.dropna().sort_values()
        if len(order) < 2 or key in view.missing_printed:
            continue
        half = gains.half_widths[order.index]
        printed = analysis.method_means(view.printed, key).means.reindex(order.index).dropna()
        tuned = analysis.method_means(view.scores, key).means.dropna()
        leader = str(printed.idxmax())
        rank = int(tuned.rank(ascending=False, method="min").get(leader, 0))
        yield (
            f"{label}: tuning with five trials adds {signed(order.mean())} points on average over"
            f" {len(order)} methods, most for {order.index[-1]}"
            f" ({signed(order.iloc[-1], half.iloc[-1])}), least for {order.index[0]}"
            f" ({signed(order.iloc[0], half.iloc[0])}); {int((order < 0).sum())} score higher as"
            f" printed, {int((order < -half).sum())} significantly."
            + (
                f" As printed {leader} would lead with {printed.max():.1f} %; tuned it is"
                f" {ordinal(rank)}."
                if rank
                else ""
            )
        )


def spread(view: View) -> Iterator[str]:
    """Report which methods depend most on tuning."""
    spreads, trials = analysis.spread_of_trials(view.trials).unstack(), view.trials
    for key, label in view.complete.items():
        order = spreads[key].drop(list(view.apart), errors="ignore").dropna().sort_values()
        failed = trials[(trials["column"] == key) & trials["status"].isin(["diverged", "failed"])]
        counts = failed.groupby("method").size()
        failures = listed([f"{name} {count}" for name, count in counts.items()])
        if len(order) > 1:
            least, most = (f"{order.index[end]} ({order.iloc[end]:.1f})" for end in (0, -1))
            yield (
                f"{label}: over five trials validation accuracy moves by {order.median():.1f}"
                f" points (median method), least with {least}, most with {most}."
                + (f" Trials that diverged are not counted: {failures}." if failures else "")
            )
