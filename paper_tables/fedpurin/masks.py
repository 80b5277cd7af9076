"""Figures 5 and 6: which parameters were critical, and how often, from recorded masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import nan

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.claims.sentences import all_met, in_words
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Arrays, Evidence, pick, spans, why_missing
from repfl.paper_tables.core.number_text import plain
from repfl.paper_tables.core.result import Claim, NewCanvas, Result, claim
from repfl.paper_tables.fedpurin.settings import OURS, PAPER

COLUMN = "cifar10-dir0.1"
SHOWN_CLIENTS = 3
PAPER_TENSORS = {
    "stem.weight": "pre_conv",
    "layers.0.0.conv1.weight": "layers.0.0.conv1",
    "layers.1.0.conv1.weight": "layers.1.0.conv1",
    "layers.2.0.conv1.weight": "layers.2.0.conv1",
    "fc.weight": "fc",
}
UNSTATED = (
    "The paper states neither α nor τ of these runs; ours use α = 0.1 and τ = 0.5, the first three"
    " clients, and one seed."
)
SLICES = (
    "Of a convolution the first output kernel is shown, of the classifier all weights, as in the"
    " paper."
)


@dataclass(frozen=True)
class Tally:
    """Counts of rounds, tensor by tensor."""

    rounds: int
    counts: Mapping[str, np.ndarray]
    """Per shown tensor, how often each of its shown entries was critical at the first clients, and
    in the last row how often the global
    mean's was non-zero  [clients + 1, entries].
    """
    shapes: Mapping[str, tuple[int, ...]]
    agreement: Mapping[str, float]
    """Per shown tensor, the mean correlation between clients over all its entries."""
    silent: float
    """Share of the exchanged parameters that were never critical at any client."""

    @property
    def rows(self) -> list[str]:
        """Client numbers, and S for the server."""
        return [*map(str, range(len(next(iter(self.counts.values()))) - 1)), "S"]


def shown(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """The tensors of the figures, by the paper's names where the model is the paper's."""
    if all(name in shapes for name in PAPER_TENSORS):
        return PAPER_TENSORS
    weights = [name for name, shape in shapes.items() if len(shape) > 1]
    return {name: name.removesuffix(".weight") for name in (*weights[:4], weights[-1])}


def _part(shape: tuple[int, ...]) -> int:
    """How many entries of a tensor the figures show, from the first on."""
    return int(np.prod(shape[1:])) if len(shape) == 4 else int(np.prod(shape))


def tallies(arrays: Arrays) -> Arrays:
    """Reduce the tallies of all parameters of all clients to what the figures show; empty if there
    are none.
    """
    if not {"mask", "server", "layout/names"} <= set(arrays):
        return {}
    mask, slices = arrays["mask"], spans(arrays)
    texts = dict(zip(slices, arrays["layout/shapes"].tolist(), strict=True))
    chosen = shown({name: _shape(text) for name, text in texts.items()})
    communicated = [mask[:, span] for span in slices.values() if mask[:, span].any()]
    never = sum(int((~counts.any(axis=0)).sum()) for counts in communicated)
    result = {
        "shapes": np.array([texts[name] for name in chosen]),
        "names": np.array(list(chosen)),
        "agreement": np.array([_agreement(mask[:, slices[name]]) for name in chosen]),
        "silent": np.array(never / max(1, sum(counts.shape[1] for counts in communicated))),
    }
    for name in chosen:
        start = slices[name].start
        part = slice(start, start + _part(_shape(texts[name])))
        result[f"counts/{name}"] = np.vstack(
            [mask[:SHOWN_CLIENTS, part], arrays["server"][None, part]]
        )
    return result


def read(evidence: Evidence) -> Tally | str:
    """The recorded masks, or why there are none."""
    planned = pick(evidence, row=OURS, column=COLUMN)
    done = planned[planned["status"] == "done"]
    if done.empty:
        return why_missing(planned, evidence.scale)
    cell = done.iloc[0]
    arrays = evidence.arrays(str(cell["id"]), tallies)
    if not arrays:
        return f"cell {str(cell['id'])[:12]} holds no mask tallies"
    names = arrays["names"].tolist()
    return Tally(
        int(cell["recipe.training.rounds"]),
        {name: arrays[f"counts/{name}"] for name in names},
        {name: _shape(text) for name, text in zip(names, arrays["shapes"].tolist(), strict=True)},
        dict(zip(names, arrays["agreement"].tolist(), strict=True)),
        float(arrays["silent"]),
    )


def _shape(text: str) -> tuple[int, ...]:
    return tuple(
        int(size) for size in str(text).replace(",", "x").strip("()").split("x") if size.strip()
    )


def fig5(evidence: Evidence) -> Result:
    """Ridge plots of activation frequencies."""
    title = "Figure 5: how often each parameter is critical"
    what = (
        "Distribution over parameters of the share of rounds in which each was critical (clients)"
        " or non-zero in the global mean (S)."
    )
    return _figure(evidence, "fig5", title, what, draw_ridges, claims)


def fig6(evidence: Evidence) -> Result:
    """Heat maps of activation counts."""
    title = "Figure 6: activation counts, parameter by parameter"
    what = (
        "Rounds in which each parameter was critical (clients) or non-zero in the global mean (S);"
        " darker is more often."
    )
    return _figure(evidence, "fig6", title, what, draw_heat, lambda *_: ())


def _figure(
    evidence: Evidence,
    name: str,
    title: str,
    what: str,
    draw: Callable[[NewCanvas, Tally], Canvas],
    judge: Callable[[Tally | None, str], tuple[Claim, ...]],
) -> Result:
    tally, key = read(evidence), (PAPER, name)
    if isinstance(tally, str):
        return forms.absent(evidence, key, title, what, tally, judge(None, evidence.scale))
    return forms.figure(
        evidence,
        key,
        title,
        what,
        lambda new_canvas: draw(new_canvas, tally),
        data(tally),
        notes=(UNSTATED, SLICES),
        claims=judge(tally, evidence.scale),
        findings=denser(tally) if evidence.scale != "smoke" else (),
        alt=f"{title}: {', '.join(shown(tally.shapes).values())} for three clients and the server.",
    )


def denser(tally: Tally) -> tuple[str, ...]:
    """Return how often entries are critical at clients, and non-zero at the server."""
    shares = [100 * tally.counts[name] / tally.rounds for name in shown(tally.shapes)]
    clients, server = [each[:-1].mean() for each in shares], [each[-1].mean() for each in shares]
    return (
        f"Of {len(shares)} tensors, an entry is critical at a client in {min(clients):.0f} to"
        f" {max(clients):.0f} % of the rounds on average, and non-zero at the server in"
        f" {min(server):.0f} to {max(server):.0f} %.",
    )


def data(tally: Tally) -> pd.DataFrame:
    """Return what both figures draw: tensor, who (client number or S), entry, rounds."""
    parts = [
        pd.DataFrame({"rounds": counts.astype(int)})
        .rename_axis("entry")
        .reset_index()
        .assign(tensor=label, who=who)
        for name, label in shown(tally.shapes).items()
        for who, counts in zip(tally.rows, tally.counts[name], strict=True)
    ]
    return pd.concat(parts, ignore_index=True)[["tensor", "who", "entry", "rounds"]]


def draw_ridges(new_canvas: NewCanvas, tally: Tally) -> Canvas:
    """One ridge plot per tensor."""
    canvas = new_canvas(11, 2.9)
    tensors = shown(tally.shapes)
    axes = figure_style.panels(canvas, len(tensors), len(tensors), sharey=True)
    for panel, (name, label) in zip(axes, tensors.items(), strict=True):
        shares, names = list(tally.counts[name] / tally.rounds), [*map(_named, tally.rows)]
        plots.ridge(panel, shares, names, step=1 / tally.rounds)
        panel.set_title(label)
        panel.set_xlabel("Share of rounds")
    axes[0].set_ylabel("Entries, scaled")
    return canvas


def _named(who: str) -> str:
    return "Server" if who == "S" else f"Client {who}"


def draw_heat(new_canvas: NewCanvas, tally: Tally) -> Canvas:
    """One column per tensor, one row per client, the server below."""
    tensors = shown(tally.shapes)
    canvas = new_canvas(11, 3.8)
    axes = canvas.subplots(len(tally.rows), len(tensors), squeeze=False)
    for column, (name, label) in enumerate(tensors.items()):
        for panel, who, counts in zip(axes[:, column], tally.rows, tally.counts[name], strict=True):
            plots.heat(panel, _grid(counts, tally.shapes[name]), top=tally.rounds)
            if column == 0:
                panel.set_ylabel(_named(who))
        axes[0, column].set_title(label)
    canvas.supxlabel(
        "Entries of a kernel, input channels side by side; fc: a class per row", size=9
    )
    colours = plots.heat_scale(tally.rounds)
    canvas.colorbar(colours, ax=axes.ravel().tolist(), label="Rounds", shrink=0.9, pad=0.01)
    return canvas


def _grid(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A flat tensor as a picture: input channels beside each other in a kernel, classes above each
    other in a classifier.
    """
    if len(shape) == 2:
        return values.reshape(shape)
    channels, height, width = shape[1:]
    per_row = next(
        n for n in range(math.isqrt(channels - 1) + 1, channels + 1) if channels % n == 0
    )
    rows = channels // per_row
    return (
        values.reshape(rows, per_row, height, width)
        .transpose(0, 2, 1, 3)
        .reshape(rows * height, per_row * width)
    )


def claims(tally: Tally | None, scale: str) -> tuple[Claim, ...]:
    """Sections 3.3 and 4.4: agreement over whole tensors and all clients, and the drawn parts of
    the drawn clients; of one seed.
    """
    agreement: dict[str, float] = {}
    frequent, even, denser = (dict[str, float]() for _ in range(3))
    silent = nan
    if tally is not None:
        labels = shown(tally.shapes)
        agreement = {label: tally.agreement[name] for name, label in labels.items()}
        shares = {label: tally.counts[name] / tally.rounds for name, label in labels.items()}
        mean = {label: float(each[:-1].mean()) for label, each in shares.items()}
        spread = {label: float(each[:-1].std(axis=1).mean()) for label, each in shares.items()}
        first, *middle, last, _ = labels.values()
        for outer in (first, last):
            for inner in middle:
                frequent[f"{outer} over {inner}"] = mean[outer] - mean[inner]
                even[f"{inner} over {outer}"] = spread[inner] - spread[outer]
        denser = {label: float(each[-1].mean()) - mean[label] for label, each in shares.items()}
        silent = 100 * tally.silent
    *body, head = agreement or {"": nan, " ": nan}
    values = agreement or {"": nan, " ": nan}
    lead = min(values[name] for name in body) - values[head]
    agreement_words = ", ".join(f"{label} {value:.2f}" for label, value in agreement.items())

    def on(name: str, text: str, place: str, numbers: Numbers, what: str, met: Met) -> Claim:
        why = f"{what}: {in_words(numbers, partial(plain, digits=3))}"
        return claim(name, text, all_met(numbers, met), why, scale, place=place)

    return (
        on(
            "consensus-in-extractor",
            "Clients agree on critical parameters in the feature extractor and differ in the"
            " classifier",
            "4.4",
            {"least lead over the classifier": lead},
            f"mean correlation of frequencies between clients (one seed; {agreement_words})",
            above_zero,
        ),
        on(
            "none-silenced",
            "Dynamic selection prevents any parameter from being permanently silenced",
            "3.3",
            {"percent": silent},
            "exchanged parameters that were critical at no client in any round (one seed)",
            lambda share: share == 0,
        ),
        on(
            "middle-blocks-sparser",
            "The first convolution and the last block are activated more often than the middle"
            " blocks",
            "4.4",
            frequent,
            "difference of the mean share of rounds (three clients, one seed)",
            above_zero,
        ),
        on(
            "outer-blocks-uniform",
            "The first convolution and the last block are selected more uniformly than the middle"
            " blocks",
            "4.4",
            even,
            "difference of the deviation over parameters (three clients, one seed)",
            above_zero,
        ),
        on(
            "server-denser",
            "The server's model is denser than the clients' selections",
            "4.4",
            denser,
            "share of rounds at the server minus that of three clients (one seed)",
            above_zero,
        ),
    )


Numbers = Mapping[str, float]
Met = Callable[[float], bool | None]


def above_zero(value: float) -> bool:
    return value > 0


def _agreement(counts: np.ndarray) -> float:
    """Mean Pearson correlation between clients' counts [N, entries]; clients whose counts do not
    vary are left out.
    """
    varied = counts[counts.std(axis=1) > 0].astype(float)
    if len(varied) < 2:
        return float("nan")
    table = np.corrcoef(varied)
    return float(table[~np.eye(len(table), dtype=bool)].mean())
