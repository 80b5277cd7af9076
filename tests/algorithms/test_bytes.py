"""What participants send and receive. The contract proves that bills are true, the gate that they
do not change; here stands, by hand, what is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from repfl.algorithms import star_pfl
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.params import Params
from repfl.algorithms.math.sparse import erk_counts
from tests.algorithms import peers, toys

Options = dict[str, Any]
WAYS = ("up", "down")


def body(p: Params) -> int:
    """Parameters but the head's."""
    return int((p.learnable & p.body).sum())


def with_gaussians(p: Params) -> int:
    """A body, class means and half of a covariance matrix."""
    return body(p) + 4 * 32 + 32 * 33 // 2


SENT: list[tuple[str, Options, str, Callable[[Params], int]]] = [
    ("apfl", {}, "local", lambda p: p.parameters),
    ("ditto", {}, "local", lambda p: p.parameters),
    ("fedala", {}, "local", lambda p: p.parameters),
    ("fedamp", {}, "local", lambda p: p.parameters),
    ("fedavg", {}, "local", lambda p: p.parameters),
    ("fedavg", {}, "global", lambda p: p.size),
    ("fedbabu", {}, "local", body),
    ("fedbn", {}, "local", lambda p: p.parameters - int(p.norm.sum())),
    ("feddpa", {"training": "joint"}, "local", lambda p: p.parameters),
    ("feddpa", {"training": "phases"}, "local", lambda p: p.parameters),
    ("fedobp", {"decoupling": "client"}, "local", lambda p: p.parameters),
    ("fedobp", {"score": "fisher"}, "local", lambda p: p.parameters),
    ("fedper", {}, "local", body),
    ("fedprox", {}, "local", lambda p: p.parameters),
    ("fedrep", {}, "local", body),
    ("lg-fedavg", {"shared": "last"}, "local", lambda p: int(p.head.sum())),
    ("local", {}, "local", lambda p: 0),
    ("per-fedavg", {}, "local", lambda p: p.parameters),
    ("pfedfda", {}, "local", with_gaussians),
    ("pfedhn", {"hidden": 8}, "local", lambda p: p.parameters),
    ("pfedme", {"inner_steps": 2}, "local", lambda p: p.parameters),
    ("scaffold", {}, "local", lambda p: 2 * p.parameters),
]
"""Methods of which it is always the same number of floats, both ways."""


@pytest.mark.parametrize(("method", "hp", "buffers", "floats"), SENT)
def test_every_participant_sends_and_receives(
    method: str, hp: Options, buffers: str, floats: Callable[[Params], int]
) -> None:
    few: Options = {"sizes": (9, 8, 7, 6), "participation": 0.5}  # samples do not matter
    run = toys.run(method, hp, model="tiny-bn", buffers=buffers, **few)
    for way in WAYS:
        assert toys.traffic(run, f"{way}_values") == [4 * run.fed.K * floats(run.fed.params)] * 3
        assert toys.traffic(run, f"{way}_codes") == [0] * 3


# -- round by round --------------------------------------------------------------------------------

Lines = dict[str, list[Any]]


def both(values: list[Any], codes: list[Any]) -> Lines:
    return {
        f"{way}_{what}": line
        for way in WAYS
        for what, line in zip(("values", "codes"), (values, codes), strict=True)
    }


def bitmap(entries: int) -> int:
    return (entries + 7) // 8


def fedper(run: Run) -> Lines:
    """Who is here for the first time receives the average head, too; everybody sends one."""
    head, sent, down = 32 * 4 + 4, run.fed.params.parameters, []
    seen: set[int] = set()
    for round_ in (1, 2, 3):
        run.fed.begin(round_)
        new = set(run.fed.active_ids) - seen
        down.append(4 * (3 * (sent - head) + head * len(new)))
        seen |= new
    assert len(seen) < 9  # somebody came twice
    return {"up_values": [4 * 3 * sent] * 3, "down_values": down}


def fedcac(run: Run) -> Lines:
    """Model and bitmap up; down, after beta, what is not critical. Ties add critical entries."""
    size, whole = run.fed.params.parameters, 4 * 4 * run.fed.params.parameters
    halves = sum(int(0.5 * s.size) for s in run.fed.params if s.kind != "stat")
    down = [whole, whole, pytest.approx(4 * 4 * (size - halves), rel=0.02)]
    up = {"up_values": [whole] * 3, "up_codes": [4 * bitmap(size)] * 3}
    return up | {"down_values": down, "down_codes": [0] * 3}


def fedpurin(run: Run) -> Lines:
    """As many values as masks have ones."""
    ones = int(run.fed.masks_counted["mask"].sum())
    processed = int((run.fed.params.learnable & ~run.fed.params.norm).sum())
    halves = 4 * sum(int(0.5 * s.size) for s in run.fed.params if s.kind not in ("norm", "stat"))
    # dead units of the toy net are cut off
    assert ones >= halves if run.method.hp.cutoff == "off" else ones < halves
    return {"up_values": [4 * ones], "up_codes": [4 * bitmap(processed)]}


def fedpurins_own(run: Run) -> Lines:
    """Nothing comes down after beta; an entry that is critical and zero is no news."""
    first = toys.traffic(run, "down_values")[0]
    assert 0 < first <= toys.traffic(run, "up_values")[0]
    return {"down_values": [first, 0.0, 0.0]}


def dfedavgm(run: Run) -> Lines:
    """A model, or a quantised change and the size of its largest entry, per neighbour."""
    size, bits = run.fed.params.parameters, run.method.hp.bits
    words = -(-size * bits // 32) + 1 if bits else size
    return both([4 * words * 2 * run.fed.N] * 3, [0] * 3)


def dfedpgp(run: Run) -> Lines:
    """A body, and its mass, per neighbour."""
    floats = int((~run.fed.params.head).sum()) + run.method.hp.push_sum
    return both([4 * floats * 2 * run.fed.N] * 3, [0] * 3)


def dis_pfl(run: Run) -> Lines:
    """Entries and a bitmap per neighbour."""
    entries, sends = sum(erk_counts(run.fed.params, 0.3).values()), 2 * run.fed.N
    codes = bitmap(run.fed.params.parameters) * sends
    return both([4 * entries * sends] * 3, [codes] * 3)


def fedap(run: Run) -> Lines:
    """Everything but normalisation, and once the pretrained model and statistics of 24 channels."""
    layout = run.fed.params
    shared = 4 * 3 * (layout.parameters - int(layout.norm.sum()))
    up = [shared + 4 * 6 * 2 * (8 + 16), shared]
    return both(up, [0] * 2) | {"down_values": [shared + 4 * 6 * layout.size, shared]}


def fedfomo(run: Run) -> Lines:
    """Models of the others, once they have uploaded one; a number for each of them."""
    floats = 4 * run.fed.params.parameters
    down = [0, 6 * 5 * floats, 6 * 5 * floats]
    return {"down_values": down, "up_values": [6 * (floats + 4 * 6)] * 3}


def fedobp(run: Run) -> Lines:
    """What is not personal, and where that is: by positions if they are few."""
    size, q = run.fed.params.parameters, run.method.hp.q
    personal = [int(value) for _, name, value in run.rows if name == "note/personal"]
    expected = -(-(size - 1) * (1000 - int(1000 * q)) // 1000)
    assert personal == [0, expected, expected]
    assert (4 * expected < bitmap(size)) == (q > 0.9)
    return {
        "up_values": [4 * 4 * size] * 3,
        "up_codes": [0] * 3,
        "down_values": [4 * 4 * (size - number) for number in personal],
        "down_codes": [4 * min(bitmap(size), 4 * number) for number in personal],
    }


def fedpac(run: Run) -> Lines:
    """Up: two sets of class means, counts and a variance; down: the last means."""
    size, means = run.fed.params.parameters, 4 * 32
    up, down = [4 * 3 * (size + 2 * means + 1 + 4)] * 2, [4 * 3 * size, 4 * 3 * (size + means)]
    return both(up, [0] * 2) | {"down_values": down}


def fedproto(run: Run) -> Lines:
    """Means of a client's classes up, those of known classes down, and a bit per class."""
    fed = run.fed
    labels = [set(fed.data.labels[part].tolist()) for part in fed.data.train]
    width = fed.params.head_weight.shape[1]
    held, known = sum(map(len, labels)), len(set.union(*labels))
    up, down = 4 * held * width, 4 * fed.K * known * width
    return both([up] * 2, [fed.K] * 2) | {"down_values": [0, down]}


def fedselect(run: Run) -> Lines:
    """Shared entries and the bitmap of what may be masked."""
    size = run.fed.params.parameters
    weights = sum(s.size for s in run.fed.params if s.name.endswith("weight"))
    values = [4 * 4 * size]
    for _ in (2, 3):
        values.append(4 * (4 * size - int(run.state["mask"].sum())))
        run.step()
    assert values[2] < values[0]
    return both(values, [4 * bitmap(size if run.method.hp.mode == "paper" else weights)] * 3)


def floco(run: Run) -> Lines:
    """All endpoints; once, everybody's for the projection, and everybody's place."""
    floats = run.fed.params.parameters + 2 * run.fed.params.head_weight.size
    up = [4 * 2 * floats, 4 * 6 * floats, 4 * 2 * floats]
    return both(up, [0] * 3) | {"down_values": [up[0], up[1] + 4 * 4 * 3, up[2]]}


def flute(run: Run) -> Lines:
    """Body and weight of the head; up, a bit per class."""
    params = run.fed.params
    floats = params.parameters - int(params.head.sum()) + 4 * 32
    return both([4 * 4 * floats] * 3, [0] * 3) | {"up_codes": [4] * 3}


def ifca(run: Run) -> Lines:
    """All models down, one up with its number."""
    floats = run.fed.K * run.fed.params.parameters
    return {"down_values": [4 * 3 * floats] * 3, "up_values": [4 * (floats + run.fed.K)] * 3}


def lora(run: Run) -> Lines:
    """Both factors of every layer, or the first."""
    layers = 4 * [(192, 64), (64, 64), (128, 64), (64, 128)]
    two = run.method.hp.shared == "both"
    floats = sum(2 * into + (2 * out if two else 0) for out, into in layers)
    return both([4 * 2 * floats] * 2, [0] * 2)


def lotteryfl(run: Run) -> Lines:
    """Kept weights and all biases, as the masks are before and after; up, the mask."""
    values = []
    for _ in range(2):
        values.append(4 * int((run.state["mask"] & run.fed.params.learnable).sum()))
        run.step()
    codes = 6 * bitmap(sum(s.size for s in run.fed.params.weights))
    return {"down_values": [None, *values], "up_codes": [codes] * 3, "down_codes": [0] * 3}


def pfeddst(run: Run) -> Lines:
    """Extractors of two peers, everybody's header, probes of two; of these what selection reads.
    First, everybody tells everybody the loss of the common model.
    """
    size, head, clients = run.fed.D, int(run.fed.params.head.sum()), run.fed.N
    hp, others = run.method.hp, clients * (clients - 1)
    probes = hp.selection == "score" and hp.alpha > 0
    parts = {"extractor": 2 * (size - head) * clients}
    parts["header"] = head * others * (hp.selection != "random")
    parts["probe"] = 2 * (size + 1) * clients * probes
    for part, floats in parts.items():
        assert peers.notes(run, f"bytes/{part}") == [4.0 * floats] * 3
    total = 4.0 * sum(parts.values())
    return both([total + 4.0 * others * probes, total, total], [0] * 3)


def star(run: Run) -> Lines:
    """Entries that are active on both sides, and statistics that are averaged; two bitmaps."""
    parts = [(name.partition("."), tensor) for name, tensor in run.state.items()]
    held = {field: tensor for (who, _, field), tensor in parts if who == "server"}
    server, params = star_pfl.Tracker(**held), run.fed.params
    server.update_activity(params, 0.5)  # as the next round begins
    open_ = server.active.clone()
    run.step()
    sent = int((open_ & run.state["client.active"] & params.learnable).sum())
    stats = int(params.stats.sum()) if run.fed.protocol.buffers == "global" else 0
    assert sent < 6 * params.parameters
    up, down = 4 * (sent + 6 * stats), 4 * 6 * (params.parameters + stats)
    codes = [None, None, 6 * bitmap(params.parameters)]
    return both([None, None, up], codes) | {"down_values": [None, None, down]}


BN: Options = {"model": "tiny-bn"}
EQUAL: Options = {"sizes": toys.EQUAL}
PAPERS = {"graph": "regular", "order": "train-gossip", "degree": 2}
HALVES = {"server_threshold": 0.5, "client_threshold": 0.5}
TALLIED = BN | EQUAL | {"rounds": 1, "evaluation": {"tallies": ("mask",)}}
HALF: Options = {"participation": 0.5}
ROUNDS: list[tuple[Callable[[Run], Lines], str, Options, Options]] = [
    (fedper, "fedper", {"newcomer": "global"}, HALF),
    (fedcac, "fedcac", {"beta": 2}, BN | EQUAL),
    *((fedpurin, "fedpurin", {"cutoff": cutoff}, TALLIED) for cutoff in ("off", "empty")),
    (fedpurins_own, "fedpurin", {"rest": "own", "beta": 1}, BN | EQUAL),
    (dfedavgm, "dfedavgm", PAPERS, {}),
    (dfedavgm, "dfedavgm", PAPERS | {"bits": 5}, {}),
    *((dfedpgp, "dfedpgp", {"degree": 2, "push_sum": own}, {}) for own in (True, False)),
    (dis_pfl, "dis-pfl", {"density": 0.3, "degree": 2}, {}),
    (fedap, "fedap", {"pretrain_epochs": 2}, BN | HALF | {"rounds": 2}),
    (fedfomo, "fedfomo", {"models": 9}, BN | {"sizes": (25, 16, 9, 40, 12, 20)}),
    *((fedobp, "fedobp", {"q": q}, EQUAL | {"dtype": torch.float64}) for q in (0.999, 0.5)),
    (fedpac, "fedpac", {}, HALF | {"rounds": 2}),
    (fedproto, "fedproto", {}, {"sizes": (24, 16, 8, 16), "rounds": 2}),
    *(
        (fedselect, "fedselect", {"mode": mode, "every": 1}, BN | EQUAL | {"rounds": 1})
        for mode in ("paper", "code")
    ),
    (floco, "floco", {"endpoints": 3, "tau": 1}, EQUAL | HALF),
    (flute, "flute", {}, EQUAL),
    (ifca, "ifca", {"clusters": 3}, BN | HALF),
    *(
        (lora, "lora", {"rank": 2, "shared": of}, {"model": "vit4", "sizes": (16, 8), "rounds": 2})
        for of in ("both", "a")
    ),
    *(
        (lotteryfl, "lotteryfl", {"start": 0.0, "judge": "test", "share": 0.2}, {"rounds": 1} | bn)
        for bn in ({}, BN)
    ),
    *(
        (pfeddst, "pfeddst", {"degree": 2} | hp, {})
        for hp in ({}, {"selection": "random"}, {"selection": "header"}, {"alpha": 0.0})
    ),
    *((star, "star-pfl", HALVES, BN | {"rounds": 2, "buffers": b}) for b in ("global", "local")),
]


@pytest.mark.parametrize(
    ("expected", "method", "hp", "how"), ROUNDS, ids=[f"{m} {hp}" for _, m, hp, _ in ROUNDS]
)
def test_messages_of_every_round(
    expected: Callable[[Run], Lines], method: str, hp: Options, how: Options
) -> None:
    run = toys.run(method, hp, **how)
    for line, values in expected(run).items():
        found = toys.traffic(run, line)
        assert len(found) == len(values)
        for one, value in zip(found, values, strict=True):
            assert value is None or one == value, line
