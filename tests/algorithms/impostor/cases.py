"""Methods on small clients, on the impostor and on the processor."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from repfl.algorithms import models
from repfl.algorithms.core.method import build, methods
from repfl.algorithms.core.run import Run
from repfl.bench.trust import toys
from tests.algorithms.impostor.driver import gpu
from tests.algorithms.impostor.report import Report
from tests.algorithms.impostor.tensors import on_gpu

WAYS: dict[str, dict[str, Any]] = {
    "loop": {"chunk": 1},
    "stack": {"chunk": 6, "lanes": 1},
    "grouped": {"chunk": 6, "lanes": 1, "conv": "grouped"},
    "lanes": {"lanes": 2},
    "stacks in lanes": {"chunk": 3, "lanes": 2},
}
SIZES = (25, 7, 0, 17, 1)
ROUNDS = 3
POINTS = ("start", "pre_agg", "post_agg")


@dataclass(frozen=True)
class Seen:
    """A run on the impostor."""

    run: Run
    report: Report


def fresh(name: str, hp: dict[str, Any] | None = None, **how: Any) -> Run:
    """A method on five small clients that are as unequal as real ones, not yet started."""
    entry = methods()[name]
    net = how.pop("model", "tiny-bn" if "bn" in entry.needs else "tiny")
    scored = {"points": POINTS, "finetuned_every": 1}
    protocol = {"rounds": ROUNDS, "evaluation": scored, "participation": 1.0}
    protocol |= {key: how.pop(key) for key in list(how) if key in PROTOCOL}
    data = toys.toy_data(how.pop("sizes", SIZES))
    model = models.build(net, channels=1, size=8, classes=data.classes)
    recipe = toys.toy_recipe(clients=data.clients, **protocol)
    rule = build(name, {**entry.quick, **(hp or {})})
    return Run(rule, recipe, data, model, seed=0, **{"dtype": torch.float64, **how})


PROTOCOL = ("rounds", "evaluation", "participation", "lr_decay", "momentum", "batch", "epochs")


def computed(name: str, hp: dict[str, Any] | None = None, **how: Any) -> Run:
    """The whole run on the processor."""
    run = fresh(name, hp, **how)
    run.start()
    while not run.done:
        run.step()
    return run


def seen(
    name: str,
    hp: dict[str, Any] | None = None,
    fault: Callable[[], AbstractContextManager[Any]] | None = None,
    **how: Any,
) -> Seen:
    """The whole run on the impostor, with a fault or without."""
    with ExitStack() as held:
        if fault is not None:
            held.enter_context(fault())
        gc.freeze()  # to collect is quick then
        held.callback(gc.unfreeze)
        report = held.enter_context(gpu())
        run = fresh(name, hp, device="cuda", **how)
        phases(run, report)
        run.start()
        while not run.done:
            report.round = run.round + 1
            run.step()
            if run.round in (LATE - 1, LATE):
                gc.collect()  # what only waits for that is not alive
            report.alive[run.round] = torch.cuda.memory_allocated()
        report.round = 0
        for key, value in run.state.items():
            if not on_gpu(value):
                report.found("mismatch", f"state {key!r} is left on the cpu", name)
        run.state = {key: value.cpu() for key, value in run.state.items()}
    return Seen(run, report)


def phases(run: Run, report: Report) -> None:
    """Tell the report what a run is doing."""
    parts = ((run.method, "round", "train"), (run, "_score_start", "score"))
    for owner, name, phase in (*parts, (run, "_score_end", "score"), (run, "_check", "check")):
        setattr(owner, name, _within(report, phase, getattr(owner, name)))


def _within(report: Report, phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def inside(*args: Any, **kwargs: Any) -> Any:
        with report.during(phase):
            return call(*args, **kwargs)

    return inside


def differences(one: Run, other: Run) -> list[str]:
    """In what two runs differ beyond the last digits: states, and everything recorded but times."""
    found = [
        f"state {key!r} is off by {gap:.1e}"
        for key in one.state
        if not (gap := _gap(one.state[key], other.state[key])) < 1e-9
    ]
    rows = [
        {(round_, name): value for round_, name, value in run.rows if not name.startswith("time/")}
        for run in (one, other)
    ]
    if rows[0].keys() != rows[1].keys():
        found.append("not the same curves")
    return found + [
        f"curve {key} differs"
        for key in rows[0].keys() & rows[1].keys()
        if abs(rows[0][key] - rows[1][key]) > 1e-6 * max(1.0, abs(rows[0][key]))
    ]


def _gap(one: torch.Tensor, other: torch.Tensor) -> float:
    a, b = one.double(), other.double()
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-12)) if a.numel() else 0.0


LATE = 3
"""From this round on everything has been recorded and allocated."""


def faults(found: Seen, wanted: Run | None = None) -> set[str]:
    """What is wrong with a run on the impostor: kinds of findings, and what it should not do."""
    report, lanes = found.report, found.run.fed.lanes
    kinds = report.kinds()
    kinds |= {"refused"} if lanes is not None and lanes.refusals else set()
    kinds |= {"wrong"} if wanted is not None and differences(found.run, wanted) else set()
    kinds |= {"captures"} if report.total("captures", LATE) else set()
    return kinds | ({"grows"} if report.alive[LATE] > report.alive[LATE - 1] else set())
