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

WAY = ["method", "threads"]
COSTS = ["round", "score", "start", "memory"]


def interval(values: Any) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval by Student's t."""
    middle, margin = np.mean(values), stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return float(middle), float(middle - margin), float(middle + margin)


def table(files: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return other suites' costs as multiples of ours and their accuracy in points more than ours,
    pair by pair; of a method in several files the last.
    """
    last: dict[Any, pd.DataFrame] = {}
    for found in files:
        frame = pd.DataFrame(found["runs"])
        for name in ("round", "score"):
            frame[name] = frame[name].map(np.median)
        last |= dict(list(frame.groupby([*WAY, "suite"])))
    lines = []
    for (method, threads, suite), theirs in sorted(last.items()):
        one = theirs.set_index("seed")
        other = last[method, threads, "repfl"].set_index("seed")
        points = interval(100 * (one["accuracy"] - other["accuracy"]))
        line = {"method": method, "threads": threads, "suite": suite}
        line["accuracy"] = "{:+.2f} ({:+.2f} to {:+.2f})".format(*points)
        for cost in COSTS:
            times = np.exp(interval(np.log(one[cost] / other[cost])))
            line[cost] = "{:.2f} ({:.2f} to {:.2f})".format(*times)
        lines += [line] if suite != "repfl" else []
    return pd.DataFrame(lines)


if __name__ == "__main__":
    given = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]
    print(table(given).to_string(index=False))
