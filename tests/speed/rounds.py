"""How long rounds take, by the code in the folder where this runs: python rounds.py MODEL DATASET

It imports nothing else of this repository's tests, since the code may be an earlier commit's.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

CLIENTS, SAMPLES, BATCH, ROUNDS = 20, 96, 32, 3
OPEN = {"chunk": 0, "conv": ""}
"""What the code is left to choose by itself."""


def ours(name: str) -> Any:
    """A module of the code in this folder, which did not always have a name of its own."""
    here = Path.cwd()
    module = import_module(f"repfl.{name}" if (here / "repfl").is_dir() else name)
    assert Path(str(module.__file__)).resolve().is_relative_to(here.resolve()), module
    return module


def best(model: str, dataset: str) -> dict[str, float]:
    """Seconds of the quickest round's training and scoring, of all but the first."""
    import torch

    torch.set_num_threads(1)
    described, task = ours("datasets.core.recipe"), ours("bench.running.task")
    clients = ours("bench.running.clients")
    make = getattr(clients, "make", None) or ours("bench.running.work").make
    with suppress(ModuleNotFoundError):
        ours("bench.running.memory").keep_freed_memory()
    recipe = described.Recipe(
        dataset=dataset,
        model=model,
        clients=CLIENTS,
        participation=0.2,
        partition=described.Partition(
            rule="client-dirichlet", options={"alpha": 0.5, "train": SAMPLES, "test": SAMPLES}
        ),
        training=described.Training(rounds=9, epochs=5, batch=BATCH, lr=0.01, momentum=0.9),
        evaluation=described.Evaluation(every=1, points=("post_agg",)),
    )
    known = {field.name for field in fields(task.Options)}
    options = task.Options(**{name: OPEN[name] for name in OPEN.keys() & known})
    cell = ours("bench.cells.cell").build_cell("fedavg", {}, recipe, 0)
    run = make(cell, clients.clients_of(cell), ours("bench.running.tuning").settled(options, cell))
    run.start()
    for _ in range(1 + ROUNDS):
        run.step()
    return {
        kind: min([value for _, name, value in run.rows if name == f"time/{kind}"][1:])
        for kind in ("train", "evaluate")
    }


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    print(json.dumps(best(*sys.argv[1:])))
