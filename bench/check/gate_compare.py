"""Differences between two computations of the same cells: what moved first, and by how much.

Cells are computed in float64, so on every platform a cell must give states of the same size up to
`TOLERANCE`, and the same counts of correct predictions except for one sample of all clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from repfl.bench.check.gate_cells import parse_key
from repfl.bench.grid.dotted_names import dotted

GateEntry = Mapping[str, Any]
"""The stored numbers of a cell: enough to see whether, where and by how much a run differs."""
TOLERANCE = 1e-9
"""Relative difference of sizes that rounding may cause. Measured: below 3e-11, between makers of
processors, with the oldest kernels of every library, and with noise of 1e-13 in every layer.
"""
ZERO_BELOW = 1e-9
"""Sizes below this are rounding errors of zero."""
MAX_SAMPLES_MOVED = 1
"""Correct predictions of all clients together by which one scoring may differ between platforms."""
EARLY, TRAINED, SCORED = range(3)
"""What comes first in a round: the score of what arrives, training, the other scores."""
AFTER_LAST_ROUND = 10**9
"""The round of numbers that exist only when a run has ended."""


class FirstDifference(NamedTuple):
    """The first thing that moved in a cell."""

    round: int
    stage: int
    what: str


@dataclass(frozen=True)
class Move:
    """One method on one recipe that moved."""

    spec: str
    recipe: str
    seeds: tuple[int, ...]
    """The seeds that moved; values and reason are of the first one."""
    version_then: int | None
    version_now: int | None
    then: float | None
    """The reported value before."""
    now: float | None
    why: str
    """What moved first: round, group of tensors or score, both numbers and their difference."""


def difference(then: Mapping[str, GateEntry], now: Mapping[str, GateEntry]) -> list[Move]:
    """Return what moved between two sets of entries by key, for each method and recipe."""
    moves = []
    keys = [*now, *(key for key in then if key not in now)]
    for (spec, recipe), group in groupby(keys, key=lambda key: parse_key(key)[:2]):
        moved = {key: why for key in group if (why := first_move(then.get(key), now.get(key)))}
        if moved:
            first = next(iter(moved))
            before, after = then.get(first, {}), now.get(first, {})
            seeds = tuple(parse_key(key)[2] for key in moved)
            versions = before.get("version"), after.get("version")
            moves.append(
                Move(spec, recipe, seeds, *versions, _value(before), _value(after), moved[first])
            )
    return moves


def _value(entry: GateEntry) -> float | None:
    value = entry.get("metrics", {}).get("value")
    return None if value is None else float(value)


def first_move(then: GateEntry | None, now: GateEntry | None) -> str:
    """Return what moved first in one cell; empty if all is within bounds."""
    if now is None:
        return "in the reference, and no longer a cell of the gate; --accept drops it"
    if then is None:
        return "not in the reference; take it in with --accept"
    if then["status"] != now["status"]:
        return f"was {then['status']}, is {now['status']}: {now.get('reason') or 'without a fault'}"
    if now["status"] != "done":
        return ""
    first = min(_moves_in_rounds(then, now), default=None)
    first = first or next(_moves_in_results(then, now), None)
    return first.what if first else ""


# -- in the order of a run -------------------------------------------------------------------------


def _moves_in_rounds(then: GateEntry, now: GateEntry) -> Iterator[FirstDifference]:
    """Yield the first difference of every kind in the course of the run."""
    if then["partition"] != now["partition"]:
        yield FirstDifference(0, EARLY, "partition: clients hold other samples")
    yield from _states(then, now)
    yield from _scores(then, now)


def _states(then: GateEntry, now: GateEntry) -> Iterator[FirstDifference]:
    """Yield the first round in which a group of tensors changes its size, and the group."""
    sizes = _by_round(then["norms"]), _by_round(now["norms"])
    for round_ in range(max(map(len, sizes))):
        before, after = (part[round_] if round_ < len(part) else {} for part in sizes)
        moved = {
            name: gap
            for name in before | after
            if (gap := relative_gap(before.get(name), after.get(name))) > TOLERANCE
        }
        if moved:
            most = max(moved, key=lambda name: moved[name])
            more = f"; {len(moved)} of {len(before | after)} groups moved" if len(moved) > 1 else ""
            change = change_of(before.get(most), after.get(most))
            when = f"round {round_}" if round_ else "initial state"
            yield FirstDifference(round_, TRAINED, f"{when}, {most}: {change}{more}")
            return


def _by_round(norms: Mapping[str, list[float | None]]) -> list[dict[str, float]]:
    count = max(map(len, norms.values()), default=0)
    return [
        {name: size for name, sizes in norms.items() if (size := sizes[index]) is not None}
        for index in range(count)
    ]


def _scores(then: GateEntry, now: GateEntry) -> Iterator[FirstDifference]:
    """Yield the first round of every scoring point in which the correct predictions change."""
    if then["totals"] != now["totals"]:
        points = then["totals"] | now["totals"]
        name = next(p for p in points if then["totals"].get(p) != now["totals"].get(p))
        yield FirstDifference(0, EARLY, f"{name}: other numbers of samples are scored")
    for point in then["counts"] | now["counts"]:
        before, after = then["counts"].get(point, {}), now["counts"].get(point, {})
        stage = EARLY if point.startswith("start") else SCORED
        for round_ in sorted(before | after, key=int):
            what = _count_moved(before.get(round_), after.get(round_))
            if what:
                yield FirstDifference(int(round_), stage, f"round {round_}, {point}: {what}")
                break


def _count_moved(then: str | None, now: str | None) -> str:
    """Return how one scoring differs, in words; empty if it does not."""
    if then is None or now is None:
        return "was not scored" if then is None else "is no longer scored"
    before, after = dict(_pairs(then)), dict(_pairs(now))
    if set(before) != set(after):
        return "other clients are scored"
    moved = {c: after[c] - before[c] for c in before if after[c] != before[c]}
    if sum(map(abs, moved.values())) <= MAX_SAMPLES_MOVED:
        return ""
    client = next(iter(moved))
    total = f" ({sum(moved.values()):+d} of {len(moved)} clients)" if len(moved) > 1 else ""
    return f"client {client} had {before[client]} right, has {after[client]}{total}"


# -- when it has ended -----------------------------------------------------------------------------


def _moves_in_results(then: GateEntry, now: GateEntry) -> Iterator[FirstDifference]:
    """Yield metrics and diagnostics that moved although states and scores did not."""
    tolerance = 0.0 if then["counts"] == now["counts"] else _slack(then)
    for part in ("metrics", "arrays"):
        before, after = dotted(then[part]), dotted(now[part])
        for name in sorted(before | after, key=lambda name: name != "value"):
            if not _agree(name, before.get(name), after.get(name), tolerance):
                change = change_of(before.get(name), after.get(name))
                yield FirstDifference(AFTER_LAST_ROUND, SCORED, f"{name}: {change}")


def _pairs(text: str) -> list[tuple[int, int]]:
    """Return the client and the number of every part of a text such as `0:12 1:7`."""
    return [
        (int(client), int(number))
        for client, _, number in (part.partition(":") for part in text.split())
    ]


def _slack(entry: GateEntry) -> float:
    """Return by how much an accuracy may differ if counts may differ by `MAX_SAMPLES_MOVED`."""
    totals = [total for text in entry["totals"].values() for _, total in _pairs(text)]
    return MAX_SAMPLES_MOVED / min(filter(None, totals), default=1)


def _agree(name: str, then: Any, now: Any, slack: float) -> bool:
    if then is None or now is None:
        return then is now
    if isinstance(then, str) or isinstance(now, str):
        return bool(then == now)
    if slack and name.split(".")[-1] == "round":
        return True
    if slack and name.split(".")[0] in ("value", "points"):
        return abs(now - then) <= slack + TOLERANCE
    return relative_gap(then, now) <= TOLERANCE


# -- numbers ---------------------------------------------------------------------------------------


def relative_gap(then: float | None, now: float | None) -> float:
    """Return the relative difference; infinite if only one number exists."""
    if then is None or now is None:
        return 0.0 if then is now else float("inf")
    return abs(now - then) / max(abs(then), abs(now), ZERO_BELOW)


def change_of(then: Any, now: Any) -> str:
    """Return both numbers and their difference, in words."""
    if isinstance(then, str | None) or isinstance(now, str | None):
        return f"{'nothing' if then is None else then} -> {'nothing' if now is None else now}"
    relative = (now - then) / abs(then) if then else float("inf")
    percent = f"{100 * relative:+.2g} %" if abs(relative) >= 1e-4 else f"{relative:+.1e} of it"
    return f"{then:.6g} -> {now:.6g} ({percent})"
