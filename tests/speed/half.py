"""What bfloat16 saves and costs on this processor, into bench/SPEED.md:

python -m tests.speed.half RESULTS

RESULTS holds desk cells of `repfl run --precision bf16`, whose values are paired by seed with the
committed ones of float32. Speed is taken here, in turns: it needs a machine that does nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from time import process_time

import pandas as pd

from repfl.algorithms.core.federation import Federation
from repfl.bench.cells import grid as grids
from repfl.bench.evidence import measured
from repfl.bench.pages import parts
from repfl.bench.records import provenance
from repfl.bench.records.store import Store
from tests.speed.clients import federation
from tests.speed.page import PAGE
from tests.speed.peers.page import interval

MODELS = ("cnn4", "lenet5", "resnet8", "resnet10", "resnet18")
SAMPLES, BATCH, REPEATS = 320, 32, 5


def faster(model: str) -> list[float]:
    """How many times as fast training is in half precision, pair by pair."""
    whole, half = (
        federation(model, (SAMPLES,), "cpu", batch=BATCH, precision=each)
        for each in ("default", "bf16")
    )
    start = whole.new_model()[None]

    def seconds(fed: Federation) -> float:
        begun = process_time()
        fed.train(start)
        return process_time() - begun

    seconds(whole), seconds(half)  # warms both up
    return [seconds(whole) / seconds(half) for _ in range(REPEATS)]


def pairs(store: Store) -> pd.DataFrame:
    """Every cell of the store beside its committed value, in points."""
    known = {
        cell: (paper, next(iter(lines.values())).record)
        for paper in grids.printed()
        for cell, lines in measured.read(paper, "desk").cells.items()
    }
    rows = []
    for cell in store.ids():
        record = store.get(cell)
        if record is None or cell not in known or not provenance.half(record.provenance):
            continue
        paper, whole = known[cell]
        recipe = record.cell["recipe"]
        place = (paper, record.cell["method"], recipe["dataset"], recipe["model"])
        rows.append((*place, 100 * whole.metrics["value"], 100 * record.metrics["value"]))
    return pd.DataFrame(rows, columns=["paper", "method", "dataset", "model", "whole", "half"])


def block(store: Store) -> Iterator[str]:
    """A table of speed, and one of accuracy."""
    processor = provenance.processor()["name"]
    yield f"On {processor}, one thread, batches of {BATCH}, {date.today()}."
    yield f"\n| model | training is so many times as fast: median of {REPEATS} pairs, least, most |"
    yield "|---|---|"
    for model in MODELS:
        times = faster(model)
        yield f"| {model} | {median(times):.2f} ({min(times):.2f} to {max(times):.2f}) |"
    yield "\n| desk cells | seeds | accuracy in float32 | bfloat16 minus float32, points (95 %) |"
    yield "|---|---|---|---|"
    without = []
    for named, found in pairs(store).groupby(["paper", "method", "dataset", "model"], sort=False):
        paper, method, dataset, model = map(str, named)
        gap, low, high = interval((found["half"] - found["whole"]).tolist())
        without.append(low <= 0 <= high)
        name, mean = f"{paper}: {method} on {dataset}, {model}", found["whole"].mean()
        told = f"{gap:+.2f} ({low:+.2f} to {high:+.2f})"
        yield f"| {name} | {len(found)} | {mean:.2f} | {told} |"
    if cells := len(without):
        yield (
            f"\n{sum(without)} of {cells} intervals contain zero. If bfloat16 changed nothing on"
            f" average, at least one of {cells} would miss it in"
            f" {100 * (1 - 0.95**cells):.0f} of 100 such tables."
        )


def main(arguments: Sequence[str]) -> None:
    (folder,) = arguments
    parts.write(PAGE, "half", "\n".join(block(Store(Path(folder)))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
