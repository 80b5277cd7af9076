"""Which way of training a cohort is the fastest on a device: measured, not guessed.

Lanes keep a GPU busy with many small kernels and need no padding; a stack does more in each. Which
wins depends on the device, the model, the batch and the number of clients, so each is tried on
synthetic clients with the engine's own code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import torch

from repfl.algorithms.core.data import ClientData
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.lowering import Lowering, Precision
from repfl.algorithms.core.model import Model
from repfl.algorithms.core.recipe import Recipe

WIDEST = 32
"""Clients at once at most, and clients in a trial: a larger cohort repeats them."""
REPEATS = 3
"""Local trainings per trial; the first records, the last is timed."""
FILL = 0.85
"""Share of the free memory that a choice may need."""


@dataclass(frozen=True)
class Job:
    """What is to be trained."""

    model: Model
    recipe: Recipe
    shape: tuple[int, int, int]  # (C, H, W) of what the model sees
    classes: int
    cohort: int
    device: str
    dtype: torch.dtype
    precision: Precision


@dataclass(frozen=True)
class Trial:
    """One way of training, and what it took."""

    lowering: Lowering
    seconds: float
    """Per client and step; infinite: it did not fit or did not run."""
    note: str = ""


def candidates(cohort: int, precision: Precision) -> Iterator[Lowering]:
    """Every way worth trying for so many clients: lanes of single clients, and recorded stacks."""
    most = min(cohort, WIDEST)
    for lanes in sorted({min(width, most) for width in (1, 4, 8, 16, most)}):
        yield Lowering(1, lanes, precision=precision)
    for chunk in sorted({min(width, most) for width in (4, 8, 16, most)} - {1}):
        yield Lowering(chunk, 1, "grouped", precision)
        yield Lowering(chunk, 1, "matmul", precision)


def tune(ways: Sequence[Lowering], measure: Callable[[Lowering], float]) -> list[Trial]:
    """All ways, the fastest first. One that fails is out, and so are wider ones of its kind when
    memory was the reason.
    """
    trials: list[Trial] = []
    full: dict[tuple[bool, str], int] = {}
    best = float("inf")
    for way in ways:
        kind = (way.chunk == 1, way.conv)
        if way.together >= full.get(kind, way.together + 1):
            trials.append(Trial(way, float("inf"), "a narrower one was too large or too slow"))
            continue
        try:
            seconds = measure(way)
        except (RuntimeError, MemoryError) as error:
            if lost(error):
                raise
            if exhausted(error):
                full[kind] = way.together
            text = str(error)
            note = text.splitlines()[0] if text else type(error).__name__
            trials.append(Trial(way, float("inf"), note))
            continue
        trials.append(Trial(way, seconds))
        best = min(best, seconds)
        if seconds * way.together > best * max(each.together for each in ways):
            full[kind] = way.together  # even if twice as wide were twice as fast
    return sorted(trials, key=lambda trial: trial.seconds)  # stable: of equals the narrower


def exhausted(error: BaseException) -> bool:
    """Whether memory has run out; an illegal access to it is something else."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        "out of memory" in str(error).lower()
    )


def lost(error: BaseException) -> bool:
    """Whether nothing more can be computed on the device in this process."""
    text = str(error).lower()
    return "illegal memory access" in text or "device-side assert" in text


def measure(job: Job, way: Lowering) -> float:
    """Seconds per client and step of a cohort that trains in this way, on synthetic clients of
    unequal size.
    """
    device = torch.device(job.device)
    training = replace(job.recipe.training, rounds=1, epochs=1)
    recipe = replace(job.recipe, participation=1.0, sampling="keyed", training=training)
    clients = min(job.cohort, WIDEST)
    sizes = [training.batch * (4 + client % 5) - client % 3 for client in range(clients)]
    fed = Federation(
        job.model, _noise(job, sizes), recipe, seed=0, device=device, dtype=job.dtype, **vars(way)
    )
    fed.begin(1, scoring=True)
    start = fed.new_model().expand(fed.N, -1)
    free = _free(device)
    for _ in range(REPEATS - 1):
        fed.train(start)
    fed.correct(start, "test")  # takes memory of its own
    if _peak(device) > FILL * free:
        raise MemoryError(f"takes more than {FILL:.0%} of the free memory")
    _wait(device)
    begun = perf_counter()
    fed.train(start)
    _wait(device)
    return (perf_counter() - begun) / sum(-(-size // training.batch) for size in sizes)


def _noise(job: Job, sizes: Sequence[int]) -> ClientData:
    rng = np.random.default_rng(0)
    channels, height, width = job.shape
    images = torch.from_numpy(
        rng.integers(0, 256, (sum(sizes), height, width, channels), dtype=np.uint8)
    )
    labels = torch.from_numpy(rng.integers(0, job.classes, sum(sizes)))
    train = list(torch.arange(sum(sizes)).split(list(sizes)))
    test = [torch.arange(min(500, sum(sizes)))] * len(train)
    nothing = [part[:0] for part in train]
    return ClientData(
        images,
        labels,
        train,
        test,
        nothing,
        torch.full((channels,), 1 / 255),
        torch.zeros(channels),
        job.classes,
    )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _free(device: torch.device) -> int:
    """Bytes that may still be taken; nobody counts them on a CPU."""
    if device.type != "cuda":
        return 1 << 62
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    return int(torch.cuda.mem_get_info(device)[0])


def _peak(device: torch.device) -> int:
    return int(torch.cuda.max_memory_reserved(device)) if device.type == "cuda" else 0
