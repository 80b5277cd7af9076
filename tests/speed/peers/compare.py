"""The same experiment here, in PFLlib and in FL-bench, in turns: python -m
tests.speed.peers.compare --clones references

Every run is a process of its own. What was measured goes to benchmarks/peers/<time>.json, and from
there with `tests.speed.peers.page` into a table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from repfl.bench.store import provenance
from tests.references.clones import extract, place
from tests.speed.peers.setting import COMMITS, METHODS, Setting
from tests.speed.peers.shares import dataset, write

ROOT = Path(__file__).resolve().parents[3]


def unpack(clones: Path, into: Path) -> dict[str, Path]:
    """The folder of every suite, with the code of the named commits."""
    folders = {name: into / name for name in ("repfl", *COMMITS)}
    for folder in folders.values():
        folder.mkdir()
    for suite, (repository, commit, *paths) in COMMITS.items():
        extract(place(clones, repository), commit, folders[suite], *paths)
    return folders


def measure(
    folder: Path, suite: str, method: str, threads: int, seed: int, setting: Setting
) -> dict[str, Any]:
    """One run in a fresh process."""
    where = folder / "system" if suite == "PFLlib" else folder
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    environment["PYTHONHASHSEED"] = "0"
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    said = [suite, method, str(seed), str(threads), str(time.time()), json.dumps(asdict(setting))]
    command = [sys.executable, "-m", "tests.speed.peers.suites", *said]
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{suite}, {method}: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {"suite": suite, "method": method, "threads": threads, "seed": seed, **found}


def runs(
    folders: dict[str, Path], repeats: int, ways: list[tuple[str, int]], setting: Setting
) -> Iterator[dict[str, Any]]:
    """In turns; another suite is first in every repetition."""
    for seed in range(repeats):
        for suite in COMMITS:
            write(setting, folders[suite], seed)
        suites = [*folders][seed % 3 :] + [*folders][: seed % 3]
        for (method, threads), suite in product(ways, suites):
            found = measure(folders[suite], suite, method, threads, seed, setting)
            told = f"{seed} {method:7} {threads} {suite:9} accuracy {found['accuracy']:.4f}"
            print(told, flush=True)
            yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clones", type=Path, default=Path("references"))
    parser.add_argument("--repeats", type=int, default=5, help="partitions, each measured once")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    for field in fields(Setting):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    asked = vars(parser.parse_args())
    clones, repeats = asked.pop("clones"), asked.pop("repeats")
    ways = list(product(asked.pop("methods"), asked.pop("threads")))
    setting = Setting(**asked)
    with tempfile.TemporaryDirectory() as into:
        found = list(runs(unpack(clones, Path(into)), repeats, ways, setting))
    processor = provenance.platform_of("cpu", "default")["device"]
    facts = {"processor": processor, "python": sys.version.split()[0]}
    facts |= {"date": f"{datetime.now(UTC):%Y-%m-%d}", "dataset": dataset(), **asdict(setting)}
    kept = Path("benchmarks", "peers", f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json")
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"facts": facts, "runs": found}, indent=1), encoding="utf-8")
    print(f"figures: {kept.resolve()}")


if __name__ == "__main__":
    main()
