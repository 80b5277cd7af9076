"""The comparison as a table, out of files of `nox -s peers`, of which later ones may repeat
some methods: python -m tests.speed.peers.page benchmarks/peers/TIME.json ...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

HEAD = (
    "method",
    "threads",
    "suite",
    "accuracy",
    "s per round",
    "s per scoring",
    "start-up, s",
    "peak memory, GB",
)
SCALES = {"round": 1.0, "score": 1.0, "start": 1.0, "memory": 1e-9}


UNKNOWN = "not measured"


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval by Student's t; one value has none."""
    if len(values) < 2:
        return values[0], np.nan, np.nan
    middle, error = float(np.mean(values)), float(stats.sem(values))
    margin = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return middle, middle - margin, middle + margin


def ratio(theirs: Any, ours: Any) -> str:
    """How many times as much as ours, pair by pair."""
    shown = np.exp(interval(np.log(np.divide(theirs, ours)).tolist()))
    if not np.isfinite(shown[0]):
        return UNKNOWN
    return "{:.2f} ({:.2f} to {:.2f})".format(*shown)


def points(theirs: Any, ours: Any) -> str:
    """How many points of accuracy more than ours, pair by pair."""
    return "{:+.2f} ({:+.2f} to {:+.2f})".format(
        *interval((100 * np.subtract(theirs, ours)).tolist())
    )


def ways(found: dict[str, Any]) -> dict[tuple[str, int], dict[str, pd.DataFrame]]:
    """The runs of each method and number of threads, by suite; of its rounds and scorings the
    medians.
    """
    frame = pd.DataFrame(found["runs"])
    for name in ("round", "score"):
        frame[name] = frame[name].map(np.median)
    return {
        (str(method), int(str(threads))): {
            str(suite): each.sort_values("seed") for suite, each in group.groupby("suite")
        }
        for (method, threads), group in frame.groupby(["method", "threads"], sort=False)
    }


def block(found: dict[str, Any]) -> str:
    """What was run, and a table: our figures, and theirs as multiples of them."""
    facts, seeds = found["facts"], {run["seed"] for run in found["runs"]}
    lines = [
        (
            f"On {facts['processor']}, Python {facts['python']}, {facts['date']}: cnn4,"
            f" {facts['clients']} clients of {facts['train']} images of {facts['dataset']},"
            f" {facts['participation']:.0%} a round, {facts['epochs']} epochs of batches of"
            f" {facts['batch']}, {facts['rounds']} rounds, {len(seeds)} partitions."
            " Theirs are multiples of ours, accuracy in points more than ours, each with its 95 %"
            " interval over pairs."
        ),
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
    ]
    for way, held in ways(found).items():
        first = [str(part) for part in way]
        ours = held.pop("repfl")
        means = (ours[name].mean() * scale for name, scale in SCALES.items())
        absolute = (f"{mean:.3g}" if np.isfinite(mean) else UNKNOWN for mean in means)
        lines.append(
            f"| {' | '.join([*first, 'repfl', f'{ours.accuracy.mean():.2%}', *absolute])} |"
        )
        for suite, each in sorted(held.items()):
            pairs = {
                name: (each[name].to_numpy(), ours[name].to_numpy())
                for name in ("accuracy", *SCALES)
            }
            beside = [points(*pairs["accuracy"]), *(ratio(*pairs[name]) for name in SCALES)]
            lines.append(f"| {' | '.join([*first, str(suite), *beside])} |")
    return "\n".join(lines) + "\n"


def summary(files: Sequence[dict[str, Any]]) -> str:
    """What theirs are multiples of ours, from the least of the methods to the most."""
    last = {way: held for found in files for way, held in ways(found).items()}
    spans = []
    for threads, suite in sorted({(way[1], s) for way, held in last.items() for s in held}):
        if suite == "repfl":
            continue
        told = []
        for name, what in (("round", "a round"), ("score", "a scoring"), ("memory", "memory")):
            times = [
                np.exp(
                    np.mean(np.log(np.divide(held[suite][name], held["repfl"][name].to_numpy())))
                )
                for way, held in last.items()
                if way[1] == threads
            ]
            told.append(f"{what} {min(times):.2f} to {max(times):.2f}")
        spans.append(f"* {suite}, {threads} thread{'s' * (threads > 1)}: {', '.join(told)}")
    head = "Multiples of ours, from the least of the methods to the most, each as it was run last:"
    return "\n".join([head, "", *spans]) + "\n"


if __name__ == "__main__":
    given = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]
    print("\n".join([*map(block, given), summary(given)]))
