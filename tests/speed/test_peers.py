"""The table of the comparison with other suites, and that their processes carry nothing of ours."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.speed.peers import page, suites
from tests.speed.peers.setting import Setting


def run(suite: str, seed: int, times: float, accuracy: float) -> dict[str, Any]:
    same = {"suite": suite, "method": "fedavg", "threads": 1, "seed": seed, "accuracy": accuracy}
    rounds = {"round": [9 * times, times, times], "score": [times]}
    return {**same, **rounds, "start": times, "memory": 1e9 * times}


def test_theirs_are_multiples_of_ours_pair_by_pair_and_the_last_file_counts() -> None:
    """A slow moment slows both of a pair; the first of three rounds is an outlier."""
    pairs = [
        (run("repfl", seed, 2.0**seed, 0.5), run("PFLlib", seed, 3 * 2.0**seed, 0.49 + seed / 100))
        for seed in range(3)
    ]
    old = {"runs": [run("repfl", 0, 1.0, 0.5), run("PFLlib", 0, 7.0, 0.5)]}
    new = {"runs": [each for pair in pairs for each in pair]}
    (line,) = page.table([old, new]).to_dict("records")
    assert [line[cost] for cost in page.COSTS] == ["3.00 (3.00 to 3.00)"] * 4
    assert line["accuracy"] == "+0.00 (-2.48 to +2.48)"


def test_other_suites_processes_import_nothing_of_ours() -> None:
    tried = "import sys, tests.speed.peers.suites, tests.references.stand_ins; print(*sys.modules)"
    command = [sys.executable, "-c", tried]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    ours = {"algorithms", "bench", "datasets", "paper_tables", "repfl", "torch"}
    assert not {name.split(".")[0] for name in loaded} & ours


def test_our_side_of_the_comparison_runs() -> None:
    small = Setting(clients=2, train=8, test=8, rounds=1, epochs=1, batch=8, participation=1.0)
    ready = []
    found = suites.repfl("ditto", 0, small, lambda: ready.append(True))
    assert ready
    assert len(found["round"]) == len(found["score"]) == 1
    assert 0 <= found["accuracy"] <= 1
