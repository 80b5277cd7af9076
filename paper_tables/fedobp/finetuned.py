"""FedAvg after fine-tuning beside FedOBP in the authors' own logs: a claim and a figure of ours.

python -m repfl.paper_tables.fedobp.finetuned    # writes docs/methods/finetuned_pairs.svg
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from repfl.paper_tables.core import result
from repfl.paper_tables.core.claims.sentences import all_met, in_words
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.fedobp import logs
from repfl.paper_tables.fedobp.settings import DATASETS, PRINTED

TUNED, OURS, OURS_TUNED = "FedAvg, fine-tuned", "FedOBP", "FedOBP, fine-tuned"
NAMES = {printed: DATASETS[short] for short, printed in PRINTED.items()}
MOST = 0.75
"""Share of the columns in which the sentence must be true."""


def leads() -> pd.DataFrame:
    """Return the logged pairs at round 400 and FedAvg's lead over the better FedOBP, by column."""
    pairs = logs.finetuned()
    better = pairs[[OURS, OURS_TUNED]].max(axis=1)
    pairs.index = pd.Index([f"{NAMES[name]}, {setting}" for name, setting in pairs.index])
    return pairs.assign(lead=(pairs[TUNED].to_numpy() - better.to_numpy()).round(2))


def claim(scale: str, pairs: pd.DataFrame | None = None) -> Claim:
    """Return the check of ours on the authors' logs, which no run decides."""
    pairs = leads() if pairs is None else pairs
    numbers = {str(column): float(lead) for column, lead in pairs["lead"].items()}
    return result.claim(
        "finetuned-fedavg-ahead",
        "In the authors' logs FedAvg after five epochs of fine-tuning ends above FedOBP, before and"
        " after the same fine-tuning, in most columns without organ data",
        all_met(numbers, lambda lead: lead > 0, MOST),
        "points of lead at round 400 (one run a column, momentum 0.7):"
        f" {in_words(numbers, '{:+.2f}')}; not repeated by a run of ours",
        scale,
        place="the authors' logs",
        exact=True,
        ours=True,
    )


def draw(pairs: pd.DataFrame) -> Figure:
    """Draw the twelve pairs as differences to FedOBP, the largest lead on top."""
    ordered = pairs.sort_values("lead")
    canvas = Figure((7.2, 4.2), layout="constrained")
    axes = canvas.subplots()
    places = range(len(ordered))
    for name, face in ((OURS, "#0072b2"), (OURS_TUNED, "white")):
        gaps = ordered[TUNED] - ordered[name]
        label = f"minus {'FedOBP' if name == OURS else 'FedOBP after the same fine-tuning'}"
        axes.plot(gaps, places, "o", color="#0072b2", markerfacecolor=face, label=label)
    axes.axvline(0, color="0.4", linewidth=1)
    rows = zip(ordered.index, ordered[TUNED], ordered[OURS], strict=True)
    labels = [f"{column}: {tuned:.2f} and {own:.2f}" for column, tuned, own in rows]
    axes.set_yticks(list(places), labels)
    axes.set_xlabel("FedAvg after five epochs of fine-tuning minus FedOBP (points)")
    canvas.legend(loc="outside upper center", ncols=2, frameon=False)
    above = int((ordered["lead"] > 0).sum())
    finding = f"FedAvg, fine-tuned, ends above FedOBP in {above} of {len(ordered)} logged columns"
    canvas.suptitle(finding, fontsize=11)
    source = "Authors' logs (FedOBP_results at f64b10a): round 400, one seed, momentum 0.7"
    canvas.supxlabel(source, fontsize=7, color="0.4", x=0.02, ha="left")
    return canvas


def main() -> None:
    """Write the figure."""
    file = Path(__file__).resolve().parents[2] / "docs" / "methods" / "finetuned_pairs.svg"
    with mpl.rc_context({"svg.hashsalt": "repfl", "svg.fonttype": "none"}):
        draw(leads()).savefig(file, metadata={"Date": None})
    print(leads().to_string())


if __name__ == "__main__":
    main()
