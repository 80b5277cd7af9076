"""How many epochs a round trains is what the method says, since estimates of costs believe it."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import build, methods
from repfl.algorithms.core.run import Run
from repfl.algorithms.core.train import Trained
from tests.algorithms import toys

EPOCHS = 3
WAYS = [
    *((name, {}) for name in sorted(methods())),
    ("fedrep", {"body_epochs": 2}),
    ("fedrep", {"head_epochs": 4, "body_epochs": 2}),
    ("fedrep", {"body_epochs": 5}),
    ("flute", {"detach": True}),
    ("flute", {"body_epochs": 1}),
    ("ditto", {"epochs": 1}),
    ("floco", {"plus_epochs": 2}),
    ("feddpa", {"training": "phases"}),
    ("dfedpgp", {"head_epochs": 3, "body_epochs": 1}),
]


class Counting(Federation):
    """Counts the epochs that its first active client trains in a round."""

    def begin(self, *args: Any, **how: Any) -> None:
        super().begin(*args, **how)
        self.body = self.alone = 0

    def loop(self, *args: Any, trainable: Tensor | None = None, **how: Any) -> Trained:
        epochs = how.get("epochs")
        epochs = self.protocol.epochs if epochs is None else epochs
        if self.called[0] in self.active and how.get("stream", "batches") == "batches":
            moved = self.layout.learnable if trainable is None else trainable
            if bool((moved & ~self.layout.head).any()):
                self.body += epochs
            else:
                self.alone += epochs
        return super().loop(*args, trainable=trainable, **how)


class CountingRun(Run):
    federation = Counting


@pytest.mark.parametrize(("method", "hp"), WAYS)
def test_a_round_trains_for_as_many_epochs_as_the_method_says(
    method: str, hp: dict[str, Any]
) -> None:
    rule = build(method, hp)
    plain = toys.run(rule, model="tiny-bn", rounds=1, epochs=EPOCHS, sizes=toys.EQUAL)
    run = CountingRun(rule, plain.recipe, plain.fed.data, plain.fed.model, seed=0)
    run.start()
    for _ in range(2):  # methods begin with a round of another kind
        run.step()
    assert isinstance(run.fed, Counting)
    assert (run.fed.body, run.fed.alone) == rule.passes(EPOCHS)
