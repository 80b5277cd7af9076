"""What every method must keep, checked on clients that are as awkward as real ones.

`check(name)` runs the whole contract on one registered method; the test suite runs it on all of
them, and `repfl methods NAME --contract` runs it on a third party's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import getsourcefile
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms import models
from repfl.algorithms.core.data import ClientData
from repfl.algorithms.core.method import build, methods
from repfl.algorithms.core.run import Run
from repfl.bench.errors import one_line
from repfl.bench.trust.tape import TapeLane
from repfl.bench.trust.toys import EVEN, RAGGED, other_tests, toy_data, toy_recipe
from repfl.bench.trust.wiretap import TappedRun, Wiretap

TOLERANCE = 1e-9
MODELS = ("tiny", "tiny-bn")
PARTICIPATION = (1.0, 0.5)


def gap(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Largest difference between two states, relative to the largest entry of each tensor."""
    if one.keys() != other.keys():
        raise ValueError(f"states differ in their tensors: {sorted(one)} and {sorted(other)}")
    pairs = [(a.double(), other[name].double()) for name, a in one.items() if a.numel()]
    return max(((a - b).abs().max() / a.abs().max().clamp(min=1e-12)).item() for a, b in pairs)


# -- the contract ----------------------------------------------------------------------------------


class Broken(Exception):
    """A promise is not kept."""


def keep(holds: bool, otherwise: str) -> None:
    """See that something holds; unlike `assert`, also where Python is told to optimise."""
    if not holds:
        raise Broken(otherwise)


@dataclass(frozen=True)
class Situation:
    """One setting in which the contract is checked."""

    method: str
    model: str
    participation: float
    hp: tuple[tuple[str, Any], ...] = ()

    def run(
        self,
        *,
        rounds: int | None = None,
        kind: type[Run] = Run,
        sizes: tuple[int, ...] = RAGGED,
        **how: Any,
    ) -> Run:
        """The method in this situation, after some rounds (default: all)."""
        run = self.fresh(kind=kind, sizes=sizes, **how)
        run.start()
        for _ in range(run.fed.rounds if rounds is None else rounds):
            run.step()
        return run

    def fresh(
        self,
        *,
        kind: type[Run] = Run,
        sizes: tuple[int, ...] = RAGGED,
        dealt: Callable[[tuple[int, ...]], ClientData] = toy_data,
        **how: Any,
    ) -> Run:
        """The method in this situation, not yet started; `how`: fields of the training protocol and
        of the lowering.
        """
        lowering = {name: how.pop(name) for name in ("chunk", "lanes", "lane") if name in how}
        data = dealt(sizes)
        model = models.build(self.model, channels=1, size=8, classes=data.classes)
        recipe = toy_recipe(clients=len(sizes), participation=self.participation, **how)
        return kind(
            build(self.method, dict(self.hp)),
            recipe,
            data,
            model,
            seed=0,
            dtype=torch.float64,
            **lowering,
        )


def finite(case: Situation) -> None:
    """States, scores and notes are finite numbers on clients with no sample, one sample, one
    class.
    """
    run = case.run()
    for name, tensor in run.state.items():
        keep(
            not tensor.is_floating_point() or bool(torch.isfinite(tensor).all()),
            f"state {name!r} is not finite",
        )
    keep(all(np.isfinite(value) for _, _, value in run.rows), "a recorded number is not finite")


def deterministic(case: Situation) -> None:
    """The same cell gives the same bits twice."""
    one, two = case.run(), case.run()
    keep(
        all(torch.equal(one.state[name], two.state[name]) for name in one.state), "two runs differ"
    )


def resumable(case: Situation) -> None:
    """A run restored after its first round ends with the bits of one that was never interrupted."""
    whole = case.run()
    halfway = case.run(rounds=1)
    resumed = case.fresh()
    resumed.restore({name: value.clone() for name, value in halfway.snapshot().items()})
    while not resumed.done:
        resumed.step()
    keep(
        all(torch.equal(whole.state[name], resumed.state[name]) for name in whole.state),
        "the resumed run differs",
    )
    timeless = [
        [row for row in run.rows if not row[1].startswith("time/")] for run in (whole, resumed)
    ]
    keep(timeless[0] == timeless[1], "the resumed curves differ")


def billed(case: Situation) -> None:
    """The ledger's bytes are the lengths of real encoded messages, and nobody learns from anybody
    else without them.
    """
    run = case.fresh(kind=TappedRun, chunk=len(RAGGED))
    traffic = _bytes(run)
    between_clients = (
        run.fed.ledger.edges is not None
    )  # then sender and receiver are both billed for one message
    lines = "traffic/up" if between_clients else "traffic/"
    bytes_billed = int(sum(value for _, name, value in run.rows if name.startswith(lines)))
    encoded = run.fed.wire if isinstance(run.fed, Wiretap) else -1
    keep(bytes_billed == encoded, f"billed {bytes_billed} bytes, encoded {encoded}")
    if case.participation == 1:
        _heard(case, run, traffic)


def _bytes(run: Run) -> dict[str, Tensor]:
    """Run to the end; bytes per client and direction."""
    run.start()
    traffic = {way: torch.zeros(run.fed.N, dtype=torch.int64) for way in ("up", "down")}
    while not run.done:
        run.step()
        for way, total in traffic.items():
            total += run.fed.ledger.round[f"{way}_values"] + run.fed.ledger.round[f"{way}_codes"]
    return traffic


def _heard(case: Situation, run: Run, traffic: dict[str, Tensor]) -> None:
    """Where a client's pictures are others, its own model may change; every other model that does
    has cost bytes on both sides.
    """
    teacher = int(np.argmax(RAGGED))

    def dealt(sizes: tuple[int, ...]) -> ClientData:
        data = toy_data(sizes)
        own = data.train[teacher]
        data.images[own] = 255 - data.images[own]  # now: a federation may have read them already
        return data

    other = case.fresh(chunk=len(RAGGED), dealt=dealt)
    _bytes(other)
    for one, two in zip(_personal(run), _personal(other), strict=True):
        learnt = ((one - two).abs().amax(1) > 0).cpu()
        learnt[teacher] = False
        keep(
            not learnt.any() or bool(traffic["up"][teacher] > 0),
            "clients learn from one that sends nothing",
        )
        keep(
            bool((traffic["down"][learnt] > 0).all()),
            "a client that receives nothing learns from another one",
        )


def _personal(run: Run) -> list[Tensor]:
    """The models that all clients are scored with  [N, D]; several where their predictions are
    mixed.
    """
    with run.fed.among(run.fed.everybody):
        personal = run.method.personal(run.state, run.fed)
    return [models for _, models in personal.parts] if hasattr(personal, "parts") else [personal]


def newcomers(case: Situation) -> None:
    """After one round with a small cohort, clients that never took part have a finite model of the
    right length.
    """
    run = replace(case, participation=1 / 6).run(rounds=1)
    for part in _personal(run):
        keep(part.shape == (run.fed.N, run.fed.D), f"personal() returned {tuple(part.shape)}")
        keep(
            bool(torch.isfinite(part).all()),
            "a client that never took part has a model that is not finite",
        )


def joinable(case: Situation) -> None:
    """Clients that join late have finite models of the right length, the same ones again, and leave
    everybody else's alone; or joining has no meaning.
    """
    run = case.run(rounds=1)
    before = {name: value.clone() for name, value in run.state.items()}
    again: list[list[Any]] = []
    for _ in range(2):
        late = run.fed.joined_by(run.fed.data)
        models = run.method.join(run.state, late)
        if models is None:
            return
        again.append([part for _, part in getattr(models, "parts", ((None, models),))])
    for one, two in zip(*again, strict=True):
        keep(one.shape == (late.N, late.D), f"join() returned {tuple(one.shape)}")
        keep(bool(torch.isfinite(one).all()), "a newcomer has a model that is not finite")
        keep(torch.equal(one, two), "joining twice gives two models")
    keep(
        all(torch.equal(before[name], run.state[name]) for name in before),
        "joining changed the state of the others",
    )


def blind(case: Situation) -> None:
    """Test images decide nothing: with other ones, states and models come out the same."""
    one, two = case.run(), case.run(dealt=other_tests)
    keep(
        all(torch.equal(one.state[name], two.state[name]) for name in one.state),
        "training depends on test images",
    )
    for first, second in zip(_personal(one), _personal(two), strict=True):
        keep(torch.equal(first, second), "the models that are scored depend on test images")


def chunk_free(case: Situation) -> None:
    """Training clients one by one, all at once and side by side agree to 1e-9 (float64)."""
    loop = case.run()
    for how in ({"chunk": 4}, {"chunk": len(RAGGED)}, {"lanes": 2, "lane": TapeLane}):
        difference = gap(loop.state, case.run(**how).state)
        keep(difference < TOLERANCE, f"{how} differs from one by one by {difference:.1e}")


def recordable(case: Situation) -> None:
    """A GPU may record a step and play it again: steps depend on their chunk and their batch, and
    on nothing that Python remembers.
    """
    if case.participation < 1:
        return  # who takes part changes no step
    recorded, plain = (
        case.run(rounds=2, sizes=EVEN, batch=4, lanes=2, lane=partial(TapeLane, records))
        for records in (True, False)
    )
    different = [
        name for name, value in recorded.state.items() if not torch.equal(value, plain.state[name])
    ]
    keep(not different, f"recorded steps give another {', '.join(different)}")


def lonely(case: Situation) -> None:
    """A federation of one client runs."""
    run = replace(case, participation=1.0).run(sizes=(12,))
    keep(
        all(bool(torch.isfinite(t).all()) for t in run.state.values() if t.is_floating_point()),
        "not finite with one client",
    )


def pure_scoring(case: Situation) -> None:
    """Scoring changes nothing: the same state gives the same models, whoever is asked together with
    whom.
    """
    run = case.run(rounds=2)
    before = {name: value.clone() for name, value in run.state.items()}
    whole: list[Tensor] = []
    halves: list[Tensor] = []
    for blocks, out in ((1, whole), (2, halves)):
        for block in run.fed.everybody.chunk(blocks):
            with run.fed.among(block):
                personal = run.method.personal(run.state, run.fed)
            out.append(
                torch.cat([m for _, m in personal.parts], 1)
                if hasattr(personal, "parts")
                else personal
            )
    keep(
        gap({"w": torch.cat(whole)}, {"w": torch.cat(halves)}) < TOLERANCE,
        "a client's model depends on who else is scored",
    )
    keep(
        all(torch.equal(before[name], run.state[name]) for name in before),
        "scoring changed the state",
    )


CONTRACT: tuple[Callable[[Situation], None], ...] = (
    finite,
    deterministic,
    resumable,
    billed,
    newcomers,
    joinable,
    blind,
    chunk_free,
    recordable,
    lonely,
    pure_scoring,
)


def situations(name: str) -> Iterator[Situation]:
    """Every situation in which a method is checked: with and without BN, everybody and half of the
    clients.
    """
    entry = methods()[name]
    for model in MODELS:
        if "bn" in entry.needs and model == "tiny":
            continue
        for participation in (1.0,) if "p2p" in entry.needs else PARTICIPATION:
            yield Situation(name, model, participation, tuple(entry.quick.items()))


def _where(error: BaseException, name: str) -> str:
    """The last line of the method's own file that led to an error."""
    file = getsourcefile(methods()[name].cls)
    lines = [each.lineno for each in extract_tb(error.__traceback__) if each.filename == file]
    return f" ({Path(file).name}:{lines[-1]})" if file and lines else ""


def check(
    name: str, promises: Sequence[Callable[[Situation], None]] = ()
) -> Iterator[tuple[str, Situation, str]]:
    """Run the contract, or some of it, on a method: (promise, situation, what is wrong or
    nothing).
    """
    for case in situations(name):
        for promise in promises or CONTRACT:
            try:
                promise(case)
            except Broken as error:
                yield promise.__name__, case, str(error)
            except (
                Exception,
                SystemExit,
            ) as error:  # a third party's method may fail in any way; the finding names it
                told = f"{type(error).__name__}: {one_line(error)}{_where(error, name)}"
                yield promise.__name__, case, told
            else:
                yield promise.__name__, case, ""
