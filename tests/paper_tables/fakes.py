"""Evidence without runs: the cells that a paper's grid plans, with invented but fixed numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from repfl.bench.cells.cell import entry
from repfl.bench.cells.grid import files
from repfl.bench.cells.plan import Planned
from repfl.bench.evidence.library import flatten
from repfl.paper_tables.core.evidence import Arrays, Reduce, wanted
from repfl.paper_tables.core.noise import UNKNOWN
from repfl.paper_tables.core.published import load
from tests.paper_tables.planned import number, planned

SIZES = {"tiny": 2746, "cnn4": 878538, "tiny-bn": 9962, "resnet8": 1235274, "resnet10": 4957092}


def row(item: Planned) -> dict[str, Any]:
    """A planned cell as artefacts see it, done."""
    cell, recipe = item.cell, item.cell.recipe
    method, hp, column = cell.method, dict(cell.hp), item.column
    value = 0.5 + 0.4 * number(method, sorted(hp.items()), column) + 0.02 * number(cell.id)

    def at(point: str) -> dict[str, Any]:
        shifted = value - 0.01 * number(point)
        last = {
            "mean": shifted - 0.01,
            "pooled": shifted - 0.01,
            "std": 0.1,
            "decile": shifted - 0.2,
        }
        return {
            "last": last,
            "max": {"mean": shifted, "pooled": shifted, "round": 5},
            "best_val": None,
        }

    points = {
        p: at(p) for p in ("pre_agg", "post_agg", *(["dense"] if method == "fedpurin" else []))
    }
    points["pre_agg"]["max"]["mean"] = value
    return {
        "id": cell.id,
        "artefact": item.artefact,
        "row": item.row,
        "column": column,
        "column_label": item.column_label,
        "method": method,
        "one_model": entry(method).one_model,
        "version": cell.version,
        "seed": cell.seed,
        "status": "done",
        "reason": "",
        "value": value,
        "dataset": recipe["dataset"],
        "floor.clients": 0.4 + 0.01 * number("floor", column, cell.seed),
        "floor.pooled": 0.4,
        "parameters": SIZES[recipe["model"]],
        "source": "record",
        "metrics": {"value": value, "points": points},
        **flatten(hp, "hp."),
        **flatten(recipe, "recipe."),
        **flatten(recipe["partition"]["options"], "partition."),
    }


class FakeEvidence:
    """What artefact functions ask for, invented."""

    def __init__(self, paper: str, artefact: str, scale: str = "smoke") -> None:
        self.scale = scale
        items = [item for item in planned(paper, scale) if item.artefact == artefact]
        self.seeds = tuple(sorted({item.cell.seed for item in items}))
        self.cells = pd.DataFrame([row(item) for item in items])
        self.published = load(files()[paper].parent / "published")
        self.noise = UNKNOWN

    def change(self, new_status: str, reason: str, /, **where: object) -> FakeEvidence:
        """The same evidence with some cells not done."""
        keep = pd.Series(True, index=self.cells.index)
        for name, value in where.items():
            keep &= self.cells[name] == value
        self.cells.loc[keep, ["status", "reason"]] = [new_status, reason]
        self.cells.loc[keep, "value"] = float("nan")
        return self

    def rounds(self, ids: Sequence[str], *names: str) -> pd.DataFrame:
        """Rising curves, and traffic in the proportions of real runs."""
        rows = []
        for _, cell in self.cells[self.cells["id"].isin(set(ids))].drop_duplicates("id").iterrows():
            last = int(cell["recipe.training.rounds"])
            for round_ in range(1, last + 1, max(1, last // 20)):
                rows.append(
                    (cell["id"], round_, "pre_agg/mean", cell["value"] * (1 - 0.5 / round_))
                )
                rows += [
                    (cell["id"], round_, f"traffic/{name}", value)
                    for name, value in self._traffic(cell, round_).items()
                ]
        return self.named(rows, names)

    @staticmethod
    def _traffic(cell: pd.Series, round_: int) -> dict[str, float]:
        size, clients = int(cell["parameters"]), int(cell["recipe.clients"])
        late = cell["method"] != "fedavg" and round_ > float(cell.get("hp.beta", 0))
        masked = cell["method"] == "fedpurin"
        up, down = (size // 2 if masked else size), (size // (6 if masked else 2) if late else size)
        code = 0 if cell["method"] == "fedavg" else size // 8
        lines = {
            "up_values": 4 * up,
            "up_codes": code,
            "down_values": 4 * down,
            "down_codes": code if masked else 0,
        }
        return {name: float(value * clients) for name, value in lines.items()}

    @staticmethod
    def named(rows: Iterable[tuple[str, int, str, float]], names: Sequence[str]) -> pd.DataFrame:
        """The rows that are asked for."""
        kept = [row for row in rows if wanted(row[2], names)]
        return pd.DataFrame(kept, columns=["id", "round", "name", "value"])

    def arrays(self, cell: str, reduce: Reduce) -> Arrays:
        """Made of the mask tallies of a small net with the tensors of a real one."""
        found = self.cells[self.cells["id"] == cell].iloc[0]
        clients, rounds = int(found["recipe.clients"]), int(found["recipe.training.rounds"])
        shapes = {
            "conv1.weight": (8, 1, 3, 3),
            "bn1.weight": (8,),
            "conv2.weight": (16, 8, 3, 3),
            "fc1.weight": (32, 256),
            "fc2.weight": (10, 32),
        }
        stops = np.cumsum([int(np.prod(s)) for s in shapes.values()])
        starts = np.concatenate([[0], stops[:-1]])
        rng = np.random.Generator(np.random.Philox(7))
        mask = rng.binomial(
            rounds, rng.uniform(0.1, 0.9, size=(1, stops[-1])), size=(clients, stops[-1])
        ).astype(np.uint16)
        mask[:, starts[1] : stops[1]] = 0
        whole = {
            "mask": mask,
            "server": mask.max(0),
            "layout/names": np.array(list(shapes)),
            "layout/starts": starts,
            "layout/stops": stops,
            "layout/shapes": np.array(["x".join(map(str, s)) for s in shapes.values()]),
        }
        return reduce(whole)
