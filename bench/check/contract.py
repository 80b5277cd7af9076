"""The contract of a method, checked on difficult toy clients.

`check(name)` runs the contract on a registered method. Its promises: numbers are finite; the same
cell gives the same bits, also after a resume; rounds change models; stacked clients agree with a
loop; the order of clients changes nothing; bytes billed are bytes encoded; what is not sent is not
learnt; absent clients have no effect; test images decide nothing; unseen clients have models;
scoring changes nothing; nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from repfl.algorithms.core.method import methods
from repfl.algorithms.core.run import Diverged, Run
from repfl.algorithms.core.subfederations import newcomer_federation
from repfl.algorithms.engine.client_data import ClientData
from repfl.bench.check.recording import FilledRun, RecordedRun, ReversedRun, flat
from repfl.bench.check.situation import (
    Situation,
    client_models,
    gap,
    recording,
    same,
    situations,
    usual,
)
from repfl.bench.check.toy_clients import RAGGED, SHORT, toy_data, with_other_tests, with_validation
from repfl.bench.errors import one_line, with_class
from repfl.bench.grid.plugins import line_in
from repfl.bench.grid.torch_state import changed_setting, preserve_random_state, settings
from repfl.datasets.core.recipe import Recipe

TOLERANCE = 1e-9


class Broken(Exception):
    """A promise is broken."""


def require(condition: bool, message: str) -> None:
    """Raise `Broken` unless a condition holds."""
    if not condition:
        raise Broken(message)


# -- the promises ----------------------------------------------------------------------------------


def finite(case: Situation) -> None:
    """States, scores and logged numbers are finite on clients with no sample, one, one class."""
    run = usual(case)
    for name, tensor in run.state.items():
        fine = not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
        require(fine, f"state {name!r} is not finite")
    require(all(np.isfinite(value) for _, _, value in run.rows), "a recorded number is not finite")
    require(
        any(name == "pre_agg/mean" for _, name, _ in run.rows),
        "nothing is scored after local training: `fed.train` sees to it, unless `scored` is False;"
        ' else write fed.score("pre_agg", models)',
    )


def repeatable(case: Situation) -> None:
    """A run gives the same bits the second time: all randomness is drawn from the cell's seed, and
    none from a global generator.
    """
    before = settings()
    with preserve_random_state():
        one, two = usual(case), case.run(kind=RecordedRun)
        change = changed_setting(before)
    require(not change, f"changes {change}; random numbers come from fed.rng(PURPOSE)")
    different = [n for n, v in one.state.items() if not torch.equal(v, two.state[n])]
    require(
        not different,
        f"the same cell, computed again, gives another {', '.join(different)}: draw from"
        " fed.rng(PURPOSE)",
    )


def resumable(case: Situation) -> None:
    """A run restored after its first round ends with the bits of one that was never interrupted."""
    whole, halfway, resumed = usual(case), case.run(rounds=1), case.fresh()
    resumed.restore({name: value.clone() for name, value in halfway.snapshot().items()})
    while not resumed.done:
        resumed.step()
    different = [n for n, v in whole.state.items() if not torch.equal(v, resumed.state[n])]
    require(
        not different,
        f"the same cell, resumed, gives another {', '.join(different)}: keep what"
        " the next round needs in the state that `round` returns, not on self",
    )
    timeless = [
        [row for row in run.rows if not row[1].startswith("time/")] for run in (whole, resumed)
    ]
    require(timeless[0] == timeless[1], "the same cell, resumed, gives other curves")


def learning(case: Situation) -> None:
    """Rounds change the models that clients are scored with."""
    run = case.fresh()
    run.start()
    require(
        not same(client_models(run), client_models(usual(case))),
        "no round changes any client's model: `round` returns the next state, with what `fed.train`"
        " and `fed.mean` returned",
    )


def stacked(case: Situation) -> None:
    """Training clients one by one and stacked agree to 1e-9 (float64)."""
    distance = gap(usual(case).state, case.run(stack=len(RAGGED)).state)
    require(distance < TOLERANCE, f"stacked clients differ from single ones by {distance:.1e}")


def ordered(case: Situation) -> None:
    """The order of the cohort changes no client's model and no score: rows stay with their clients,
    and what is drawn for a client is drawn by its id.
    """
    if methods()[case.method].cls.decentralised:
        return
    one, two = usual(case), case.run(kind=ReversedRun)
    distance = gap(one.state, two.state)
    require(
        distance < TOLERANCE,
        f"a cohort in descending order gives states that differ by {distance:.1e}: index rows with"
        " [fed.active], and draw for each client from fed.rng(PURPOSE, client)",
    )
    require(sorted(one.counts) == sorted(two.counts), "scores depend on the order of the cohort")


def billed(case: Situation) -> None:
    """Bytes billed are bytes of messages that were encoded for real; some are sent if the state
    has a part that is not the clients' own.
    """
    run = usual(case)
    billed_bytes = sum(v for _, name, v in run.rows if name.startswith("traffic/up"))
    billed_bytes += sum(v for _, name, v in run.rows if name.startswith("traffic/down"))
    edges = run.fed.network.ledger.edges
    encoded = recording(run).encoded * (1 if edges is None else 2)  # a message leaves and arrives
    require(billed_bytes == encoded, f"{billed_bytes:.0f} bytes are billed, {encoded} were encoded")


def unsent(case: Situation) -> None:
    """Nothing is learnt from a client except through its messages: with these replayed, its trained
    models and its rows of the state may be anything.
    """
    first, second = (_recording(case) for _ in range(2))
    first.step()
    teacher = max(first.fed.active_ids, key=lambda client: RAGGED[client])
    for name, value in second.state.items():
        if _rows(second, name) and value.is_floating_point():
            second.state[name] = value.clone()
            second.state[name][teacher] += 0.01
    recording(second).replay(recording(first), "up", teacher)
    second.step()
    wrong = _moved(first, second, teacher)
    require(
        not wrong,
        f"{', '.join(wrong)} learns from a client what no message carries: compute with what"
        " fed.up, fed.gossip and fed.send return",
    )


def unreceived(case: Situation) -> None:
    """Clients train only with what the server sends: with downloads replayed, the server's state
    may be anything.
    """
    first, second = (_recording(case) for _ in range(2))
    for name, value in second.state.items():
        if not _rows(second, name) and value.is_floating_point():
            second.state[name] = value + 0.01
    first.step()
    recording(second).replay(recording(first), "down")
    second.step()
    coded = recording(first).coded_down
    require(
        coded or same(recording(first).trained_from, recording(second).trained_from),
        "clients train with a part of the server's state that no message carries: use what"
        " fed.down and fed.send return",
    )


def _recording(case: Situation) -> Run:
    """Return a run after its first round, whose messages are recorded from now on."""
    run = case.run(kind=RecordedRun, rounds=1)
    recording(run).restart()
    return run


def _rows(run: Run, name: str) -> bool:
    """Return whether a part of the state has a row for each client, stored by the client."""
    return run.method.lies_with_clients(name, run.state[name], run.fed.N)


def _moved(one: Run, other: Run, client: int) -> list[str]:
    """Return the parts of the state that differ in more than a client's own row."""
    others = torch.arange(one.fed.N) != client
    changed = []
    for name, value in one.state.items():
        first, second = (v[others] if _rows(one, name) else v for v in (value, other.state[name]))
        if not torch.equal(first, second):
            changed.append(f"state {name!r}")
    return changed


def absent(case: Situation) -> None:
    """A client that is not sampled has no effect: with other images and another state of its own,
    everything else stays the same.
    """
    one = case.run(rounds=1)
    absent_clients = sorted(set(range(one.fed.N)) - set(one.fed.active_ids))
    if not absent_clients:
        return
    teacher = max(absent_clients, key=lambda client: RAGGED[client])
    two = case.run(rounds=1, data_for=_negatives(teacher))
    others = torch.arange(one.fed.N) != teacher
    pairs = zip(client_models(one), client_models(two), strict=True)
    require(
        all(torch.equal(a[others], b[others]) for a, b in pairs),
        "clients learn from one that was not sampled",
    )
    disturbed = case.run(rounds=1)
    one.step()
    disturbed.fed.begin(2)
    not_sampled = [client for client in range(one.fed.N) if client not in disturbed.fed.active_ids]
    for name, value in disturbed.state.items():
        if _rows(disturbed, name) and not_sampled and value.is_floating_point():
            value[not_sampled[0]] += 0.01
    disturbed.step()
    wrong = _moved(one, disturbed, not_sampled[0]) if not_sampled else []
    require(
        not wrong,
        f"{', '.join(wrong)} depends on the row of a client that was not sampled: index the rows of"
        " a state with [fed.active]",
    )


def _negatives(client: int) -> Callable[[tuple[int, ...]], ClientData]:
    def data_for(sizes: tuple[int, ...]) -> ClientData:
        data = toy_data(sizes)
        images, index = data.images.clone(), data.train[client]
        images[index] = 255 - images[index]
        return replace(data, images=images)

    return data_for


def blind(case: Situation) -> None:
    """Test images affect nothing, nor do validation images unless `uses_validation` says so."""
    _unmoved(case, with_other_tests, "test images")
    if not methods()[case.method].cls.uses_validation and case.participation == 1:
        what = "validation images; if it is meant to: `uses_validation = True`"
        _unmoved(case, with_validation, what)


def _unmoved(case: Situation, data_for: Callable[[tuple[int, ...]], ClientData], what: str) -> None:
    one, two = usual(case), case.run(kind=RecordedRun, data_for=data_for)
    different = [n for n, v in one.state.items() if not torch.equal(v, two.state[n])]
    require(not different, f"training depends on {what}")
    require(same(recording(one).scored, recording(two).scored), f"scored models depend on {what}")


def statistics(case: Situation) -> None:
    """Batch-norm statistics that are not sent stay a client's own: no model contains the zeros that
    messages have in their place.
    """
    one, two = usual(case), case.run(kind=FilledRun)
    require(
        same(recording(one).scored, recording(two).scored),
        "batch-norm statistics come from a message that does not carry them: where"
        " `fed.communicated` is false, keep the client's own",
    )


def newcomers(case: Situation) -> None:
    """Clients that never took part, and unseen ones, have finite models; giving them these changes
    nothing.
    """
    run = replace(case, participation=1 / 6).run(rounds=1)
    for part in client_models(run):
        fine = bool(torch.isfinite(part).all())
        require(fine, "a client that never took part has no finite model")
    before = {name: value.clone() for name, value in run.state.items()}
    models = []
    for _ in range(2):
        newcomer_fed = newcomer_federation(run.fed, run.fed.data)
        params = run.method.newcomer_params(run.state, newcomer_fed)
        if params is None:
            return
        models.append(flat(params))
    require(same(*models), "unseen clients get another model the second time")
    require(
        all(bool(torch.isfinite(part).all()) for part in models[0]),
        "an unseen client has a model that is not finite",
    )
    require(
        all(torch.equal(before[name], run.state[name]) for name in before),
        "giving unseen clients a model changes the state",
    )


def pure_scoring(case: Situation) -> None:
    """Scoring changes nothing, and a client's model does not depend on which others are scored."""
    run = case.run(rounds=2)
    before = {name: value.clone() for name, value in run.state.items()}
    whole, halves = client_models(run), []
    for block in (range(3), range(3, run.fed.N)):
        with run.fed.as_active(block):
            halves.append(flat(run.scored_models()))
    joined = [torch.cat(parts) for parts in zip(*halves, strict=True)]
    apart = max(gap({"": a}, {"": b}) for a, b in zip(whole, joined, strict=True))
    require(apart < TOLERANCE, "a client's model depends on who else is scored")
    require(
        all(torch.equal(before[name], run.state[name]) for name in before),
        "scoring changed the state",
    )


def device(case: Situation) -> None:
    """A round runs on the device `meta`, which refuses whatever would make a GPU wait: `.item()`,
    `.tolist()`, `bool()`, shapes that depend on values, tensors made on the wrong device.
    """
    try:
        for stack in (1, len(SHORT)):
            case.run(rounds=2, device="meta", stack=stack, sizes=SHORT)
    except (RuntimeError, NotImplementedError) as error:
        text = f"a GPU would have to wait, or tensors of two devices meet: {one_line(error)}"
        help_ = (
            "make tensors with device=fed.device, read values through fed.to_host, and take rows by"
            " their positions, not by a mask"
        )
        raise Broken(f"{text}{line_in(error)}; {help_}") from error


CONTRACT: tuple[Callable[[Situation], None], ...] = (
    repeatable,
    finite,
    learning,
    resumable,
    stacked,
    ordered,
    billed,
    unsent,
    unreceived,
    absent,
    blind,
    statistics,
    newcomers,
    pure_scoring,
    device,
)


def vacuous(case: Situation) -> str:
    """Return why the contract says little in a situation; empty if it does."""
    seen, family = recording(usual(case)), methods()[case.method].family
    empty = set(seen.empty)
    if not seen.encoded and family != "local":
        empty = {"nothing is sent"}
    if not seen.trained_from:
        empty.add("nothing is trained")
    if not seen.masked and family == "mask":
        empty.add("nothing is masked")
    return " and ".join(sorted(empty))


def check(
    name: str,
    promises: Sequence[Callable[[Situation], None]] = (),
    model: str | None = None,
    recipe: tuple[str, Recipe] | None = None,
) -> Iterator[tuple[str, Situation, str]]:
    """Yield (promise, situation, problem or "") for the contract, or for some promises, of a
    method. If the method fails, or does not repeat itself, nothing else is checked.
    """
    torch.set_num_threads(1)
    for case in situations(name, model, recipe):
        for promise in promises or CONTRACT:
            wrong = ""
            try:
                promise(case)
            except Broken as error:
                wrong = str(error)
            except (Exception, SystemExit) as error:  # a method of others may fail in any way
                diverged = "diverged on toys: " if isinstance(error, Diverged) else ""
                wrong = f"{diverged}{with_class(error)}{line_in(error)}"
            yield promise.__name__, case, wrong
            if wrong and promise is repeatable:
                break
