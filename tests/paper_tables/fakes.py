"""Evidence without runs: the cells that a paper's grid plans, with invented but fixed numbers."""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from paper_tables.core.published import load

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"tiny": 2746, "cnn4": 878538, "tiny-bn": 9962, "resnet8": 1235274, "resnet10": 4957092}


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """A deep merge of tables."""
    out = copy.deepcopy(base)
    for name, value in over.items():
        out[name] = merge(out[name], value) if isinstance(value, dict) and isinstance(out.get(name), dict) else copy.deepcopy(value)
    return out


@cache
def grid(paper: str) -> dict[str, Any]:
    """A paper's grid file."""
    return tomllib.loads((ROOT / "paper_tables" / paper / "grid.toml").read_text("utf-8"))


def recipe(paper: str, name: str, scale: str) -> dict[str, Any]:
    """A recipe at a scale."""
    tables = grid(paper)
    own = tables["recipes"][name]
    base = recipe(paper, own["inherit"], "paper") if "inherit" in own else {}
    full = merge(base, {k: v for k, v in own.items() if k != "inherit"})
    changes = tables["scales"][scale]
    return merge(merge(full, changes.get("recipe", {})), changes.get("recipes", {}).get(name, {}))


def number(*key: object) -> float:
    """A fixed number in [0, 1) for a key."""
    return int(hashlib.sha256(repr(key).encode()).hexdigest()[:12], 16) / 16**12


def leaves(table: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Dotted names of all leaves."""
    out: dict[str, Any] = {}
    for name, value in table.items():
        out |= leaves(value, f"{prefix}.{name}") if isinstance(value, dict) else {f"{prefix}.{name}": value}
    return out


def plan(paper: str, artefact: str, scale: str) -> Iterable[dict[str, Any]]:
    """One line per planned cell, all of them done."""
    tables = grid(paper)
    changes = tables["scales"][scale]
    for group in tables["artefacts"][artefact]["cells"]:
        if scale not in group.get("scales", [scale]):
            continue
        for column in group["recipes"]:
            full = recipe(paper, column, scale)
            label = full.pop("label")
            full["evaluation"] = merge(full.get("evaluation", {}), group.get("evaluation", {}))
            for row in group["rows"]:
                hp = row.get("hp", {}) | changes.get("methods", {}).get(row["method"], {})
                for seed in group.get("seeds", changes["seeds"]):
                    yield _cell(artefact, row, column, label, full, hp, seed)


def _cell(
    artefact: str, row: dict[str, Any], column: str, label: str, full: dict[str, Any], hp: dict[str, Any], seed: int
) -> dict[str, Any]:
    method = row["method"]
    text = json.dumps([method, hp, full, seed], sort_keys=True)
    value = 0.5 + 0.4 * number(method, sorted(hp.items()), column) + 0.02 * number(text)

    def at(point: str) -> dict[str, Any]:
        shifted = value - 0.01 * number(point)
        last = {"mean": shifted - 0.01, "pooled": shifted - 0.01, "std": 0.1, "decile": shifted - 0.2}
        return {"last": last, "max": {"mean": shifted, "pooled": shifted, "round": 5}, "best_val": None}

    points = {p: at(p) for p in ("pre_agg", "post_agg", *(["dense"] if method == "fedpurin" else []))}
    points["pre_agg"]["max"]["mean"] = value
    own = {"tau": 0.5, "beta": 100} | hp if method in ("fedcac", "fedpurin") else hp
    return {
        "id": hashlib.sha256(text.encode()).hexdigest(),
        "artefact": artefact,
        "row": row["label"],
        "column": column,
        "column_label": label,
        "method": method,
        "version": 1,
        "seed": seed,
        "status": "done",
        "reason": "",
        "value": value,
        "dataset": full["dataset"],
        "floor.clients": 0.4 + 0.01 * number("floor", column, seed),
        "floor.pooled": 0.4,
        "parameters": SIZES[full["model"]],
        "source": "record",
        "metrics": {"value": value, "points": points},
        **{f"hp.{k}": v for k, v in own.items()},
        **leaves(full, "recipe"),
        **{f"partition.{k}": v for k, v in full["partition"]["options"].items()},
    }


class FakeEvidence:
    """What artefact functions ask for, invented."""

    def __init__(self, paper: str, artefact: str, scale: str = "smoke") -> None:
        self.scale = scale
        self.seeds = tuple(grid(paper)["scales"][scale]["seeds"])
        self.cells = pd.DataFrame(plan(paper, artefact, scale))
        self.published = load(ROOT / "paper_tables" / paper / "published")

    def change(self, new_status: str, reason: str, /, **where: object) -> FakeEvidence:
        """The same evidence with some cells not done."""
        keep = pd.Series(True, index=self.cells.index)
        for name, value in where.items():
            keep &= self.cells[name] == value
        self.cells.loc[keep, ["status", "reason"]] = [new_status, reason]
        self.cells.loc[keep, "value"] = float("nan")
        return self

    def rounds(self, ids: Sequence[str]) -> pd.DataFrame:
        """Rising curves, and traffic in the proportions of real runs."""
        rows = []
        for _, cell in self.cells[self.cells["id"].isin(set(ids))].drop_duplicates("id").iterrows():
            last = int(cell["recipe.training.rounds"])
            for round_ in range(1, last + 1, max(1, last // 20)):
                rows.append((cell["id"], round_, "pre_agg/mean", cell["value"] * (1 - 0.5 / round_)))
                rows += [(cell["id"], round_, f"traffic/{name}", value) for name, value in self._traffic(cell, round_).items()]
        return pd.DataFrame(rows, columns=["id", "round", "name", "value"])

    @staticmethod
    def _traffic(cell: pd.Series, round_: int) -> dict[str, float]:
        size, clients = int(cell["parameters"]), int(cell["recipe.clients"])
        late = cell["method"] != "fedavg" and round_ > float(cell.get("hp.beta", 0))
        masked = cell["method"] == "fedpurin"
        up, down = (size // 2 if masked else size), (size // (6 if masked else 2) if late else size)
        code = 0 if cell["method"] == "fedavg" else size // 8
        lines = {"up_values": 4 * up, "up_codes": code, "down_values": 4 * down, "down_codes": code if masked else 0}
        return {name: float(value * clients) for name, value in lines.items()}

    def clients(self, ids: Sequence[str]) -> pd.DataFrame:
        """Per-client counts are not needed yet."""
        return pd.DataFrame(columns=["id", "round", "point", "client", "correct", "total"])

    def arrays(self, cell: str) -> dict[str, np.ndarray]:
        """Mask tallies of a small net with the tensors of a real one."""
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
        mask = rng.binomial(rounds, rng.uniform(0.1, 0.9, size=(1, stops[-1])), size=(clients, stops[-1])).astype(np.uint16)
        mask[:, starts[1] : stops[1]] = 0
        return {
            "mask": mask,
            "server": mask.max(0),
            "layout/names": np.array(list(shapes)),
            "layout/starts": starts,
            "layout/stops": stops,
            "layout/shapes": np.array(["x".join(map(str, s)) for s in shapes.values()]),
        }
