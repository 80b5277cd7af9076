"""FLUTE as FL-bench runs it on two workers: heads reach the wrong clients.

FL-bench's server takes the heads in the order in which they come back and returns them in the order
in which clients were called. With one worker these orders are the same. The log of FLUTE among
those of FedOBP's authors is of two.

repfl run --scale paper --artefact fedobp/table3 --dataset cifar10 --plugin
bench/examples/two_workers.py \
    --method "flute-two-workers[mode=flbench,body_epochs=1,detach=true,newcomer=global]"
"""

from heapq import heappop, heappush

import torch
from torch import Tensor

from repfl.algorithms.core.batches import steps_per_epoch
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, register
from repfl.algorithms.flute import FLUTE

WORKERS = 2


@register(
    "flute-two-workers",
    title="FLUTE, two workers",
    paper="a variant of FLUTE, 2024",
    year=2024,
    family="partial",
    needs=("head",),
    sends="what FLUTE sends",
)
class TwoWorkers(FLUTE):
    """FLUTE whose i-th head to come back goes to the i-th client that was called; a worker is busy
    for as long as its client has steps.
    """

    def round(self, state: State, fed: Federation) -> State:
        called = torch.searchsorted(fed.active, fed.called)  # rows, in the order of the call
        steps = steps_per_epoch(fed.n_train, fed.protocol.batch, fed.protocol.skip_single)[called]
        self.to, self.of = called, called[finished(steps.tolist())]
        return super().round(state, fed)

    def correct(self, heads: Tensor, present: Tensor) -> Tensor:
        swapped = heads.clone()
        swapped[self.to] = heads[self.of]
        return super().correct(swapped, present)


def finished(durations: list[int]) -> list[int]:
    """The order in which jobs end that two workers take up one after another."""
    busy: list[tuple[float, int]] = []
    order = list[int]()
    for job, duration in enumerate(durations):
        now = 0.0
        if len(busy) == WORKERS:
            now, done = heappop(busy)
            order.append(done)
        heappush(busy, (now + duration, job))
    return order + [heappop(busy)[1] for _ in range(len(busy))]
