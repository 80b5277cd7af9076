"""Two computations of the same cells: what moved, where first, and by how much.

Cells are computed in float64, so on every platform a cell must give states of the same size to
`CLOSE` and the same counts of correct predictions, all but one sample of all clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from repfl.bench.check.gate_cells import place_of
from repfl.bench.grid.dotted_names import dotted

GateEntry = Mapping[str, Any]
"""What is kept of a cell: enough to say whether, where and by how much another run differs."""
CLOSE = 1e-9
"""Relative difference of sizes that rounding may make. Measured: below 3e-11, between makers of
processors, with the oldest kernels of every library, and with noise of 1e-13 in every layer.
"""
NOTHING = 1e-9
"""Sizes below this are rounding errors of zero."""
SAMPLES = 1
"""Correct predictions of all clients together by which one scoring may differ between platforms."""
EARLY, TRAINED, SCORED = range(3)
"""What comes first in a round: the score of what arrives, training, the other scores."""
AFTERWARDS = 10**9
"""The round of what is only known when a run has ended."""


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
    """The seeds that moved; what is told of is the first of them."""
    version_then: int | None
    version_now: int | None
    then: float | None
    """The value that a table would show, before."""
    now: float | None
    why: str
    """What moved first: round, group of tensors or score, both numbers and their difference."""


def difference(then: Mapping[str, GateEntry], now: Mapping[str, GateEntry]) -> list[Move]:
    """What moved between two sets of entries, named by the keys of places, by method and recipe."""
    found = []
    keys = [*now, *(key for key in then if key not in now)]
    for (spec, recipe), group in groupby(keys, key=lambda key: place_of(key)[:2]):
        moved = {key: why for key in group if (why := first_move(then.get(key), now.get(key)))}
        if moved:
            first = next(iter(moved))
            before, after = then.get(first, {}), now.get(first, {})
            seeds = tuple(place_of(key)[2] for key in moved)
            versions = before.get("version"), after.get("version")
            found.append(
                Move(spec, recipe, seeds, *versions, _value(before), _value(after), moved[first])
            )
    return found


def _value(entry: GateEntry) -> float | None:
    value = entry.get("metrics", {}).get("value")
    return None if value is None else float(value)


def first_move(then: GateEntry | None, now: GateEntry | None) -> str:
    """What moved first in one cell; nothing if all is within bounds."""
    if now is None:
        return "in the reference, and no longer a cell of the gate; --accept drops it"
    if then is None:
        return "not in the reference; take it in with --accept"
    if then["status"] != now["status"]:
        return f"was {then['status']}, is {now['status']}: {now.get('reason') or 'without a fault'}"
    if now["status"] != "done":
        return ""
    found = min(_on_the_way(then, now), default=None) or next(_outcomes(then, now), None)
    return found.what if found else ""


# -- in the order of a run -------------------------------------------------------------------------


def _on_the_way(then: GateEntry, now: GateEntry) -> Iterator[FirstDifference]:
    """What moved while the run went on, the first of every kind."""
    if then["partition"] != now["partition"]:
        yield FirstDifference(0, EARLY, "partition: clients hold other samples")
    yield from _states(then, now)
    yield from _scores(then, now)


def _states(then: GateEntry, now: GateEntry) -> Iterator[FirstDifference]:
    """The first round in which a group of tensors has another size; the group that moved most."""
    sizes = _by_round(then["norms"]), _by_round(now["norms"])
    for round_ in range(max(map(len, sizes))):
        before, after = (part[round_] if round_ < len(part) else {} for part in sizes)
        moved = {
            name: far
            for name in before | after
            if (far := relative_gap(before.get(name), after.get(name))) > CLOSE
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
        {name: size for name, sizes in norms.items() if (size := sizes[at]) is not None}
        for at in range(count)
    ]


def _scores(then: GateEntry, now: GateEntry) -> Iterator[FirstDifference]:
    """The first round of every scoring point in which other numbers of samples were right."""
    if then["totals"] != now["totals"]:
        points = then["totals"] | now["totals"]
        wrong = next(p for p in points if then["totals"].get(p) != now["totals"].get(p))
        yield FirstDifference(0, EARLY, f"{wrong}: other numbers of samples are scored")
    for point in then["counts"] | now["counts"]:
        before, after = then["counts"].get(point, {}), now["counts"].get(point, {})
        stage = EARLY if point.startswith("start") else SCORED
        for round_ in sorted(before | after, key=int):
            what = _count_moved(before.get(round_), after.get(round_))
            if what:
                yield FirstDifference(int(round_), stage, f"round {round_}, {point}: {what}")
                break


def _count_moved(then: str | None, now: str | None) -> str:
    """How one scoring differs, in words; nothing if it does not."""
    if then is None or now is None:
        return "was not scored" if then is None else "is no longer scored"
    before, after = dict(_pairs(then)), dict(_pairs(now))
    if set(before) != set(after):
        return "other clients are scored"
    moved = {c: after[c] - before[c] for c in before if after[c] != before[c]}
    if sum(map(abs, moved.values())) <= SAMPLES:
        return ""
    client = next(iter(moved))
    total = f" ({sum(moved.values()):+d} of {len(moved)} clients)" if len(moved) > 1 else ""
    return f"client {client} had {before[client]} right, has {after[client]}{total}"


# -- when it has ended -----------------------------------------------------------------------------


def _outcomes(then: GateEntry, now: GateEntry) -> Iterator[FirstDifference]:
    """Metrics and diagnostics that moved although no state and no score did; the value first."""
    slack = 0.0 if then["counts"] == now["counts"] else _slack(then)
    for part in ("metrics", "arrays"):
        before, after = dotted(then[part]), dotted(now[part])
        for name in sorted(before | after, key=lambda name: name != "value"):
            if not _agree(name, before.get(name), after.get(name), slack):
                yield FirstDifference(
                    AFTERWARDS, SCORED, f"{name}: {change_of(before.get(name), after.get(name))}"
                )


def _pairs(text: str) -> list[tuple[int, int]]:
    """Return the client and the number of every part of a text such as `0:12 1:7`."""
    return [
        (int(client), int(number))
        for client, _, number in (part.partition(":") for part in text.split())
    ]


def _slack(entry: GateEntry) -> float:
    """By how much an accuracy may differ where samples may: that many of the smallest client."""
    totals = [total for text in entry["totals"].values() for _, total in _pairs(text)]
    return SAMPLES / min(filter(None, totals), default=1)


def _agree(name: str, then: Any, now: Any, slack: float) -> bool:
    if then is None or now is None:
        return then is now
    if isinstance(then, str) or isinstance(now, str):
        return bool(then == now)
    if slack and name.split(".")[-1] == "round":
        return True
    if slack and name.split(".")[0] in ("value", "points"):
        return abs(now - then) <= slack + CLOSE
    return relative_gap(then, now) <= CLOSE


# -- numbers ---------------------------------------------------------------------------------------


def relative_gap(then: float | None, now: float | None) -> float:
    """Relative difference; infinite if one of the two is not there."""
    if then is None or now is None:
        return 0.0 if then is now else float("inf")
    return abs(now - then) / max(abs(then), abs(now), NOTHING)


def change_of(then: Any, now: Any) -> str:
    """Both numbers and their difference, for people."""
    if isinstance(then, str | None) or isinstance(now, str | None):
        return f"{'nothing' if then is None else then} -> {'nothing' if now is None else now}"
    far = (now - then) / abs(then) if then else float("inf")
    by = f"{100 * far:+.2g} %" if abs(far) >= 1e-4 else f"{far:+.1e} of it"
    return f"{then:.6g} -> {now:.6g} ({by})"
