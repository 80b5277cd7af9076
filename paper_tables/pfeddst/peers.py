"""Figure 2: accuracy of the models of chosen peers on one client's data, with peers chosen at
random and by header.
"""

from __future__ import annotations

from math import exp, inf
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.sentences import Proposition, judge_propositions
from repfl.paper_tables.core.drawing import figure_style
from repfl.paper_tables.core.evidence import Evidence, pick, why_missing
from repfl.paper_tables.core.published import select
from repfl.paper_tables.core.result import Claim, NewCanvas, Result, claim
from repfl.paper_tables.pfeddst.settings import PAPER, scale_note

SELECTIONS = {"random": "(a) random selection", "header": "(b) selection by the header score"}
PREFIX = "note/peers/"
LATER = 2
"""Claims leave out the first round, in which all models are equal."""
UNSTATED = (
    "The paper names neither the client, nor the data set, nor the rounds. Ours: client 0 on"
    " CIFAR-10's partition, seed 0, models as they were at the end of the last round, on client 0's"
    " test images."
)
FIELDS = ["selection", "round", "peer", "accuracy"]


def fig2(evidence: Evidence) -> Result:
    """Return the accuracy of each chosen peer's model and of the client's own."""
    key, title = (PAPER, "fig2"), "Figure 2: what chosen peers' models are worth at one client"
    what = (
        "Circles: models of the chosen peers on client 0's test images. Dashed: their mean. Black:"
        " its own model. The paper draws bars; most of ours would have no height."
    )
    data = read(evidence)
    judged = claims(evidence, data)
    if data.empty:
        reason = why_missing(evidence.cells, evidence.scale)
        return forms.absent(evidence, key, title, what, reason, judged)
    columns = list(dict.fromkeys(evidence.cells["column"]))
    return forms.figure(
        evidence,
        key,
        title,
        what,
        lambda new_canvas: draw_peers(new_canvas, data),
        data,
        notes=(
            UNSTATED,
            *scale_note(evidence),
            *forms.missing(evidence, list(SELECTIONS), columns),
        ),
        claims=judged,
        findings=_means(data) if evidence.scale != "smoke" else (),
        alt=(
            "Accuracies of peers' models per round for random and header-based selection, and of"
            " the client's own model."
        ),
    )


def read(evidence: Evidence) -> pd.DataFrame:
    """Return accuracies in percent per selection, round and peer; peer -1 is the client itself."""
    parts = []
    for name in SELECTIONS:
        done = pick(evidence, row=name, done=True)
        curves = evidence.rounds(list(done["id"][:1]), PREFIX).sort_values("round", kind="stable")
        peers = curves["name"].astype(str).str.removeprefix(PREFIX).replace("own", "-1").astype(int)
        parts.append(
            pd.DataFrame(
                {
                    "selection": name,
                    "round": curves["round"],
                    "peer": peers,
                    "accuracy": 100 * curves["value"],
                }
            )
        )
    return pd.concat(parts, ignore_index=True)[FIELDS].astype({"round": int})


def split(data: pd.DataFrame, selection: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return the peers' accuracies [rounds, k] and the client's own [rounds]."""
    rows = data[data["selection"] == selection].sort_values("round")
    itself = rows["peer"] < 0
    peers = rows[~itself].pivot(index="round", columns="peer", values="accuracy")
    return peers, rows[itself].set_index("round")["accuracy"]


def _means(data: pd.DataFrame) -> tuple[str, ...]:
    """Return the mean accuracies of the chosen peers' models and of the client's own."""
    parts = []
    for name, title in SELECTIONS.items():
        peers, own = split(data, name)
        if len(peers) and len(own):
            mean = float(peers.to_numpy(dtype=float).mean())
            parts.append(f"{title} {mean:.0f} %, own model {own.mean():.0f} %")
    return (f"Mean accuracy of chosen peers' models on client 0: {'; '.join(parts)}.",)


STEP = 0.12
"""Rounds between the circles of a round, most of which have the same accuracy."""


def draw_peers(new_canvas: NewCanvas, data: pd.DataFrame) -> Canvas:
    """Draw a panel per selection."""
    canvas = new_canvas(9.5, 3.8)
    axes = figure_style.panels(canvas, 2, 2, sharey=True)
    for panel, (name, title) in zip(axes, SELECTIONS.items(), strict=True):
        peers, own = split(data, name)
        colour = figure_style.PALETTE[3]
        shifts = STEP * (np.arange(len(peers.columns)) - (len(peers.columns) - 1) / 2)
        for peer, shift in zip(peers, shifts, strict=True):
            panel.plot(
                peers.index + shift,
                peers[peer],
                "o",
                color=colour,
                markerfacecolor="none",
                markersize=4.5,
                label="models of chosen peers" if peer == peers.columns[0] else "_peers",
            )
        mean = peers.mean(axis=1)
        panel.plot(peers.index, mean, color=colour, linestyle="--", label="their mean")
        panel.plot(own.index, own, color="black", marker="s", markersize=3.5, label="own model")
        panel.set(title=title, xlabel="Round", ylim=(-3, 103))
    axes[0].set_ylabel("Accuracy on client 0 (%)")
    figure_style.legend_below(canvas, axes)
    return canvas


# -- sentences -------------------------------------------------------------------------------------


def claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """Return the claims of section II-B."""
    chosen = shared_claims.protocol(
        evidence,
        evidence.cells,
        ("peers-in-figure", "The client selects 10 peers in each round", "II-B"),
        {"peers_per_round": "hp.degree"},
        select(evidence.published, metric="peers_per_round"),
    )
    skewed = judge_propositions(
        pd.read_csv(FOLDER / "propositions.csv"), evidence.scale, PROPOSITIONS
    )
    return (chosen, recency(evidence), *worth(data, evidence.scale), *skewed)


FOLDER = Path(__file__).parent
NOISE = 0.05
"""Distance of the selection skew of random peers from 1 in these runs."""


def above_random(skew: float) -> bool | None:
    """Return whether a selection skew is above that of random peers, if it is not near it."""
    return None if abs(skew - 1) < NOISE else skew > 1


PROPOSITIONS = (
    Proposition(
        "skew-of-score",
        "peers chosen by the reconstructed score have a selection skew (equation 5) above 1, that"
        " of random peers",
        "II-B",
        "selection skew, peers by score, with the loss",
        above_random,
        "CIFAR-10 at the reduced scale",
    ),
)
"""Section II-B, as `studies/propositions.py` tries it."""


RATES, GAPS = (0.1, 0.3, 1.0, inf), range(1, 501)


def recency(evidence: Evidence) -> Claim:
    """Return the claim on equation 8, the CDF of an exponential distribution, over a whole run."""
    scores = [1 - exp(-rate * gap) for rate in RATES for gap in GAPS]
    detail = (
        f"from {min(scores):.2f} to {max(scores):.2f} for λ from 0.1 to ∞ and 1 to 500 rounds; at λ"
        f" = 0.3 it is {1 - exp(-0.3):.2f} after one round"
    )
    return claim(
        "recency-range",
        "The peer recency score ranges from 0 to 1, near 0 just after a choice and 1 long after it",
        min(scores) >= 0 and max(scores) <= 1,
        detail,
        evidence.scale,
        place="II-B",
        sources=tuple(select(evidence.published, metric="recency_range")["source"]),
        exact=True,
    )


def worth(data: pd.DataFrame, scale: str) -> tuple[Claim, ...]:
    """Return both claims on the accuracy of peers' models, at one client and from one seed."""
    sides = {name: split(data[data["round"] >= LATER], name) for name in SELECTIONS}
    better = alone = None
    means_words = shares_words = "one of the two runs is missing"
    if not any(peers.empty or own.empty for peers, own in sides.values()):
        means = {name: peers.mean(axis=1) for name, (peers, _) in sides.items()}
        share = float((means["header"] > means["random"]).mean())
        overall = {name: float(mean.mean()) for name, mean in means.items()}
        signs = {overall["header"] > overall["random"], share > 0.5}
        better = signs.pop() if share != 0.5 and len(signs) == 1 else None
        means_words = (
            f"mean {overall['header']:.1f} against {overall['random']:.1f} %, better in"
            f" {100 * share:.0f} % of {len(means['header'])} rounds (one seed)"
        )
        shares = {
            name: float((own >= peers.max(axis=1)).mean()) for name, (peers, own) in sides.items()
        }
        alone = min(shares.values()) > 0.5
        shares_words = "at least as good as every chosen peer in " + ", ".join(
            f"{100 * share:.0f} % of rounds ({name}, one seed)" for name, share in shares.items()
        )
    return (
        claim(
            "header-better-than-random",
            "Models of peers chosen by header generally outperform those of randomly chosen ones",
            better,
            means_words,
            scale,
            place="II-B",
        ),
        claim(
            "own-model-best",
            "The client's own model performs best on its data",
            alone,
            shares_words,
            scale,
            place="II-B",
        ),
    )
