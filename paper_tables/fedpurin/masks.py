"""Figures 5 and 6: which parameters were critical, and how often, from recorded masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_tables.core import figures, tables
from paper_tables.core.evidence import Evidence, pick, why_missing
from paper_tables.core.result import Absent, Claim, Figure, Result, Sheet
from paper_tables.fedpurin.settings import OURS, PAPER

COLUMN = "cifar10-dir0.1"
SHOWN_CLIENTS = 3
PAPER_TENSORS = {
    "stem.weight": "pre_conv",
    "layers.0.0.conv1.weight": "layers.0.0.conv1",
    "layers.1.0.conv1.weight": "layers.1.0.conv1",
    "layers.2.0.conv1.weight": "layers.2.0.conv1",
    "fc.weight": "fc",
}
UNSTATED = "The paper states neither α nor τ of these runs; ours use α = 0.1 and τ = 0.5, the first three clients, and one seed."
SLICES = "Of a convolution the first output kernel is shown, of the classifier all weights, as in the paper."


@dataclass(frozen=True)
class Tally:
    """Counts of rounds, tensor by tensor."""

    rounds: int
    clients: Mapping[str, np.ndarray]
    """Per tensor, how often each entry was critical at each client  [N, entries]."""
    server: Mapping[str, np.ndarray]
    """Per tensor, how often each entry of the global mean was non-zero  [entries]."""
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def shown(self) -> dict[str, str]:
        """The tensors of the figures, by the paper's names where the model is the paper's."""
        if all(name in self.shapes for name in PAPER_TENSORS):
            return PAPER_TENSORS
        weights = [name for name, shape in self.shapes.items() if len(shape) > 1]
        return {name: name.removesuffix(".weight") for name in (*weights[:4], weights[-1])}

    def part(self, name: str) -> slice:
        """The entries that the figures show."""
        shape = self.shapes[name]
        return slice(0, int(np.prod(shape[1:])) if len(shape) == 4 else int(np.prod(shape)))


def read(evidence: Evidence) -> Tally | str:
    """The recorded masks, or why there are none."""
    planned = pick(evidence, row=OURS, column=COLUMN)
    done = planned[planned["status"] == "done"]
    if done.empty:
        return why_missing(planned, evidence.scale)
    cell = done.iloc[0]
    arrays = evidence.arrays(str(cell["id"]))
    if not {"mask", "server", "layout/names"} <= set(arrays):
        return f"cell {str(cell['id'])[:12]} holds no mask tallies"
    places = list(zip(arrays["layout/names"].tolist(), arrays["layout/starts"].tolist(), arrays["layout/stops"].tolist(), strict=True))
    shapes = {name: _shape(text) for name, text in zip(arrays["layout/names"].tolist(), arrays["layout/shapes"].tolist(), strict=True)}
    return Tally(
        int(cell["recipe.training.rounds"]),
        {name: arrays["mask"][:, start:stop] for name, start, stop in places},
        {name: arrays["server"][start:stop] for name, start, stop in places},
        shapes,
    )


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in str(text).replace(",", "x").strip("()").split("x") if size.strip())


def fig5(evidence: Evidence) -> Result:
    """Ridge plots of activation frequencies."""
    what = "Distribution over parameters of the share of rounds in which each was critical (clients) or non-zero in the global mean (S)."
    return _figure(evidence, "fig5", "Figure 5: how often each parameter is critical", what, draw_ridges)


def fig6(evidence: Evidence) -> Result:
    """Heat maps of activation counts."""
    what = "Rounds in which each parameter was critical (clients) or non-zero in the global mean (S); darker is more often."
    return _figure(evidence, "fig6", "Figure 6: activation counts, parameter by parameter", what, draw_heat)


def _figure(evidence: Evidence, name: str, title: str, what: str, draw: Callable[[Sheet, Tally], Canvas]) -> Result:
    tally = read(evidence)
    caption = tables.caption(evidence, what, accuracy=False)
    if isinstance(tally, str):
        return Absent(PAPER, name, title, f"{caption} No figure: {tally}.", evidence.scale)
    return Figure(
        PAPER,
        name,
        title,
        caption,
        evidence.scale,
        (UNSTATED, SLICES),
        claims(tally) if name == "fig5" else (),
        tables.done_ids(evidence),
        draw=lambda sheet: draw(sheet, tally),
        data=data(tally),
        alt=f"{title}: {', '.join(tally.shown.values())} for three clients and the server.",
    )


def data(tally: Tally) -> pd.DataFrame:
    """What both figures draw: tensor, who (client number or S), entry, rounds."""
    parts = []
    for name, label in tally.shown.items():
        part = tally.part(name)
        for who, counts in _who(tally, name):
            kept = counts[part]
            parts.append(pd.DataFrame({"tensor": label, "who": who, "entry": np.arange(len(kept)), "rounds": kept.astype(int)}))
    return pd.concat(parts, ignore_index=True)


def _who(tally: Tally, name: str) -> list[tuple[str, np.ndarray]]:
    """Client number or S, with its counts."""
    clients = tally.clients[name][:SHOWN_CLIENTS]
    return [*((str(index), counts) for index, counts in enumerate(clients)), ("S", tally.server[name])]


def draw_ridges(sheet: Sheet, tally: Tally) -> Canvas:
    """One ridge plot per tensor."""
    canvas = sheet(11, 2.9)
    shown = tally.shown
    axes = figures.panels(canvas, len(shown), len(shown))
    for panel, (name, label) in zip(axes, shown.items(), strict=True):
        rows = _who(tally, name)
        figures.ridge(
            panel, [counts[tally.part(name)] / tally.rounds for _, counts in rows], [who for who, _ in rows], step=1 / tally.rounds
        )
        panel.set_title(label)
        panel.set_xlabel("Share of rounds")
    axes[0].set_ylabel("Client, server")
    return canvas


def draw_heat(sheet: Sheet, tally: Tally) -> Canvas:
    """One column per tensor, one row per client, the server below."""
    shown = tally.shown
    canvas = sheet(11, 3.8)
    axes = canvas.subplots(SHOWN_CLIENTS + 1, len(shown), squeeze=False)
    for column, (name, label) in enumerate(shown.items()):
        rows = _who(tally, name)
        for place, panel in enumerate(axes[:, column]):
            if place >= len(rows):
                panel.remove()
                continue
            who, counts = rows[place]
            figures.heat(panel, _grid(counts[tally.part(name)], tally.shapes[name]), top=tally.rounds)
            if column == 0:
                panel.set_ylabel(who, rotation=0, labelpad=10, va="center")
            if place == 0:
                panel.set_title(label)
    colours = figures.counts_scale(tally.rounds)
    canvas.colorbar(colours, ax=axes.ravel().tolist(), label="Rounds", shrink=0.9, pad=0.01)
    return canvas


def _grid(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A flat tensor as a picture: input channels beside each other in a kernel, classes above each other in a classifier."""
    if len(shape) == 2:
        return values.reshape(shape)
    channels, height, width = shape[1:]
    per_row = next(n for n in range(math.isqrt(channels - 1) + 1, channels + 1) if channels % n == 0)
    rows = channels // per_row
    return values.reshape(rows, per_row, height, width).transpose(0, 2, 1, 3).reshape(rows * height, per_row * width)


def claims(tally: Tally) -> tuple[Claim, ...]:
    """Sections 3.3 and 4.4, measured over whole tensors and all clients."""
    agreement = {label: _agreement(tally.clients[name]) for name, label in tally.shown.items()}
    *body, head = agreement.values()
    told = ", ".join(f"{label} {value:.2f}" for label, value in agreement.items())
    known = all(np.isfinite(v) for v in agreement.values())
    exchanged = [name for name in tally.clients if tally.clients[name].any()]
    never = sum(int((~tally.clients[name].any(axis=0)).sum()) for name in exchanged)
    size = sum(tally.clients[name].shape[1] for name in exchanged)
    return (
        Claim(
            "Clients agree on critical parameters in the feature extractor and differ in the classifier",
            bool(head < min(body)) if known else None,
            f"mean correlation of frequencies between clients: {told}",
        ),
        Claim(
            "No parameter is permanently silenced",
            never == 0,
            f"{100 * never / max(1, size):.1f} % of the exchanged parameters were critical at no client in any of {tally.rounds} rounds",
        ),
    )


def _agreement(counts: np.ndarray) -> float:
    """Mean Pearson correlation between clients' counts [N, entries]; clients whose counts do not vary are left out."""
    varied = counts[counts.std(axis=1) > 0].astype(float)
    if len(varied) < 2:
        return float("nan")
    table = np.corrcoef(varied)
    return float(table[~np.eye(len(table), dtype=bool)].mean())
