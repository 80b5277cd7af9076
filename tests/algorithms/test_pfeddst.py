"""pfeddst: scores, limiting cases, a plain transcription, the figure-2 diagnostic."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from repfl.algorithms.pfeddst import PFedDST
from tests.algorithms import peers, plain, toys

DOUBLE: dict[str, Any] = {"dtype": torch.float64, "sizes": peers.SIZES}
SGD = {"momentum": 0.9, "weight_decay": 0.01, "lr_decay": 0.9}


def phase(
    run: Run, w: Tensor, client: int, round_: int, part: Tensor, head_lr: float | None = None
) -> Tensor:
    """Two epochs of the extractor, then one of the header at its own learning rate, which sees the
    extractor as it is when scored.
    """
    lr, decay = run.fed.protocol.lr, run.fed.protocol.lr_decay ** (round_ - 1)
    how: dict[str, Any] = {"trainable": part, "epochs": 2, "lr": lr * decay}
    if head_lr is not None:
        how |= {"epochs": 1, "first": 2, "lr": head_lr * decay, "loss": plain.still}
    return plain.train(run.fed, w, client, round_, **how)[0]


def probe_loss(run: Run, w: Tensor, peer: int, most: int) -> float:
    own = run.fed.data.train[peer]
    some = own[torch.arange(min(len(own), most)) * len(own) // min(len(own), most)]
    return float(
        plain.still(plain.named(run.fed, w), run.fed.data.inputs(some), run.fed.data.labels[some])
    )


def at_round(hp: dict[str, Any], round_: int, **state: Tensor) -> tuple[Run, Tensor]:
    """The scores of a made-up state."""
    run = toys.run("pfeddst", hp, **DOUBLE, rounds=1, epochs=0)
    run.fed.begin(round_, all_clients=True)
    return run, run.method.scores(run.method.init(run.fed) | state, run.fed)


def others(scores: Tensor) -> Tensor:
    """All entries but those of clients with themselves."""
    return scores[~torch.eye(len(scores), dtype=torch.bool)]


def test_score_without_loss_and_recency_is_the_header_term() -> None:
    fed = toys.run("local", rounds=1).fed
    w = torch.stack([fed.new_model(i) for i in range(6)]).double()
    headers = w[:, fed.params.head]
    cosine = torch.nn.functional.cosine_similarity(headers[:, None], headers[None], dim=2)
    for term, expected in (("distance", cosine - 1), ("literal", -cosine)):
        for rest in ({"alpha": 0.0, "recency": None}, {"selection": "header"}):
            _, scores = at_round({"header_term": term, "cost": 0.0, **rest}, 2, w=w)
            assert torch.allclose(scores, expected, atol=2e-6)


def test_zero_recency_leaves_only_peers_never_chosen() -> None:
    last = torch.zeros(6, 6, dtype=torch.int64)
    last[:, :3] = 1
    scores = at_round({"recency": 0.0}, 3, last=last)[1]
    assert bool((scores[:, :3] == 0).all())
    assert bool((scores[:, 3:] > 0).all())


@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
def test_pfeddst_without_peers_is_local_training_in_two_phases(model: str) -> None:
    run = toys.run("pfeddst", {"degree": 0}, model=model, participation=0.5, **DOUBLE, **SGD)
    head = run.fed.params.head
    for client in range(run.fed.N):
        w = run.fed.new_model()
        for round_ in (1, 2, 3):
            w = phase(run, w, client, round_, ~head)
            w = phase(run, w, client, round_, head, head_lr=0.05)
        assert plain.apart(w, run.state["w"][client]) < 1e-9
    assert peers.notes(run, "bytes/extractor") == peers.notes(run, "bytes/probe") == [0.0] * 3


@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
def test_pfeddst_with_random_peers_and_the_header_first_is_dfedpgp(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def header_first(method: PFedDST, fed: Federation, w: Tensor) -> Tensor:
        w = method.train_header(fed, w)
        return method.train_extractor(fed, w, first_epoch=1)

    monkeypatch.setattr(PFedDST, "train", header_first)
    hp = {"degree": 2, "push_sum": False, "graph": "pull"}
    theirs = toys.run("dfedpgp", hp, model=model, **DOUBLE, **SGD)
    ours = toys.run("pfeddst", {"degree": 2, "selection": "random"}, model=model, **DOUBLE, **SGD)
    assert torch.equal(ours.state["w"], theirs.state["w"])


@pytest.mark.parametrize(
    ("hp", "model"),
    [({}, "tiny"), ({"header_term": "literal", "unseen": "literal", "cost": 2.0}, "tiny-bn")],
)
@pytest.mark.parametrize("refresh", ["contacted", "all"])
def test_pfeddst_follows_its_plain_transcription(
    hp: dict[str, Any], model: str, refresh: str
) -> None:
    rule = {"alpha": 0.3, "recency": 0.5, "cost": 1.0, "header_term": "distance", "unseen": "one"}
    rule |= hp
    how: dict[str, Any] = {"degree": 2, "probe": 10, "refresh": refresh, "head_lr": 0.02}
    run = toys.run("pfeddst", rule | how, model=model, **DOUBLE, **SGD)
    fed = run.fed
    clients, head = range(fed.N), fed.params.head
    shared = fed.params.learnable & ~head
    w = [fed.new_model() for _ in clients]
    loss = [[probe_loss(run, w[i], j, 10) for j in clients] for i in clients]
    last = [[-1] * fed.N for _ in clients]
    for now in range(3):
        chosen = []
        for i in clients:
            scores = {}
            for j in clients:
                mine, theirs = w[i][head], w[j][head]
                cosine = float(mine @ theirs) / float(mine.norm() * theirs.norm())
                apart = 1 - cosine if rule["header_term"] == "distance" else cosine
                unseen = last[i][j] < 0
                fresh = 1 - exp(-rule["recency"] * (now if unseen else now - last[i][j]))
                fresh = 1.0 if unseen and rule["unseen"] == "one" else fresh
                scores[j] = fresh * (rule["alpha"] * loss[i][j] - apart + rule["cost"])
            if now == 0 and rule["unseen"] == "literal":  # all scores are zero
                chosen.append(peers.senders(peers.topology_at(fed, 1).pull(2), i)[1:])
            else:
                chosen.append(sorted(clients, key=lambda j, s=scores, i=i: (j == i, -s[j]))[:2])
        means = [(w[i] + w[chosen[i][0]] + w[chosen[i][1]]) / 3 for i in clients]
        mixed = [torch.where(shared, means[i], w[i]) for i in clients]
        w = [phase(run, mixed[i], i, now + 1, ~head) for i in clients]
        w = [phase(run, w[i], i, now + 1, head, head_lr=0.02) for i in clients]
        for i in clients:
            for j in clients if refresh == "all" else chosen[i]:
                loss[i][j] = probe_loss(run, w[i], j, 10)
            for j in chosen[i]:
                last[i][j] = now
    assert plain.apart(torch.stack(w), run.state["w"]) < 1e-9
    assert torch.equal(torch.tensor(last) + 1, run.state["last"])
    assert torch.allclose(
        others(torch.tensor(loss, dtype=torch.float64)), others(run.state["loss"]), rtol=1e-9
    )


@pytest.mark.parametrize("selection", ["header", "random"])
def test_figure_2_notes_what_the_chosen_peers_models_are_worth_on_one_client(
    selection: str,
) -> None:
    evaluation = {"tallies": ("peers",), "points": ("start", "post_agg")}
    hp = {"degree": 2, "selection": selection}
    run = toys.run("pfeddst", hp, **DOUBLE, evaluation=evaluation, rounds=2)
    before, test = run.state, run.fed.data.test[0]
    run.step()
    graph = run.state["last"][0] == 3
    run.fed.begin(3, all_clients=True)
    scores = run.method.scores(before, run.fed)[0]
    chosen = sorted(graph.nonzero().flatten().tolist(), key=lambda j: -float(scores[j]))
    x, y = run.fed.data.inputs(test), run.fed.data.labels[test]
    models = [plain.named(run.fed, before["w"][j]) for j in [0, *chosen]]
    worth = [float((plain.logits(p, x).argmax(1) == y).double().mean()) for p in models]
    assert [peers.notes(run, f"peers/{name}")[2] for name in ("own", "0", "1")] == worth
    own = {row[:3]: row[3] / row[4] for row in run.counts}
    assert own[3, "start", 0] == worth[0]
    assert run.arrays["peers"].sum(1).tolist() == [6] * 6
