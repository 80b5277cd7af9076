"""FLUTE if heads are returned in the order of sampling, as FL-bench on two workers does it.

FL-bench's server receives the heads in the order in which training ends and returns them in the
order in which clients were sampled. With one worker these orders are the same. FedOBP's authors
logged FLUTE with two in nine of sixteen columns, and in one of these with one worker, too.

repfl run --scale paper --artefact fedobp/table3 --column calibration-m0.7 --seed 42 \
    --plugin paper_tables/fedobp/studies/two_workers.py \
    --method "flute-two-workers[mode=flbench,body_epochs=1,detach=true,newcomer=global]"
"""

from heapq import heappop, heappush

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, register
from repfl.algorithms.engine.batches import steps_per_epoch
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
    """FLUTE in which the i-th head to arrive is returned to the i-th client that was sampled. A
    worker is busy for as many steps as its client has.
    """

    def round(self, state: State, fed: Federation) -> State:
        samples = torch.tensor([fed.samples[client] for client in fed.sampled])
        steps = steps_per_epoch(samples, fed.protocol.batch, fed.protocol.skip_single)
        self.receivers = [fed.active_ids.index(client) for client in fed.sampled]
        self.senders = [self.receivers[job] for job in order_of_completion(steps.tolist())]
        return super().round(state, fed)

    def correct(self, fed: Federation, params: Tensor, present: Tensor) -> Tensor:
        """Correct heads that were exchanged between clients  [K, D]."""
        swapped, head = params.clone(), fed.params.head_weight.place
        swapped[self.receivers, head] = params[self.senders, head]
        return super().correct(fed, swapped, present)


def order_of_completion(durations: list[int]) -> list[int]:
    """Return the order in which jobs end that two workers start one after another."""
    running: list[tuple[float, int]] = []
    order = list[int]()
    for job, duration in enumerate(durations):
        now = 0.0
        if len(running) == WORKERS:
            now, done = heappop(running)
            order.append(done)
        heappush(running, (now + duration, job))
    return order + [heappop(running)[1] for _ in range(len(running))]
