"""From the curves of a run to the few numbers that tables are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from repfl.bench.store.contents import AVERAGES, Floor, Metrics, Point, Round, Traffic

if TYPE_CHECKING:
    from repfl.datasets.core.recipe import Evaluation

Rows = Sequence[tuple[int, str, float]]


def summarise(
    rows: Rows, evaluation: Evaluation, floor: tuple[float, float], parameters: int
) -> Metrics:
    """Return the numbers of a run."""
    curves = _curves(rows)
    points = {name.removesuffix("/mean") for name in curves if name.endswith("/mean")}
    summaries = {
        point: _summary(curves, point) for point in sorted(points) if not point.endswith("/val")
    }
    value, round_ = _picked(curves, evaluation)
    traffic = {
        line: int(sum(curves.get(f"traffic/{line}", {}).values())) for line in Traffic.model_fields
    }
    return Metrics(
        value=value,
        round=round_,
        points=summaries,
        floor=Floor(clients=floor[0], pooled=floor[1]),
        traffic=Traffic(**traffic),
        notes={
            name.removeprefix("note/"): _last(curve)
            for name, curve in sorted(curves.items())
            if name.startswith("note/")
        },
        parameters=parameters,
    )


def _curves(rows: Rows) -> dict[str, dict[int, float]]:
    """Return every curve as round -> value, rounds ascending."""
    curves: dict[str, dict[int, float]] = {}
    for round_, name, value in sorted(rows):
        curves.setdefault(name, {})[round_] = value
    return curves


def _last(curve: Mapping[int, float]) -> float:
    return curve[max(curve)]


def _summary(curves: Mapping[str, Mapping[int, float]], point: str) -> Point:
    """Return the scores of one scoring point: in the last, the best and the validated round."""
    mean, pooled = curves[f"{point}/mean"], curves[f"{point}/pooled"]
    top = max(mean, key=lambda round_: (mean[round_], -round_))
    chosen = _validated(curves, point, "mean")
    further = {name.removeprefix(f"{point}/") for name in curves if name.startswith(f"{point}/")}
    names = ("mean", "pooled", "std", "decile", *sorted(n for n in further if "/" not in n))
    return Point(
        last={n: _last(curves[f"{point}/{n}"]) for n in names if f"{point}/{n}" in curves},
        max=Round(mean=mean[top], pooled=max(pooled.values()), round=top),
        best_val=None
        if chosen is None
        else Round(mean=mean[chosen], pooled=pooled[chosen], round=chosen),
    )


def _validated(curves: Mapping[str, Mapping[int, float]], point: str, average: str) -> int | None:
    """Return the first round with the best validation accuracy among those with a test score; None
    without validation data.
    """
    validation = {
        r: v
        for r, v in curves.get(f"{point}/val/{average}", {}).items()
        if r in curves.get(f"{point}/{average}", {})
    }
    return max(validation, key=lambda round_: (validation[round_], -round_)) if validation else None


def best_round(rows: Rows) -> int | None:
    """Return the first round with the best validation accuracy of all clients, or test accuracy if
    there are no validation data.
    """
    curves = _curves(rows)
    curve = curves.get("post_agg/val/mean") or curves.get("post_agg/mean", {})
    return max(curve, key=lambda round_: (curve[round_], -round_), default=None)


def reported_curve(evaluation: Evaluation) -> tuple[str, str]:
    """Return the scoring point and the average over clients that the recipe reports; joined by a
    slash, they name a curve.
    """
    return evaluation.point, AVERAGES[evaluation.average]


def reported(rows: Rows, evaluation: Evaluation) -> float | None:
    """Return the number that the recipe's rule picks from the rounds so far; None without a score
    at the reported point.
    """
    return _picked(_curves(rows), evaluation)[0]


def _picked(
    curves: Mapping[str, Mapping[int, float]], evaluation: Evaluation
) -> tuple[float | None, int | None]:
    """Return the number that the recipe's rule picks, and its round; (None, None) if the reported
    point was never scored.
    """
    point, average = reported_curve(evaluation)
    curve = curves.get(f"{point}/{average}", {})
    if evaluation.rounds and evaluation.rule == "max":
        curve = {round_: value for round_, value in curve.items() if round_ in evaluation.rounds}
    if not curve:
        return None, None
    match evaluation.rule:
        case "max":
            best: int | None = max(curve, key=lambda round_: (curve[round_], -round_))
        case "best-val":
            best = _validated(curves, point, average)
        case _:
            best = max(curve)
    return (None, None) if best is None else (curve[best], best)
