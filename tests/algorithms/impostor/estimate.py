"""What FedOBP's CIFAR-10 cell would take on a GPU, from what the impostor counts:
`python -m tests.algorithms.impostor.estimate` writes it into bench/SPEED.md, every term shown.

Two rounds of ten of a hundred clients run on the impostor, with the paper's model. How long each
kernel takes is assumed (`Card`), how many there are is counted, how many steps clients make is read
off the paper's partition and cohorts. Nothing of this was measured on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import flop_registry

from repfl.algorithms import models
from repfl.algorithms.core.batches import Schedule, plan_batches
from repfl.algorithms.core.graphs import STEPS
from repfl.algorithms.core.method import build
from repfl.algorithms.core.rng import Streams, flbench_cohort
from repfl.algorithms.core.run import Run
from repfl.bench.cells import grid
from repfl.bench.cells.cell import build_cell
from repfl.bench.pages import parts
from repfl.bench.running.clients import clients_of
from repfl.bench.trust import contract
from tests.algorithms.impostor.cases import _phases
from tests.algorithms.impostor.driver import gpu
from tests.algorithms.impostor.report import Report
from tests.algorithms.impostor.tensors import leaves, tensors

PAGE = Path(__file__).resolve().parents[3] / "bench" / "SPEED.md"
WARM = 2
"""The round that is counted."""
LONGEST = 16
"""Steps of a client there: enough for every length of record."""


@dataclass(frozen=True)
class Card:
    """What is assumed of a GPU and its host."""

    floor: float = 2.5e-6
    """Seconds of the shortest kernel, with the gap to the next one of its graph."""
    issue: float = 8e-6
    """Seconds in which the host issues one operation from Python."""
    replay: float = 15e-6
    """Seconds in which the host issues one graph, with the Python around it."""
    node: float = 2e-8
    """Seconds more for every kernel of the graph."""
    wait: float = 30e-6
    """Seconds that the GPU idles when the host has waited for it."""
    bandwidth: float = 3.5e12
    """Bytes per second that a large kernel moves."""
    alone: float = 40e12
    """Operations per second of one client's convolution or product, which fills a part of the GPU.
    """
    together: float = 100e12
    """Operations per second of all lanes together."""


def kernels_of(name: str, args: Any) -> int:
    """Kernels behind one operation, where a GPU takes more than one."""
    if name == "convolution":
        return 2 if args[2] is not None else 1  # the bias is added apart
    if name == "convolution_backward":
        return sum(args[-1])  # of inputs, of weights, of biases
    return 1


class Meter:
    """Seconds and operations of every kernel, under a card's assumptions."""

    def __init__(self, card: Card) -> None:
        self.card = card

    def __call__(self, func: Any, args: Any, kwargs: Any, out: Any) -> tuple[float, float]:
        name = func._schema.name.removeprefix("aten::")
        moved = sum(t.numel() * t.element_size() for t in tensors((args, leaves(out))))
        count = flop_registry.get(func._overloadpacket)
        operations = float(count(*args, **kwargs, out_val=out)) if count else 0.0
        many = kernels_of(name, args)
        longest = max(moved / self.card.bandwidth, operations / self.card.alone)
        return max(longest, many * self.card.floor), operations


# -- what is counted -------------------------------------------------------------------------------


def counted(card: Card, clients: int, cohort: int, tests: int) -> Report:
    """Two rounds of the method on the impostor."""
    batch = 32
    size = batch * 2 - 8
    data = contract.toy_data((size,) * clients, test=tests, classes=10)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (len(data.labels), 32, 32, 3), dtype=np.uint8)
    held = type(data)(
        torch.from_numpy(images),
        *(data.labels, data.train, data.test, data.val),
        *(torch.ones(3) / 255, torch.zeros(3), 10),
    )
    recipe = contract.toy_recipe(
        clients=clients,
        participation=cohort / clients,
        sampling="flbench",
        rounds=WARM,
        epochs=LONGEST // 2,
        batch=batch,
        evaluation={"points": ("start",)},
    )
    model = models.build("cnn4", channels=3, size=32, classes=10)
    with gpu() as report:
        report.meter = Meter(card)
        run = Run(build("fedobp", {}), recipe, held, model, seed=0, device="cuda", lanes=cohort)
        _phases(run, report)
        run.start()
        while not run.done:
            report.round = run.round + 1
            run.step()
    return report


@dataclass(frozen=True)
class Cell:
    """How long clients train in the paper's cell: mini-batches per epoch, full and short."""

    rounds: int
    epochs: int
    full: np.ndarray  # [rounds, K]
    short: np.ndarray  # [rounds, K], 0 or 1
    planning: float
    """Seconds in which this machine plans a round."""


def paper_cell() -> Cell:
    """The cohorts and the partition of FedOBP's CIFAR-10 cell with Dir(0.1)."""
    recipe = grid.read(grid.folder("fedobp") / "grid.toml").recipe("cifar10-dir0.1", "paper")
    data, training = clients_of(build_cell("fedobp", {}, recipe, 42)).data, recipe.training
    many, cohort = data.clients, round(recipe.participation * data.clients)
    drawn = [flbench_cohort(42, many, cohort, r + 1).tolist() for r in range(training.rounds)]
    sizes = np.array([len(own) for own in data.train])[np.array(drawn)]
    rest = sizes % training.batch
    begun, streams = perf_counter(), Streams(42)
    for client in drawn[0]:
        schedule = Schedule("batches", 1, training.epochs, 0, training.batch, True)
        plan_batches(data, streams, client, schedule).block(training.batch)
    planning = perf_counter() - begun
    short = (rest > 1).astype(int)
    return Cell(training.rounds, training.epochs, sizes // training.batch, short, planning)


def replays(cell: Cell) -> np.ndarray:
    """Graphs that a round issues: runs of full batches in the lengths that are recorded, and the
    short ones  [rounds].
    """
    left, graphs = cell.full.copy(), cell.short.copy()
    for steps in STEPS:
        graphs += left // steps
        left %= steps
    return cell.epochs * graphs.sum(1)


# -- the estimate ----------------------------------------------------------------------------------


def terms(report: Report, cell: Cell, card: Card) -> dict[str, tuple[str, float]]:
    """Every term of a round: how it comes about, and its seconds on average over the rounds."""
    full, short = report.per_step(False), report.per_step(True)
    steps = cell.epochs * (cell.full + cell.short)
    times = cell.epochs * (cell.full * full.seconds + cell.short * short.seconds)
    work = cell.epochs * (cell.full * full.operations + cell.short * short.operations)
    path, throughput = times.max(1), work.sum(1) / card.together
    graphs = replays(cell)
    nodes = (steps * full.kernels).sum(1)
    issuing = graphs * card.replay + nodes * card.node
    train = np.maximum(np.maximum(path, throughput), issuing)
    eager = report.total("launches", WARM)
    device = report.seconds[WARM]
    waits = report.total("waits", WARM)
    return {
        "local training": (
            f"the longest of: longest client, {steps.max(1).mean():.0f} steps of"
            f" {full.kernels:.1f} kernels and {full.seconds * 1e6:.0f} us, {1e3 * path.mean():.1f}"
            f" ms; all {steps.sum(1).mean():.0f} steps of {full.operations / 1e9:.2f} G operations,"
            f" {1e3 * throughput.mean():.1f} ms; the host's {graphs.mean():.0f} graphs,"
            f" {1e3 * issuing.mean():.1f} ms",
            float(train.mean()),
        ),
        "operations issued one by one": (
            f"{eager} of {card.issue * 1e6:.0f} us",
            eager * card.issue,
        ),
        "their kernels": (
            f"scoring, masks, averages, chunks in and out: {1e3 * device:.1f} ms; hidden behind"
            " issuing where they are shorter",
            max(0.0, device - eager * card.issue),
        ),
        "host waits": (f"{waits} of {card.wait * 1e6:.0f} us", waits * card.wait),
        "plans of the next round": (
            f"{1e3 * cell.planning:.1f} ms on this machine, made while the GPU trains",
            max(0.0, cell.planning - float(train.mean())),
        ),
    }


def block(report: Report, cell: Cell, card: Card) -> str:
    """The page's part."""
    found = terms(report, cell, card)
    total = sum(seconds for _, seconds in found.values())
    assumed = ", ".join(f"{name} {value:g}" for name, value in asdict(card).items())
    head = (
        f"Not measured. Estimated for {cell.rounds} rounds, ten lanes: **{total * cell.rounds:.1f}"
        f" s**. Assumed of the card and its host, in seconds, bytes and operations per second:"
        f" {assumed}. Scoring everybody four times and the first round's records come on top.\n\n"
    )
    rows = [
        f"| {name} | {how} | {1e3 * seconds:.2f} | {seconds * cell.rounds:.2f} |"
        for name, (how, seconds) in found.items()
    ]
    table = ["| term of a round | how it comes about | ms | s in the cell |", "|---|---|---|---|"]
    last = f"| **all** | | **{1e3 * total:.2f}** | **{total * cell.rounds:.1f}** |"
    return head + "\n".join([*table, *rows, last]) + "\n"


def main(changes: Mapping[str, float] | None = None) -> None:
    card = Card(**(changes or {}))
    report = counted(card, clients=100, cohort=10, tests=150)
    parts.write(PAGE, "gpu", block(report, paper_cell(), card))
    print(parts.read(PAGE, "gpu"))


if __name__ == "__main__":
    main()
