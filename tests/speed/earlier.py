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
HEAD = ("model", "dataset", "training", "scoring", "times the speed of", "on", "processor")


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


def row(before: Path, commit: str, case: tuple[str, str]) -> str:
    """How many times as fast this code is: median of the pairs, least and most."""
    pairs = []
    for turn in range(PAIRS):
        order = (before, ROOT) if turn % 2 else (ROOT, before)
        took = {folder: measure(folder, case) for folder in order}
        pairs.append([took[before][kind] / took[ROOT][kind] for kind in ("train", "evaluate")])
    spans = (f"{median(r):.2f} ({min(r):.2f} to {max(r):.2f})" for r in zip(*pairs, strict=True))
    cells = (*case, *spans, commit[:7], f"{date.today()}", provenance.processor()["name"])
    print(*cells, flush=True)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Take the earlier code out of the history, compare; rows of other models stay."""
    commit = subprocess.run(
        ["git", "rev-parse", sys.argv[1]], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    models, stay = sys.argv[2:], parts.read(PAGE, "earlier").splitlines()
    rows = {case: line for case in CASES for line in stay if line.startswith(start(case))}
    with tempfile.TemporaryDirectory() as into:
        before = extract(ROOT, commit, Path(into), ".")
        for case in CASES:
            if not models or case[0] in models:
                rows[case] = row(before, commit, case)
    lines = [
        (
            f"FedAvg, one thread, {rounds.CLIENTS} clients of {rounds.SAMPLES} images, batches of"
            f" {rounds.BATCH} with momentum; median of {PAIRS} pairs, least and most."
        ),
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
        *(rows[case] for case in CASES if case in rows),
    ]
    parts.write(PAGE, "earlier", "\n".join(lines) + "\n")


def start(case: tuple[str, str]) -> str:
    """How a case's row begins."""
    return f"| {' | '.join(case)} |"


if __name__ == "__main__":
    main()
