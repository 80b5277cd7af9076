"""The comparison of bench/SPEED.md, out of a file of `nox -s peers`: python -m
tests.speed.peers.page benchmarks/peers/TIME.json
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

from repfl.bench.pages import parts
from tests.speed.page import PAGE

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


def block(found: dict[str, Any]) -> str:
    """What was run, and a table: our figures, and theirs as multiples of them."""
    facts, frame = found["facts"], pd.DataFrame(found["runs"])
    for name in ("round", "score"):
        frame[name] = frame[name].map(np.median)
    lines = [
        (
            f"On {facts['processor']}, Python {facts['python']}, {facts['date']}: cnn4,"
            f" {facts['clients']} clients of {facts['train']} images of {facts['dataset']},"
            f" {facts['participation']:.0%} a round, {facts['epochs']} epochs of batches of"
            f" {facts['batch']}, {facts['rounds']} rounds, {frame.seed.nunique()} partitions."
            " Theirs are multiples of ours, accuracy in points more than ours, each with its 95 %"
            " interval over pairs."
        ),
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
    ]
    for way, group in frame.groupby(["method", "threads"], sort=False):
        first = [str(part) for part in way]
        held = {suite: each.sort_values("seed") for suite, each in group.groupby("suite")}
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


if __name__ == "__main__":
    parts.write(PAGE, "peers", block(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
