"""Consistency of results: metrics are values from a record's own curves, counts and arrays, and
from the partition if the data are here. Whoever edits a number must edit all of these, and
computing the cell again still shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import TYPE_CHECKING, Any

import numpy as np

from repfl.bench.store.digest import of_arrays, of_curves
from repfl.bench.store.reported import Rows, reported, reported_curve, summarise
from repfl.bench.store.store import Record, Store

if TYPE_CHECKING:
    import pandas as pd

    from repfl.bench.grid.cell import Cell

ROUNDING = 1e-12
"""Relative difference that summing in another order may cause."""
ClientRows = Sequence[tuple[int, str, int, int, int]]


def of_store(store: Store, record: Record) -> list[str]:
    """Return what is inconsistent in a stored record."""
    if record.status != "done":
        return []
    rows = _tuples(store.frame(record, "rounds.parquet"), "round", "name", "value")
    clients = _tuples(
        store.frame(record, "clients.parquet"), "round", "point", "client", "correct", "total"
    )
    digests = record.provenance["digests"]
    wrong = (
        []
        if digests["curves"] == of_curves(rows, clients)
        else ["digests.curves is not that of its curves"]
    )
    if digests["arrays"] != of_arrays(store.arrays(record)):
        wrong.append("digests.arrays is not that of its arrays")
    return [*wrong, *_from_counts(rows, clients), *_from_curves(record, rows), *bounds(record)]


def _tuples(frame: pd.DataFrame | None, *names: str) -> list[Any]:
    return (
        [] if frame is None else list(zip(*(frame[name].tolist() for name in names), strict=True))
    )


def _from_counts(rows: Rows, clients: ClientRows) -> Iterator[str]:
    """Check that every accuracy of a curve follows from its counts."""
    curves = {(round_, name): value for round_, name, value in rows}
    counts: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for round_, point, _, correct, total in clients:
        counts.setdefault((round_, point), []).append((correct, total))
    for (round_, point), pairs in counts.items():
        for name, value in accuracies(*np.array(pairs).T).items():
            if not _same(curves.get((round_, f"{point}/{name}")), value):
                yield f"{point}/{name} of round {round_} is not that of its counts"
                return


def accuracies(correct: np.ndarray, total: np.ndarray) -> dict[str, float]:
    """Return mean, pooled, standard deviation and worst tenth over clients that have samples."""
    some = total > 0
    if not some.any():
        return {}
    shares = np.sort(correct[some] / total[some])
    return {
        "mean": float(shares.mean()),
        "pooled": float(correct.sum() / total.sum()),
        "std": float(shares.std(ddof=1)) if len(shares) > 1 else 0.0,
        "decile": float(shares[: max(1, len(shares) // 10)].mean()),
    }


def _from_curves(record: Record, rows: Rows) -> Iterator[str]:
    """Check that the metrics follow from the curves, by the recipe's report rule."""
    metrics = record.metrics
    floor: Any = (metrics.get("floor", {}).get("clients"), metrics.get("floor", {}).get("pooled"))
    expected = summarise(rows, record.recipe.evaluation, floor, metrics.get("parameters", 0))
    yield from (f"{name} is not that of its curves" for name in differing(metrics, expected))


def differing(one: Any, other: Any, prefix: str = "") -> list[str]:
    """Return the dotted names at which two nested tables differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        names = dict.fromkeys((*one, *other))
        return [
            each
            for name in names
            for each in differing(
                one.get(name), other.get(name), f"{prefix}.{name}" if prefix else str(name)
            )
        ]
    return [] if one == other else [prefix]


def bounds(record: Record) -> Iterator[str]:
    """Check that accuracies are shares, and that counts are not negative."""
    shares = {"value": record.metrics.get("value"), **record.metrics.get("floor", {})}
    for name, value in shares.items():
        if isinstance(value, int | float) and not 0 <= value <= 1:
            yield f"{name} is {value:g}, which is no share"
    for name, count in record.metrics.get("traffic", {}).items():
        if count < 0:
            yield f"traffic.{name} is {count}"
    if any(set(digest) <= {"0"} for digest in record.provenance["digests"].values()):
        yield "a digest is empty"


def of_line(record: Record, curves: Mapping[str, Any], counts: Any) -> list[str]:
    """Return what is inconsistent in a committed run: its value must follow from its curve and its
    counts, its summary from both.
    """
    if record.status != "done":
        return []
    return [*_line_from_curve(record, curves), *_line_from_counts(record, counts), *bounds(record)]


def _line_from_curve(record: Record, curves: Mapping[str, Any]) -> Iterator[str]:
    """Check the value, its round, and the summary of the reported point."""
    evaluation = record.recipe.evaluation
    point, average = reported_curve(evaluation)
    plain = {
        name: dict(zip(c.rounds.tolist(), c.values.tolist(), strict=True))
        for name, c in curves.items()
    }
    curve, summary = plain.get(f"{point}/{average}"), record.metrics.get("points", {}).get(point)
    if record.metrics["value"] is None and curve is None:
        return
    if not curve or summary is None:
        yield "the curve that its value is from is missing"
        return
    if evaluation.rule != "best-val":
        value, round_ = reported(plain, evaluation)
        if (value, round_) != (record.metrics["value"], record.metrics["round"]):
            yield "value is not that of its curve"
    elif curve.get(record.metrics["round"]) != record.metrics["value"]:
        yield "value is not that of its curve"
    if summary["last"].get(average) != curve[max(curve)]:
        yield f"points.{point}.last.{average} is not that of its curve"
    if summary["max"].get(average) != max(curve.values()):
        yield f"points.{point}.max.{average} is not that of its curve"


def _line_from_counts(record: Record, counts: Any) -> Iterator[str]:
    """Check the value and, if the last round is reported, the spread over clients."""
    if counts is None:
        return
    values, (point, average) = (
        accuracies(counts.correct, counts.total),
        reported_curve(record.recipe.evaluation),
    )
    if not _same(record.metrics["value"], values.get(average)):
        yield "value is not that of its counts"
    last = record.metrics["points"][point]["last"]
    if record.metrics["round"] == record.recipe.training.rounds:
        names = [name for name in values if name in last and not _same(last[name], values[name])]
        yield from (f"points.{point}.last.{name} is not that of its counts" for name in names)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)


def of_partition(record: Record, cell: Cell) -> list[str]:
    """Return what does not follow from the data that are here: majority-class baseline, partition,
    number of samples, number of parameters.
    """
    from repfl.bench.run.clients import clients_of

    clients, metrics = clients_of(cell), record.metrics
    size, provenance = clients.model.params.parameters, record.provenance
    comparisons = {
        "floor": (metrics.get("floor"), {"clients": clients.floor[0], "pooled": clients.floor[1]}),
        "partition": (provenance["partition"], clients.digest),
        "samples": (provenance.get("samples"), clients.samples),
        "parameters": (metrics.get("parameters"), size),
    }
    return [
        f"{name} is not that of the data here"
        for name, (recorded, computed) in comparisons.items()
        if recorded != computed
    ]
