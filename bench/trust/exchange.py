"""Promises of the contract about who learns what from whom: nothing without a message, nothing from
images that are kept for judging, nothing from who is away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.data import ClientData
from repfl.algorithms.core.evaluate import Mixture
from repfl.algorithms.core.method import methods
from repfl.algorithms.core.run import Run
from repfl.bench.trust.situations import Situation, keep, usual
from repfl.bench.trust.toys import RAGGED, held_apart, other_tests, toy_data, toy_recipe
from repfl.bench.trust.wiretap import (
    FilledRun,
    Judged,
    JudgedRun,
    TappedRun,
    Wiretap,
    Withheld,
    WithheldRun,
    flat,
)

LITTLE = 1e-6
"""By how much entries move that nobody hears of: no choice should hang on it, every bit does."""


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
    other = case.fresh(chunk=len(RAGGED), dealt=_negatives(teacher))
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


def _negatives(client: int) -> Callable[[tuple[int, ...]], ClientData]:
    """The same data, of which one client's training images are others."""

    def dealt(sizes: tuple[int, ...]) -> ClientData:
        data = toy_data(sizes)
        own = data.train[client]
        data.images[own] = 255 - data.images[own]  # now: a federation may have read them already
        return data

    return dealt


def _personal(run: Run) -> list[Tensor]:
    """The models that all clients are scored with  [N, D]; several where their predictions are
    mixed.
    """
    with run.fed.among(run.fed.everybody):
        return _parts(run.method.personal(run.state, run.fed))


def _parts(models: Tensor | Mixture) -> list[Tensor]:
    """Models without the weights that they are mixed with."""
    return [models] if isinstance(models, Tensor) else [part for _, part in models.parts]


def withheld(case: Situation) -> None:
    """What a client does not send nobody else learns: where its training gives these entries a
    little more and its messages are the same, so is everybody else's model.
    """
    first, had = _withheld(case)
    teacher = max(first.members, key=lambda client: RAGGED[client])
    entries = first.unsaid[teacher] & first.layout.learnable
    loops = int(first.loops[teacher])
    if first.told or not loops or not entries.any():
        return  # not all is in the messages, or all is sent
    second, have = _withheld(case, (teacher, loops, LITTLE * entries))
    if not _same(first.said[teacher], second.said[teacher]):
        return  # what is not sent decides about what is
    others = torch.arange(first.N) != teacher
    keep(
        all(torch.equal(a[others], b[others]) for a, b in zip(had, have, strict=True)),
        "clients learn entries of another one's model that no message carries: average what"
        " `fed.up` returns",
    )


def _withheld(
    case: Situation, moved: tuple[int, int, Tensor] | None = None
) -> tuple[Withheld, list[Tensor]]:
    """All rounds, the last one listened to, and the models that everybody has then."""
    run = case.run(kind=WithheldRun, rounds=toy_recipe().training.rounds - 1, chunk=len(RAGGED))
    assert isinstance(run.fed, Withheld)
    run.fed.listen(moved)
    run.step()
    return run.fed, _personal(run)


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
    again: list[list[Tensor]] = []
    for _ in range(2):
        late = run.fed.joined_by(run.fed.data)
        models = run.method.join(run.state, late)
        if models is None:
            return
        again.append(_parts(models))
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
    _unmoved(case, other_tests, "test images")


def set_apart(case: Situation) -> None:
    """Validation images decide nothing either: where there are some, all is as without, unless the
    method says otherwise.
    """
    if case.participation == 1 and not methods()[case.method].cls.asks_validation:
        said = "validation images; if it is meant to, say `asks_validation = True`"
        _unmoved(case, held_apart, said)


def _unmoved(case: Situation, dealt: Callable[[tuple[int, ...]], ClientData], what: str) -> None:
    """With other images what is trained, scored and given to newcomers comes out the same."""
    one, two = usual(case), case.run(kind=JudgedRun, dealt=dealt)
    keep(
        all(torch.equal(one.state[name], two.state[name]) for name in one.state),
        f"training depends on {what}",
    )
    keep(_same(_judged(one), _judged(two)), f"the models that are scored depend on {what}")
    keep(_same(_joined(one), _joined(two)), f"the models of newcomers depend on {what}")


def _judged(run: Run) -> list[Tensor]:
    """All models that were scored."""
    assert isinstance(run.fed, Judged)
    return run.fed.judged


def _joined(run: Run) -> list[Tensor]:
    """The models of clients that join; nothing where that has no meaning."""
    models = run.method.join(run.state, run.fed.joined_by(run.fed.data))
    return [] if models is None else flat(models)


def _same(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Whether two lists of tensors are equal to the bit."""
    return len(one) == len(other) and all(map(torch.equal, one, other))


def own_statistics(case: Situation) -> None:
    """Statistics that nobody sends stay their client's own: no model has the zeros that `fed.up`
    and `fed.down` leave in their place.
    """
    one, two = usual(case), case.run(kind=FilledRun)
    wrong = (
        "normalisation statistics come from a message that does not carry them: where"
        " `fed.exchanged` is false, keep the client's own, and initial ones for who joins"
    )
    keep(_same(_judged(one), _judged(two)), wrong)
    keep(_same(_joined(one), _joined(two)), wrong)


def absent(case: Situation) -> None:
    """Who is not called sends nothing: where its pictures are others, everybody else's model is
    the same.
    """
    one = case.run(rounds=1)
    away = set(range(one.fed.N)) - set(one.fed.members)
    if not away:
        return
    teacher = max(away, key=lambda client: RAGGED[client])
    two = case.run(rounds=1, dealt=_negatives(teacher))
    others = torch.arange(one.fed.N) != teacher
    keep(
        all(
            torch.equal(a[others], b[others])
            for a, b in zip(_personal(one), _personal(two), strict=True)
        ),
        "clients learn from one that was not called in this round",
    )
