"""The clients' models of a run, stored beside its record.

In the file, `client/NAME` is a tensor of every client [N, ...] and `all/NAME` one that is equal for
all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repfl.bench.errors import UserError
from repfl.bench.store import checkpoint
from repfl.bench.store.store import Store
from repfl.bench.store.summary import best_round

if TYPE_CHECKING:
    from torch import Tensor

    from repfl.algorithms.core.run import Run
    from repfl.algorithms.core.settings import Evaluation

CHOICES = ("last", "best")
"""Models of the last round, or of the one with the best validation score (test score, if there are
no validation data).
"""
CLIENTS_AT_ONCE = 16
"""Clients whose models are computed at once."""


def check(choice: str) -> None:
    """Refuse an invalid choice."""
    if choice and choice not in CHOICES:
        raise UserError(f"keep-models {choice!r} is not valid; valid: {', '.join(CHOICES)}")


def check_recipe(choice: str, evaluation: Evaluation) -> None:
    """Refuse to look for the best round where it cannot be known."""
    if choice == "best" and "post_agg" not in evaluation.points:
        raise UserError(
            "keep-models best: models after aggregation are kept, and this recipe does not score"
            " them; add post_agg to evaluation.points, or keep those of the last round"
        )


def save(run: Run, choice: str, store: Store, cell: str) -> None:
    """Write the models beside the cell's checkpoint if `choice` selects this round."""
    if run.round == (run.fed.rounds if choice == "last" else best_round(run.rows)):
        checkpoint.write(store, checkpoint.models_of(store, cell), tensors(run), {})


def tensors(run: Run) -> dict[str, Tensor]:
    """Return the models that clients are scored with, tensor by tensor."""
    import torch

    fed, parts = run.fed, []
    for first in range(0, fed.N, CLIENTS_AT_ONCE):
        with fed.as_active(range(first, min(first + CLIENTS_AT_ONCE, fed.N))):
            models = run.scored_models()
        if not isinstance(models, torch.Tensor):
            name = type(run.method).__name__
            raise UserError(f"keep-models: {name} scores clients with a mixture of models")
        parts.append(models.detach().cpu())
    models, result = torch.cat(parts), {}  # [N, D]
    for part in fed.params:
        values = models[:, part.start : part.stop].unflatten(1, part.shape)
        if bool((values == values[:1]).all()):
            result[f"all/{part.name}"] = values[0].contiguous()
        else:
            result[f"client/{part.name}"] = values.contiguous()
    return result
