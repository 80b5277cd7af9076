"""Local training of many clients: their batches are planned, and they train chunk after chunk or in
lanes side by side.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from repfl.algorithms.core.batches import Plan, Schedule, batch_at, longest_plan, plan_batches
from repfl.algorithms.core.chunk import Chunk, Sgd, tensor_masks, trained_parts
from repfl.algorithms.core.data import ClientData
from repfl.algorithms.core.lanes import LanePool, Work
from repfl.algorithms.core.layout import Layout
from repfl.algorithms.core.lowering import Lowering
from repfl.algorithms.core.model import Model
from repfl.algorithms.core.rng import Streams
from repfl.algorithms.core.train import Advance, Rows, Step, Trained, placed, run_chunk, taken


@dataclass(frozen=True)
class Held:
    """What clients bring to a training, row by row, and what they take home."""

    models: Mapping[str, Tensor]
    extras: Mapping[str, Tensor]
    beside: Mapping[str, Tensor] = field(default_factory=dict)
    """Further models, which are only read."""
    trainable: Tensor | None = None
    keep: tuple[str, ...] = ()
    in_place: bool = False

    @property
    def own_masks(self) -> bool:
        """Every client has a mask of its own."""
        return self.trainable is not None and self.trainable.dim() == 2


class LocalTraining:
    """Trains rows of models on a device as its lowering says."""

    def __init__(
        self,
        model: Model,
        layout: Layout,
        data: ClientData,
        lowering: Lowering,
        streams: Streams,
        width: int,
    ) -> None:
        self.model, self.layout, self.data, self.lowering = model, layout, data, lowering
        self.streams, self.width, self.device = streams, width, data.labels.device
        how, device = lowering, self.device
        self.lanes = (
            LanePool(how.lanes, how.chunk, how.lanes_on(device), data, device)
            if how.lanes
            else None
        )
        self._plans: dict[tuple[Schedule, tuple[int, ...], int | None], list[Plan]] = {}

    @property
    def ahead(self) -> bool:
        """Whether plans are worth making before they are asked for: where the host would wait."""
        return self.device.type == "cuda" and self.lanes is not None

    # -- plans -------------------------------------------------------------------------------------

    def planned(self, schedule: Schedule, clients: Sequence[int], steps: int | None) -> list[Plan]:
        """The batches of some clients, or the first `steps` of them."""
        plans = self._plans.pop((schedule, tuple(clients), steps), None)
        if plans is not None:
            return plans
        return [
            plan_batches(self.data, self.streams, client, schedule).first(steps)
            for client in clients
        ]

    def plan_ahead(self, schedule: Schedule, clients: Sequence[int], steps: int | None) -> None:
        """Plan the same for the next round and these clients, while a GPU works on this one."""
        later = replace(schedule, round=schedule.round + 1)
        for asked in [asked for asked in self._plans if asked[0].round <= schedule.round]:
            del self._plans[asked]  # nobody came for it
        plans = self.planned(later, clients, steps)
        for plan in plans:
            if plan.index:
                plan.block(self.width)
        self._plans[later, tuple(clients), steps] = plans

    # -- training ----------------------------------------------------------------------------------

    def run(
        self,
        step: Step,
        plans: list[Plan],
        held: Held,
        sgd: Sgd,
        schedule: Schedule | None = None,
        same: Hashable | None = None,
    ) -> Trained:
        """Run a step over rows with their plans, a chunk at a time, long plans first. Lanes take
        what follows a schedule; the rest runs on batches as they come.
        """
        out = Rows(held.models, held.extras, plans, held.keep, held.in_place)
        parts = self._parts(held)

        def start(where: Tensor | slice) -> Chunk:
            mask = held.trainable
            if mask is not None and held.own_masks:
                mask = mask[where]
            known = trained_parts(self.layout, mask) if parts is None else parts
            masks = tensor_masks(self.layout, mask, known)
            rows = {n: flat[where] for n, flat in (out.models | dict(held.beside)).items()}
            more = taken(out.extras, where)
            return Chunk(self.model, self.layout, rows, more, sgd, masks)

        with self.lowering.active(self.device):
            if schedule is not None and self.lanes is not None:
                longest, short = longest_plan(self.data, schedule)
                if same is not None:
                    what = tuple((parts or {}).items()), held.own_masks, longest, held.keep
                    same = (same, replace(sgd, lr=0.0), what)
                self.lanes.train(
                    Work(step, start, plans, self.width, longest, short, held.keep, same), out
                )
                return out.trained
            chunk = self.lowering.together if schedule is None else self.lowering.chunk
            for rows in out.chunks(chunk):
                where, own = placed(rows, self.device), [plans[row] for row in rows]
                local = start(where)
                for event in run_chunk(local, own, self._exactly(step, own), held.keep):
                    if event is not None:
                        out.collect(local, rows, where, event)
        return out.trained

    def _parts(self, held: Held) -> dict[str, bool] | None:
        """What a mask lets train: which tensors, and which of them as a whole. Masks of their own
        may mask any tensor where steps are recorded or the device would have to be asked; none:
        every chunk finds out for itself.
        """
        if not held.own_masks:
            return trained_parts(self.layout, held.trainable)
        if self.lanes is None and self.device.type != "cuda":
            return None
        return {s.name: False for s in self.layout if s.kind != "stat"}

    def _exactly(self, step: Step, plans: Sequence[Plan]) -> Advance:
        """Steps on batches as they come, short ones included."""

        def advance(local: Chunk, done: int, active: int, most: int) -> int:
            step(local, batch_at(self.data, plans[:active], done))
            return 1

        return advance
