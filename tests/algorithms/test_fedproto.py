"""fedproto: a plain transcription, and its bytes by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40)
LAM = 0.7


def drawn(prototypes: dict[int, Tensor]) -> plain.Loss:
    """Cross-entropy and the distance of features to their class's prototype."""

    def loss(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        features = plain.features(p, x)
        pairs = zip(features, y.tolist(), strict=True)
        distances = [(f - prototypes[c]).square().mean() for f, c in pairs if c in prototypes]
        total = sum(distances, torch.zeros(()))
        return plain.cross_entropy(p, x, y) + LAM * total / len(y)

    return loss


def test_fedproto_follows_its_plain_transcription() -> None:
    half = {"participation": 0.5, "rounds": 4}
    run = toys.run("fedproto", {"lam": LAM}, sizes=SIZES, dtype=torch.float64, **half)
    fed, models = run.fed, [run.fed.new_model() for _ in SIZES]
    prototypes: dict[int, Tensor] = {}
    for round_ in (1, 2, 3, 4):
        fed.begin(round_)
        means: dict[int, list[Tensor]] = {}
        for client in fed.active_ids:
            flat, _ = plain.train(fed, models[client], client, round_, loss=drawn(prototypes))
            models[client], index = flat, fed.data.train[client]
            features = plain.features(plain.named(fed, flat), fed.data.inputs(index))
            labels = fed.data.labels[index]
            for label in labels.unique().tolist():
                means.setdefault(label, []).append(features[labels == label].mean(0))
        prototypes |= {label: torch.stack(each).mean(0) for label, each in means.items()}
    assert plain.apart(torch.stack(models), run.state["w"]) < 1e-9
    for label in range(fed.classes):
        expected = prototypes.get(label, torch.zeros(32, dtype=torch.float64))
        assert torch.allclose(expected, run.state["prototypes"][label], rtol=1e-9, atol=1e-12)
        assert bool(run.state["known"][label]) == (label in prototypes)


def test_bytes_are_those_counted_by_hand() -> None:
    """A bitmap of the classes, one byte here, is a quarter of a number."""
    run = toys.run("fedproto", sizes=(24, 16, 8, 16), rounds=2)
    fed = run.fed
    assert fed.classes <= 8
    labels = [set(fed.data.labels[part].tolist()) for part in fed.data.train]
    width = fed.params.head_weight.shape[1]
    held, known = sum(map(len, labels)), len(set.union(*labels))
    for direction, values in (("up", held * width), ("down", fed.K * known * width)):
        lines = (f"{direction}_values", f"{direction}_codes")
        total = sum(toys.traffic(run, line)[-1] for line in lines)
        assert total == 4 * values + fed.K
