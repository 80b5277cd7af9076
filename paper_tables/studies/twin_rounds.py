"""Twin rounds: run one round twice from the same state, with a single option switched.

Two settings of a method may differ only after hours of training, or not at all. A twin round shows
which in seconds: from one state, how many mask entries differ after the round, how far apart the
updates are, and how many bytes more or less are sent. The same round from a state that is disturbed
by no more than rounding is the noise to compare with.

python paper_tables/studies/twin_rounds.py fedobp/twins    # writes twins.csv of FedOBP
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from repfl.algorithms.core.messages import Mask, Message, Vectors
from repfl.algorithms.core.run import Run
from repfl.algorithms.core.sending import Way
from repfl.bench.errors import UserError, nearest
from repfl.bench.grid.cell import Cell, build_cell
from repfl.bench.grid.methods import with_defaults
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import Planned
from repfl.bench.run.clients import clients_of, make
from repfl.bench.run.task import Options
from repfl.bench.store.summary import reported_curve

ROUNDING = 2.0**-23
"""Relative size of the disturbance: the last bit of a float32."""
COLUMNS = ("change", "round", "update", "mask_entries", "masks_differ", "bytes", "accuracy")
"""`update` is the distance between the two updates of the state over the size of the update;
`mask_entries` how many entries the masks of the round have, and `masks_differ` how many of them
are otherwise; `bytes` the difference in bytes over the bytes of the round; `accuracy` the
difference in accuracy, in points.
"""


TABLE2 = {"column": "cifar10-dir0.1", "row": "exact g, H off", "seed": 1}
STUDIES: dict[str, dict[str, Any]] = {
    "fedobp/twins": {
        "artefact": "fedobp/table5",
        "column": "cifar10-dir0.1",
        "row": "NoNorm, as defined",
        "seed": 42,
        "rounds": (1, 5, 20),
    },
    "fedpurin/twins": {"artefact": "fedpurin/table2", **TABLE2, "rounds": (1, 2, 4, 8)},
    "fedpurin/twins_full": {
        "artefact": "fedpurin/table2",
        **TABLE2,
        "rounds": (1, 2, 4, 8, 16),
        "scale": "paper",
        "changes": {"hessian=true": {"hessian": True}},
    },
}
"""What the papers' pages quote, by the csv file: the last in the paper's protocol, others at the
reduced scale.
"""


class TwinRun(Run):
    """A run that records every mask of a round: those of messages, and those that a method
    counts.
    """

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.masks: list[Tensor] = []
        self.fed.network.taps.append(self.record)
        count_mask = self.fed.count_mask

        def counted(name: str, hits: Tensor) -> None:
            self.masks.append(hits.clone())
            count_mask(name, hits)

        self.fed.count_mask = counted  # type: ignore[method-assign]

    def record(self, way: Way, message: Message, rows: list[int]) -> Message:
        """Record the mask of a message, if the method named one."""
        if isinstance(message, Mask):
            self.masks.append(message.values.clone())
        elif isinstance(message, Vectors) and not message.common:
            self.masks.append(message.mask.clone())
        return message


def study(
    artefact: str,
    *,
    column: str,
    row: str,
    seed: int,
    rounds: Iterable[int],
    scale: str = "desk",
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> pd.DataFrame:
    """Return the twin rounds of one cell of a table; the changes are by default those that make
    the cell another row of the table.
    """
    selection = Selection(artefacts=[artefact], columns=[column], seeds=[seed], scale=scale)
    base, others = row_changes(plan(selection), row)
    frame = twin_rounds(base.cell, others if changes is None else changes, rounds)
    return frame.assign(row=row, column=column, seed=seed)[["row", "column", "seed", *COLUMNS]]


def twin_rounds(
    cell: Cell, changes: Mapping[str, Mapping[str, Any]], rounds: Iterable[int]
) -> pd.DataFrame:
    """Train a cell, and before each of `rounds` run that round once as it is, once from a state
    disturbed by rounding, and once with every change of hyper-parameters, by its name.
    """
    torch.set_num_threads(1)
    options, rounds_to_run = Options(), sorted(set(rounds))
    clients, curve = clients_of(cell), "/".join(reported_curve(cell.recipe.evaluation))
    unchanged = _changed(cell, {})
    changed = {name: _changed(cell, change) for name, change in changes.items()}

    def twin(variant: Cell, before: Mapping[str, Tensor]) -> TwinRun:
        run = make(variant, clients, options, TwinRun)
        assert isinstance(run, TwinRun)
        run.restore({name: value.clone() for name, value in before.items()})
        run.step()
        return run

    run, lines = make(cell, clients, options, TwinRun), []
    run.start()
    while run.round < rounds_to_run[-1]:
        if run.round + 1 in rounds_to_run:
            before = run.snapshot()
            base = twin(unchanged, before)
            pairs = {"rounding": twin(unchanged, _disturbed(before, run))}
            pairs |= {name: twin(variant, before) for name, variant in changed.items()}
            lines += [
                {"change": name, "round": base.round, **compared(before, base, variant, curve)}
                for name, variant in pairs.items()
            ]
        run.step()
    return pd.DataFrame(lines, columns=list(COLUMNS))


def row_changes(planned: Sequence[Planned], row: str) -> tuple[Planned, dict[str, dict[str, Any]]]:
    """Return the planned cell of a row, and the changes to it that give the other rows of the same
    method, recipe and seed.
    """
    base = next((item for item in planned if item.row == row), None)
    if base is None:
        raise UserError(f"row {row!r} is not there; {nearest(row, {i.row for i in planned})}")
    same_cell = [
        item
        for item in planned
        if (item.cell.method, item.cell.recipe, item.cell.seed)
        == (base.cell.method, base.cell.recipe, base.cell.seed)
    ]
    options = {item.row: with_defaults(item.cell.hp) for item in same_cell}
    changes = {
        name: {key: value for key, value in hp.items() if value != options[row][key]}
        for name, hp in options.items()
    }
    return base, {name: change for name, change in changes.items() if change}


def _changed(cell: Cell, change: Mapping[str, Any]) -> Cell:
    """Return the cell with other hyper-parameters, scored in every round."""
    scored = replace(cell.recipe.evaluation, every=1, finetuned_every=1)
    recipe = replace(cell.recipe, evaluation=scored)
    return build_cell(cell.method, {**cell.options, **change}, recipe, cell.seed, "twin")


def _disturbed(before: Mapping[str, Tensor], run: Run) -> dict[str, Tensor]:
    """Return the state with every number changed by as much as rounding."""
    draws = run.fed.rng("twin", run.round)

    def disturb(value: Tensor) -> Tensor:
        signs = torch.from_numpy(draws.choice([-1.0, 1.0], size=tuple(value.shape)))
        return (value * (1 + ROUNDING * signs)).to(value.dtype)

    return {
        name: disturb(value) if name.startswith("state/") and value.is_floating_point() else value
        for name, value in before.items()
    }


def compared(
    before: Mapping[str, Tensor], base: TwinRun, other: TwinRun, curve: str
) -> dict[str, float]:
    """Compare two runs of the same round from the same state, and their accuracy on the curve."""
    update = distance = 0.0
    for name, value in base.state.items():
        start, twin = before.get(f"state/{name}"), other.state.get(name)
        if not value.is_floating_point() or start is None or twin is None:
            continue
        update += float((value - start).double().square().sum())
        distance += float((value - twin).double().square().sum())
    pairs = list(zip(base.masks, other.masks, strict=False))
    same_masks = len(base.masks) == len(other.masks) and all(
        first.shape == second.shape for first, second in pairs
    )
    sent, twin_sent = _bytes(base), _bytes(other)
    return {
        "update": (distance / update) ** 0.5 if update else nan,
        "mask_entries": sum(mask.numel() for mask in base.masks),
        "masks_differ": sum(int((a != b).sum()) for a, b in pairs) if same_masks else nan,
        "bytes": (twin_sent - sent) / sent if sent else nan,
        "accuracy": 100 * (_accuracy(other, curve) - _accuracy(base, curve)),
    }


def _bytes(run: Run) -> int:
    return sum(int(line.sum()) for line in run.fed.network.ledger.round.values())


def _accuracy(run: Run, name: str) -> float:
    return next((v for r, n, v in reversed(run.rows) if (r, n) == (run.round, name)), nan)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        frame = study(**STUDIES[name])
        target = Path(__file__).parents[1] / f"{name}.csv"
        frame.to_csv(target, index=False, float_format="%.6g", lineterminator="\n")
        print(frame.to_string())
