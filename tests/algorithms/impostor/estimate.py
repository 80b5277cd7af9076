"""What FedOBP's CIFAR-10 cell would take on a GPU, from what the impostor counts:
`python -m tests.algorithms.impostor.estimate` writes it into bench/SPEED.md, every term shown.

Two rounds of ten of a hundred clients run on the impostor, with the paper's model. How long each
kernel takes is assumed (`Card`), how many there are is counted, how many steps clients make is read
off the paper's partition and cohorts. Nothing of this was measured on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
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
from repfl.bench.trust import toys
from tests.algorithms.impostor.cases import phases
from tests.algorithms.impostor.driver import gpu
from tests.algorithms.impostor.report import Report, Work
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
    record: float = 50e-6
    """Seconds in which one kernel is recorded and made ready to be played."""

    def seconds(self, work: Sequence[Work]) -> float:
        """Operations one after the other."""
        return sum(
            max(
                each.kernels * self.floor, each.moved / self.bandwidth, each.operations / self.alone
            )
            for each in work
        )


def kernels_of(name: str, args: Any) -> int:
    """Kernels behind one operation, where a GPU takes more than one."""
    if name == "convolution":
        return 2 if args[2] is not None else 1  # the bias is added apart
    if name == "convolution_backward":
        return sum(args[-1])  # of inputs, of weights, of biases
    return 1


def metered(func: Any, args: Any, kwargs: Any, out: Any) -> Work:
    """What an operation does."""
    moved = sum(t.numel() * t.element_size() for t in tensors((args, leaves(out))))
    count = flop_registry.get(func._overloadpacket)
    operations = float(count(*args, **kwargs, out_val=out)) if count else 0.0
    return Work(kernels_of(func._schema.name.removeprefix("aten::"), args), moved, operations)


# -- what is counted -------------------------------------------------------------------------------


def counted(clients: int, cohort: int, tests: int) -> Report:
    """Two rounds of the method on the impostor."""
    batch = 32
    size = batch * 2 - 8
    data = toys.toy_data((size,) * clients, test=tests, classes=10)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (len(data.labels), 32, 32, 3), dtype=np.uint8)
    held = type(data)(
        torch.from_numpy(images),
        *(data.labels, data.train, data.test, data.val),
        *(torch.ones(3) / 255, torch.zeros(3), 10),
    )
    recipe = toys.toy_recipe(
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
        report.meter = metered
        run = Run(build("fedobp", {}), recipe, held, model, seed=0, device="cuda", lanes=cohort)
        phases(run, report)
        run.start()
        while not run.done:
            report.round = run.round + 1
            run.step()
    return report


@dataclass(frozen=True)
class Cell:
    """How long clients train in the paper's cell: mini-batches per epoch, full and short."""

    clients: int
    cohort: int
    rounds: int
    scored: int
    """Rounds in which everybody is scored."""
    epochs: int
    tests: int
    """Test samples of the client of a cohort that has the most, on average over rounds."""
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
    tests = np.array([len(own) for own in data.test])[np.array(drawn)].max(1).mean()
    return Cell(
        *(many, cohort, training.rounds, training.rounds // recipe.evaluation.every),
        *(training.epochs, round(tests), sizes // training.batch, short, planning),
    )


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


@dataclass(frozen=True)
class Step:
    """A client's step, on average over the graph that holds it."""

    kernels: float
    seconds: float
    operations: float


def step(graph: Sequence[Work], steps: int, card: Card) -> Step:
    return Step(
        sum(work.kernels for work in graph) / steps,
        card.seconds(graph) / steps,
        sum(work.operations for work in graph) / steps,
    )


Term = tuple[str, str, float]
"""What takes time in the cell, how that comes about, and the seconds."""


def terms(report: Report, cell: Cell, card: Card) -> list[Term]:
    """Everything that takes time in the cell."""
    graphs = sorted(report.graphs, key=lambda graph: sum(work.operations for work in graph))
    alone = [graph for graph in graphs if len(graph) > 1][: len(graphs) // 2]
    full = step(graphs[-1], max(STEPS), card)
    short = step(max(alone, key=len), 1, card)
    found = [_training(full, short, cell, card)]
    issued = [work for (r, _), own in report.issued.items() if r == WARM for work in own]
    host, device = len(issued) * card.issue, card.seconds(issued)
    waits = report.total("waits", WARM)
    scoring = report.issued[WARM, "score"]
    everybody = max(len(scoring) * card.issue, card.seconds(scoring)) * cell.clients / cell.cohort
    nodes = sum(len(graph) for graph in report.graphs)
    return [
        *found,
        (
            "the rest of a round",
            f"{len(issued)} operations, issued in {1e3 * host:.1f} ms and computed in"
            f" {1e3 * device:.1f} ms (scores, masks, averages, chunks in and out): the longer",
            cell.rounds * max(host, device),
        ),
        ("host waits", f"{waits} a round", cell.rounds * waits * card.wait),
        (
            "plans",
            f"{1e3 * cell.planning:.1f} ms a round on this machine, made while the GPU trains",
            max(0.0, cell.rounds * cell.planning - found[0][2]),
        ),
        ("scoring everybody", f"{cell.scored} times", cell.scored * everybody),
        ("records", f"{nodes} kernels, in the first round", nodes * card.record),
    ]


def _training(full: Step, short: Step, cell: Cell, card: Card) -> Term:
    """Of every round the longest: its longest client, all lanes' work together, or the host."""
    steps = cell.epochs * (cell.full + cell.short)
    times = cell.epochs * (cell.full * full.seconds + cell.short * short.seconds)
    work = cell.epochs * (cell.full * full.operations + cell.short * short.operations)
    path, throughput = times.max(1), work.sum(1) / card.together
    graphs = replays(cell)
    issuing = graphs * card.replay + steps.sum(1) * full.kernels * card.node
    how = (
        f"the longest of: the longest client, {steps.max(1).mean():.0f} steps of"
        f" {full.kernels:.1f} kernels and {full.seconds * 1e6:.0f} us, {1e3 * path.mean():.1f} ms;"
        f" all {steps.sum(1).mean():.0f} steps of {full.operations / 1e9:.2f} G operations,"
        f" {1e3 * throughput.mean():.1f} ms; issuing {graphs.mean():.0f} graphs,"
        f" {1e3 * issuing.mean():.1f} ms"
    )
    longest = np.maximum(np.maximum(path, throughput), issuing)
    return "local training", how, float(longest.mean()) * cell.rounds


def total(report: Report, cell: Cell, card: Card) -> float:
    return sum(seconds for *_, seconds in terms(report, cell, card))


def block(report: Report, cell: Cell, card: Card) -> str:
    """The page's part."""
    slow = Card(*(2 * v if v < 1 else v / 2 for v in asdict(card).values()))
    rows = [f"| {name} | {how} | {s:.2f} |" for name, how, s in terms(report, cell, card)]
    assumed = [f"| {field.name} | {getattr(card, field.name):g} |" for field in fields(card)]
    return "\n".join(
        [
            f"Not measured. Estimated for {cell.rounds} rounds in {cell.cohort} lanes:"
            f" **{total(report, cell, card):.1f} s**; {total(report, cell, slow):.1f} s if every"
            " assumption below is wrong by a factor of two.",
            "",
            "| term | how it comes about | s in the cell |",
            "|---|---|---|",
            *rows,
            "",
            "Assumed of the card and its host (`Card` in the file says what each means):",
            "",
            "| assumption | seconds, or bytes or operations per second |",
            "|---|---|",
            *assumed,
            "",
        ]
    )


def main() -> None:
    card, cell = Card(), paper_cell()
    report = counted(cell.clients, cell.cohort, cell.tests)
    parts.write(PAGE, "gpu", block(report, cell, card))
    print(parts.read(PAGE, "gpu"))


if __name__ == "__main__":
    main()
