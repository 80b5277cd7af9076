"""What the board's numbers say, in a sentence or two for each table and figure.

A recipe is reported once every method has made its last trial in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pandas as pd

from repfl.paper_tables.board import analysis
from repfl.paper_tables.board.analysis import ALONE, Board
from repfl.paper_tables.core.number_text import signed


def of(board: Board, sentences: Callable[[Board], Iterable[str]]) -> tuple[str, ...]:
    """Return the sentences of a board; none for the self-test on digits."""
    return tuple(sentences(board)) if board.evidence.scale == "paper" else ()


def listed(names: Sequence[str]) -> str:
    """Return names joined by commas and a last "and"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def leaders(board: Board) -> Iterator[str]:
    """Report who ranks first among all compared rows, and in the frozen protocol."""
    leader, ranks = analysis.overall(board.ranked(board.compared))
    if not leader:
        return
    frozen = analysis.mean_ranks(board.ranked(board.frozen)).dropna()
    if frozen.empty or frozen.idxmin() == leader:
        yield f"{leader} ranks first of {len(ranks)} equally tuned rows"
        return
    later = "which was added after the first results" if leader not in frozen else "on its list"
    yield (
        f"{frozen.idxmin()} leads the {len(frozen)} rows of the frozen protocol; with the addenda"
        f" {leader}, {later}, ranks first of {len(ranks)}"
    )


def accuracy(board: Board) -> Iterator[str]:
    """Report who leads, how many rows are not significantly different, and how many are
    significantly different from local training.
    """
    yield from leaders(board)
    for key, label in board.complete.items():
        led = []
        for name, runs in {"frozen protocol": board.frozen, "addenda": board.compared}.items():
            here = analysis.of(key, runs)
            means = analysis.means(here, "value")["mean"].dropna()
            if len(means):
                near = analysis.near_first(here).sum() - 1
                led.append(
                    f"{name}: {means.idxmax()} has {means.max():.1f} %, the most of {len(means)}"
                    f" rows ({near} not significantly different)"
                )
        rows = analysis.differences(analysis.of(key, board.compared), ALONE).dropna()
        if len(rows):
            above, below = ((sign * rows["mean"] > rows["half"]).sum() for sign in (1, -1))
            led.append(f"{above} are significantly above {ALONE} and {below} below")
        yield f"{label}, {'; '.join(led)}."


def clients(board: Board) -> Iterator[str]:
    """Report how many clients are worse off than with local training."""
    parts = []
    for key, label in board.complete.items():
        shares = (
            board.means(key, "harm")["mean"].drop(list(board.replaced), errors="ignore").dropna()
        )
        if len(shares):
            parts.append(
                f"{label}: {shares.min():.1f} % under {shares.idxmin()}, the fewest,"
                f" {shares.median():.0f} % under the median method, {shares.max():.1f} % under"
                f" {shares.idxmax()}"
            )
    if parts:
        yield f"Clients worse off than with local training. {'. '.join(parts)}."


def costs(board: Board) -> Iterator[str]:
    """Report the best accuracy per byte, over recipes."""
    value, cost = board.mean("value").dropna(), board.mean("traffic")
    if front := analysis.pareto_front(value, cost):
        points = [f"{row} ({cost[row]:,.0f} KiB, {value[row]:.1f} %)" for row in front]
        yield f"No method is more accurate with as many bytes a round than {listed(points)}."


def better_off(shares: Mapping[str, pd.Series]) -> Iterator[str]:
    """Report with how many methods most clients are better off than with each reference."""
    parts = [
        f"than with {reference} under {(share > 50).sum()} of {len(share)} rows"
        for reference, share in shares.items()
        if len(share)
    ]
    if parts:
        yield f"Most clients are better off {listed(parts)}."


def spreads(board: Board) -> Iterator[str]:
    """Report how far the trials of the median method are apart."""
    apart = analysis.spread_of_trials(board.trials).dropna().groupby("column").median()
    parts = [f"{apart[key]:.0f} on {label}" for key, label in board.columns.items() if key in apart]
    if parts:
        yield (
            "From the worst to the best of five trials the median row moves by"
            f" {listed(parts)} (points of validation accuracy)."
        )


def tuning(board: Board) -> Iterator[str]:
    """Report what tuning adds, once all rows whose papers print values have also run as printed."""
    unfinished = board.printed_cells.loc[board.printed_cells["status"] == "missing", "column"]
    for key, label in board.complete.items():
        gains = analysis.gains(board.compared, board.printed, key).dropna(subset=["mean"])
        if len(gains) < 2 or key in set(unfinished):
            continue
        mean, lower = gains["mean"], (gains["mean"] < -gains["half"]).sum()
        yield (
            f"{label}: five trials add {signed(mean.mean(), 1)} points on average over {len(mean)}"
            f" methods, most to {mean.idxmax()} ({signed(mean.max(), 1)}), least to {mean.idxmin()}"
            f" ({signed(mean.min(), 1)}); {(mean < 0).sum()} score higher as printed, {lower}"
            " significantly."
        )


def notes(board: Board) -> Iterator[str]:
    """Report rows that are not compared, missing trials, and trials that diverged."""
    if board.replaced:
        instead = "; ".join(analysis.REPLACED[row] for row in board.replaced)
        yield f"{listed(board.replaced)} are shown and not compared; in their place are {instead}."
    trials = board.trials
    if missing := int((trials["status"] == "missing").sum()):
        yield (
            f"{missing:,} of {len(trials):,} trials are still to be made; a study has no winner"
            " before its last trial."
        )
    lost = trials[trials["status"].isin(["diverged", "failed"])].groupby("row").size()
    if len(lost):
        counts = (f"{row} {count}" for row, count in lost.items())
        yield f"Trials that diverged or failed, and so lost: {'; '.join(counts)}."
