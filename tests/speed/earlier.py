"""Rounds of this code and of an earlier commit's, in turns, into bench/SPEED.md:

python -m tests.speed.earlier COMMIT [MODEL ...]

Every run is a process of its own with one thread, on FedAvg as its code runs it when it is asked
for nothing else. It needs a machine that does nothing else, and real data.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from statistics import median

from repfl.bench.pages import parts
from repfl.bench.records import provenance
from tests.references.clones import extract
from tests.speed import rounds
from tests.speed.page import PAGE

ROOT = Path(__file__).resolve().parents[2]
CASES = (
    ("lenet5", "fashion_mnist"),
    ("cnn4", "mnist"),
    ("cnn4", "cifar10"),
    ("resnet8", "cifar10"),
    ("resnet10", "cifar10"),
)
PAIRS = 5


def measure(folder: Path, case: tuple[str, str]) -> dict[str, float]:
    """Seconds of a round's parts in a fresh process, by the code in a folder."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, rounds.__file__, *case],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{folder.name}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def block(commit: str, before: Path, models: Sequence[str]) -> Iterator[str]:
    """A table of how many times as fast this code is."""
    yield (
        f"On {provenance.processor()['name']}, one thread, {date.today()}, beside {commit[:7]}:"
        f" FedAvg, {rounds.CLIENTS} clients of {rounds.SAMPLES} images, batches of"
        f" {rounds.BATCH} with momentum. Median of {PAIRS} pairs, least and most."
    )
    yield "\n| model | dataset | training, times as fast | scoring, times as fast |"
    yield "|---|---|---|---|"
    for case in [case for case in CASES if not models or case[0] in models]:
        pairs = []
        for turn in range(PAIRS):
            order = (before, ROOT) if turn % 2 else (ROOT, before)
            took = {folder: measure(folder, case) for folder in order}
            pairs.append([took[before][kind] / took[ROOT][kind] for kind in ("train", "evaluate")])
        shown = (
            f"{median(r):.2f} ({min(r):.2f} to {max(r):.2f})" for r in zip(*pairs, strict=True)
        )
        yield f"| {' | '.join([*case, *shown])} |"
        print(case, pairs, flush=True)


def main() -> None:
    """Take the earlier code out of the history, compare, write."""
    commit = subprocess.run(
        ["git", "rev-parse", sys.argv[1]], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as into:
        text = "\n".join(block(commit, extract(ROOT, commit, Path(into), "."), sys.argv[2:]))
    parts.write(PAGE, "earlier", text + "\n")


if __name__ == "__main__":
    main()
