"""What is recorded of a round: scores, numbers and counts of masks."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core.network import Network
from repfl.algorithms.core.training import TrainingProtocol
from repfl.algorithms.engine.client_data import ClientData
from repfl.algorithms.engine.evaluate import Models, Score, count_correct, measure
from repfl.algorithms.engine.model import Model
from repfl.algorithms.engine.precision import tensor_cores


class Recorder(Network):
    """Clients with data and a model, whose scores are recorded."""

    def __init__(
        self,
        model: Model,
        data: ClientData,
        recipe: TrainingProtocol,
        device: torch.device,
        dtype: torch.dtype,
        stack: int,
        precision: str,
    ) -> None:
        self.model = model.at(device, dtype)
        super().__init__(self.model.params, data.clients, recipe.training, device)
        self.recipe, self.dtype, self.stack, self.precision = recipe, dtype, stack, precision
        self.data = data.to(device, dtype)
        self.trained: Tensor | None = None
        """What `train` returned last in this round: scored as `pre_agg`  [K, D]."""
        self.logged: dict[str, float | Tensor] = {}
        self.masks_counted: dict[str, Tensor] = {}
        self.scores: dict[str, Score] = {}
        self.scoring = self.scoring_start = False

    def open_round(self) -> None:
        """Clear what the last round left."""
        self.trained, self.logged, self.scores = None, {}, {}
        self.ledger.open_round()

    def score(self, point: str, models: Models) -> None:
        """Score the active clients' models [K, D] on their test (and validation) data, in rounds
        that are scored.
        """
        if not (self.scoring_start if point == "start" else self.scoring):
            return
        clients, names = self.active_ids, self.recipe.evaluation.metrics
        for suffix, split in (("", "test"), ("/val", "val")):
            parts = [getattr(self.data, split)[client] for client in clients]
            if any(map(len, parts)):
                logits: list[list[Tensor]] | None = [[] for _ in clients] if names else None
                correct, total = self.count_correct(models, split, logits)
                labels = [self.data.labels[part].cpu() for part in parts] if names else []
                metrics = measure(names, logits or [], labels, clients) if names else {}
                self.scores[point + suffix] = Score(torch.tensor(clients), correct, total, metrics)

    def count_correct(
        self, models: Models, split: str, logits: list[list[Tensor]] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Count how many samples of their own split the active clients' models get right, and how
        many there are  [K] on the device, [K]; add the logits to `logits`, a list for each client.
        """
        parts = [getattr(self.data, split)[client] for client in self.active_ids]
        width = 1 if self.model.random else self.stack
        with tensor_cores(self.precision, self.device):
            hits = count_correct(self.model, models, self.data, parts, width, logits)
        return hits, torch.tensor([len(part) for part in parts])

    def log(self, name: str, value: float | Tensor) -> None:
        """Record one number of this round."""
        later = isinstance(value, Tensor) and not value.is_cpu
        self.logged[name] = value if later else float(value)

    def count_mask(self, name: str, hits: Tensor) -> None:
        """Count over the rounds where `hits` ([K, D] of the active clients, or [D]) is true, if the
        recipe asks for it.
        """
        if name not in self.recipe.evaluation.tallies:
            return
        shape = (self.N, hits.shape[1]) if hits.dim() == 2 else hits.shape
        empty = torch.zeros(shape, dtype=torch.int32, device=self.device)
        total = self.masks_counted.setdefault(name, empty)
        total[self.active if hits.dim() == 2 else ...] += hits
