"""What every method must keep, checked on clients that are as awkward as real ones.

`check(name)` runs the whole contract on one registered method; the test suite runs it on all of
them, and `repfl methods NAME --contract` runs it on a third party's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from inspect import getsourcefile
from pathlib import Path
from traceback import extract_tb

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.method import methods
from repfl.bench.errors import one_line
from repfl.bench.trust.exchange import absent as absent
from repfl.bench.trust.exchange import billed as billed
from repfl.bench.trust.exchange import blind as blind
from repfl.bench.trust.exchange import joinable as joinable
from repfl.bench.trust.exchange import newcomers as newcomers
from repfl.bench.trust.exchange import own_statistics as own_statistics
from repfl.bench.trust.exchange import set_apart as set_apart
from repfl.bench.trust.exchange import withheld as withheld
from repfl.bench.trust.situations import Broken as Broken
from repfl.bench.trust.situations import Situation as Situation
from repfl.bench.trust.situations import keep, usual
from repfl.bench.trust.situations import situations as situations
from repfl.bench.trust.tape import TapeLane
from repfl.bench.trust.toys import EVEN, RAGGED
from repfl.bench.trust.wiretap import flat

TOLERANCE = 1e-9


def gap(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Largest difference between two states, relative to the largest entry of each tensor."""
    if one.keys() != other.keys():
        raise ValueError(f"states differ in their tensors: {sorted(one)} and {sorted(other)}")
    pairs = [(a.double(), other[name].double()) for name, a in one.items() if a.numel()]
    return max(((a - b).abs().max() / a.abs().max().clamp(min=1e-12)).item() for a, b in pairs)


# -- the contract ----------------------------------------------------------------------------------


def finite(case: Situation) -> None:
    """States, scores and notes are finite numbers on clients with no sample, one sample, one
    class.
    """
    run = usual(case)
    for name, tensor in run.state.items():
        keep(
            not tensor.is_floating_point() or bool(torch.isfinite(tensor).all()),
            f"state {name!r} is not finite",
        )
    keep(all(np.isfinite(value) for _, _, value in run.rows), "a recorded number is not finite")


def scored(case: Situation) -> None:
    """There is a score after local training: recipes may report it."""
    keep(
        any(name == "pre_agg/mean" for _, name, _ in usual(case).rows),
        "nothing is scored after local training: `fed.train` sees to it; beside `fed.loop` say"
        ' fed.score("pre_agg", models)',
    )


def deterministic(case: Situation) -> None:
    """The same cell gives the same bits twice."""
    one, two = usual(case), case.run()
    keep(
        all(torch.equal(one.state[name], two.state[name]) for name in one.state), "two runs differ"
    )


def resumable(case: Situation) -> None:
    """A run restored after its first round ends with the bits of one that was never interrupted."""
    whole = usual(case)
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


def chunk_free(case: Situation) -> None:
    """Training clients one by one, all at once and side by side agree to 1e-9 (float64)."""
    loop = usual(case)
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
                scored = run.method.for_scoring(run.state, run.fed)
            keep(
                all(map(torch.equal, flat(scored), flat(personal))),
                "clients are scored with other models than their own",
            )
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
    scored,
    deterministic,
    resumable,
    billed,
    withheld,
    newcomers,
    joinable,
    blind,
    set_apart,
    own_statistics,
    absent,
    chunk_free,
    recordable,
    lonely,
    pure_scoring,
)


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
