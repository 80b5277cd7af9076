"""Scoring a round: which points are due, and how many samples the models get right."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import torch
from torch import Tensor

from repfl.algorithms.engine.client_data import ClientData
from repfl.algorithms.engine.evaluate import Models, Score, count_correct, measure
from repfl.algorithms.engine.model import Model
from repfl.algorithms.engine.precision import tensor_cores

WITHIN: Final = "round"
"""Stands for all points that are scored between the start and the end of a round."""
OUTSIDE: Final = ("start", "post_agg", "newcomers")


class Scores:
    """What models score in one round, on their clients' test and validation data."""

    def __init__(
        self, model: Model, data: ClientData, metrics: tuple[str, ...], stack: int, precision: str
    ) -> None:
        self.model, self.data, self.metrics = model, data, metrics
        self.stack, self.precision = stack if model.stacks else 1, precision
        self.watchers: list[Callable[[str, Models], None]] = []
        """Called with every point and its models before they are scored."""
        self.open_round(())

    def open_round(self, due: Collection[str]) -> None:
        """Start a round in which the given points are due."""
        self.due = frozenset(due)
        self.by_point: dict[str, Score] = {}

    def is_due(self, point: str) -> bool:
        """Return whether a point is scored in this round."""
        return (point if point in OUTSIDE else WITHIN) in self.due

    def score(self, point: str, models: Models, clients: list[int]) -> None:
        """Score models [K, D] of the given clients, if the point is due."""
        if not self.is_due(point):
            return
        for watcher in self.watchers:
            watcher(point, models)
        for suffix, split in (("", "test"), ("/val", "val")):
            parts = [getattr(self.data, split)[client] for client in clients]
            if any(map(len, parts)):
                names, metrics = self.metrics, {}
                logits: list[list[Tensor]] | None = [[] for _ in clients] if names else None
                correct, total = self.count_correct(models, split, clients, logits)
                if logits is not None:
                    labels = [self.data.labels[part].cpu() for part in parts]
                    metrics = measure(names, logits, labels, clients)
                self.by_point[point + suffix] = Score(
                    torch.tensor(clients), correct, total, metrics
                )

    def count_correct(
        self,
        models: Models,
        split: str,
        clients: list[int],
        logits: list[list[Tensor]] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Count how many samples of their clients' split models get right, and how many there are
        [K] on the device, [K]; add the logits to `logits`, a list for each client.
        """
        parts = [getattr(self.data, split)[client] for client in clients]
        with tensor_cores(self.precision, self.data.labels.device):
            hits = count_correct(self.model, models, self.data, parts, self.stack, logits)
        return hits, torch.tensor([len(part) for part in parts])


def count_hits(
    counts: dict[str, Tensor], name: str, hits: Tensor, clients: Tensor, everyone: int
) -> None:
    """Add where `hits` ([K, D] or [D]) is true to the counts [N, D] or [D] of a name."""
    rows = hits.dim() == 2
    shape = (everyone, hits.shape[1]) if rows else hits.shape
    empty = torch.zeros(shape, dtype=torch.int32, device=hits.device)
    counts.setdefault(name, empty)[clients if rows else ...] += hits
