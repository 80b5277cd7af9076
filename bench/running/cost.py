"""What cells will cost, from what cells have cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from bench.cells.plan import Planned
from bench.errors import Corrupt, UserError
from bench.records.store import Store

REFERENCE = {
    "tiny": 40e-6,
    "tiny-bn": 90e-6,
    "cnn4": 510e-6,
    "lenet5": 150e-6,
    "resnet8": 1100e-6,
    "resnet10": 3200e-6,
    "resnet18": 14e-3,
    "resnet18-gn": 26e-3,
}
"""Seconds per training sample on one processor core of a server, measured; used where the store knows nothing better."""
START = 0.05
"""Seconds that a cell costs beside training and scoring."""


def estimates(planned: Iterable[Planned], store: Store) -> dict[str, float]:
    """Seconds of one worker per planned cell."""
    planned = list(planned)
    known = throughput(store) if planned else {}
    return {item.cell.id: START + work_of(item.cell.method, item.cell.recipe) * _per_sample(item.cell.recipe, known) for item in planned}


def work_of(method: str, recipe: Mapping[str, Any]) -> float:
    """Samples that all clients go through in training, over the whole run."""
    from algorithms.core.method import methods

    training, known = recipe["training"], methods().get(method)
    everybody = known is not None and known.cls.serverless
    cohort = recipe["clients"] if everybody else max(1, round(recipe["participation"] * recipe["clients"]))
    return float(training["rounds"] * training["epochs"] * cohort * _per_client(recipe) * 1.15)  # scoring costs about a sixth on top


def _per_client(recipe: Mapping[str, Any]) -> float:
    """Training samples of a client: as the partition says, or an equal share of the pool."""
    from datasets.core import registry

    rule, options = recipe["partition"]["rule"], recipe["partition"]["options"]
    if isinstance(options.get("train"), int | float):
        return float(options["train"] * (options["classes"] if rule == "class-shards" else 1))  # of a shard, or of a client
    splits = registry.get(recipe["dataset"]).splits
    share = options.get("test_share")
    pool = sum(splits.values()) * (1 - share) if isinstance(share, int | float) else splits.get("train", sum(splits.values()))
    return pool / float(recipe["clients"])


def _shape(recipe: Mapping[str, Any]) -> tuple[str, Any]:
    """What throughput depends on most: the model and the size of its input."""
    return recipe["model"], tuple(recipe["input"]) if recipe["input"] else recipe["dataset"]


def _per_sample(recipe: Mapping[str, Any], known: Mapping[tuple[str, Any], float]) -> float:
    if (found := known.get(_shape(recipe))) is not None:
        return found
    same_model = [value for (model, _), value in known.items() if model == recipe["model"]]
    return median(same_model) if same_model else REFERENCE.get(recipe["model"], 1e-3)


def throughput(store: Store, limit: int = 200) -> dict[tuple[str, Any], float]:
    """Seconds per training sample, by model and input, as the store's records measured them."""
    seen: dict[tuple[str, Any], list[float]] = {}
    for cell in store.ids()[:limit]:
        try:
            record = store.get(cell)
        except (Corrupt, UserError):
            continue
        if record is not None and record.status == "done":
            spent = record.provenance["seconds"]["train"] + record.provenance["seconds"]["evaluate"]
            seen.setdefault(_shape(record.cell["recipe"]), []).append(
                spent / max(work_of(record.cell["method"], record.cell["recipe"]), 1.0)
            )
    return {shape: median(values) for shape, values in seen.items()}


def total(planned: Sequence[Planned], costs: Mapping[str, float]) -> float:
    """Seconds of one worker for all of these cells together."""
    return sum(costs[item.cell.id] for item in planned)


def spoken(seconds: float) -> str:
    """A duration in words short enough for a table."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
