"""Changes under which FedOBP's claims that are no condition on a table hold, and fail."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from repfl.paper_tables.core import published
from repfl.paper_tables.core.result import Claim, Result
from repfl.paper_tables.fedobp import (
    ablation,
    claims,
    curves,
    downlink,
    facts,
    finetuned,
    layers,
    optima,
)
from repfl.paper_tables.fedobp.settings import PRINTED
from tests.paper_tables.doctored import (
    Case,
    Doctored,
    as_it_is,
    frame,
    giving,
    propositions,
    rendered_anew,
    told,
    told_beside,
    working,
)


def counts_agree(evidence: Doctored) -> None:
    """Table II prints what follows from N and q, and the share is held to one above it."""
    ours = facts.table2(evidence).frame.query("source != ''").set_index("source")["ours"]
    found = evidence.published["source"].map(ours)
    evidence.published["value"] = found.fillna(evidence.published["value"])
    evidence.state(lambda v: v + 0.1, metric="personalization_ratio_upper_bound")


LOW = ("APFL", "FLUTE", "FedALA")


def another_count(evidence: Doctored) -> bool:
    evidence.state(lambda v: v + 1, metric="number_of_methods_in_figures_2_3")
    return True


def drawn(evidence: Doctored, result: Result, turned: bool) -> Sequence[Claim]:
    """Figure 2 with some methods low and all others high; turned: the other way round."""
    data = frame(result)
    high = data["label"].isin(LOW) == turned
    return curves.fig2_claims(evidence, data.assign(mean=high * 80.0 + 10.0))


def climbing(evidence: Doctored) -> None:
    """Curves that rise until round 384."""
    evidence.curve = lambda f: f.assign(round=16 * f["round"], value=f["round"] / 24)


def all_alike(evidence: Doctored) -> None:
    evidence.set("value", 0.5)


def all_personal(evidence: Doctored) -> None:
    evidence.note(personal=1.0)


def more_rounds(evidence: Doctored) -> None:
    evidence.state(lambda v: v + 50, table="text V-A", metric="rounds")


def flat(evidence: Doctored) -> None:
    evidence.curve = lambda f: f.assign(value=0.5)


def quantile_spreads(evidence: Doctored, result: Result, calmest: str) -> Sequence[Claim]:
    """Figure 4 with accuracies that move with q, for one score least of all."""
    places = [
        (c, s, q) for c in ("organa", "organc") for s in ("I_O", "I_G", "I_F") for q in (0, 1)
    ]
    data = pd.DataFrame(places, columns=["column", "score", "step"])
    values = 50 + data["step"] * data["score"].ne(calmest) * 10.0
    lines = data.assign(q=0.5, ours=values, published=values)
    both = pd.concat([lines.assign(version=v) for v in ("as defined", "as logged")])
    return (optima._stable(both, "paper"),)


def sweep_verdicts(evidence: Doctored, result: Result, verdict: str) -> Sequence[Claim]:
    data = pd.DataFrame({"source": ["a", "b", "c"], "verdict": verdict})
    return (optima._sweeps_met(data, "paper"),)


def sweeps(evidence: Doctored, result: Result, middle: float) -> Sequence[Claim]:
    """Figure 4 with three points each, the second of which is so high."""
    places = [(c, s, q) for c in ("mnist", "fmnist") for s in optima.SCORES for q in (0, 0.5, 1)]
    data = pd.DataFrame(places, columns=["column", "score", "q"])
    values = pd.Series(50.0, index=data.index).where(data["q"] != 0.5, middle)
    lines = data.assign(rounds=200, ours=values, published=values)
    both = pd.concat([lines.assign(version=v) for v in optima.VERSIONS])
    return (optima._rise_and_fall(both, "paper"),)


def late_shares(evidence: Doctored, result: Result, by: float) -> Sequence[Claim]:
    """Figure 6 with every stated share in the middle of its range, or off it."""
    data, short_of = frame(result).copy(), {name: short for short, name in PRINTED.items()}
    rows = published.select(evidence.published, table="text V-F")
    for row in rows[rows["metric"].str.startswith(layers.RANGE)].to_dict("records"):
        low, high = map(float, str(row["mean"]).split("-"))
        for name in str(row["dataset"]).split(";"):
            at = data["layer"] == str(row["metric"]).removeprefix(layers.RANGE)
            data.loc[at & (data["column"] == short_of[name]), "share"] = (low + high) / 2 + by
    return layers.late_claims(evidence, data)


def drift(evidence: Doctored, result: Result, way: float) -> Sequence[Claim]:
    """Figure 6 with shares that move from layer to layer."""
    data = frame(result)
    signs = data["layer"].map({"conv1": -way, "classifier": way}).fillna(0.0)
    return (layers.trend(evidence, data.assign(share=0.5 + signs * data["round"] / 100)),)


def without_saving(evidence: Doctored, result: Result, last: float) -> Sequence[Claim]:
    """Figure 7 with one accuracy wherever something stays at home, and another at a ratio of 1."""
    data = frame(result)
    ours = pd.Series(50.0, index=data.index).where(data["q"] < 1, last)
    return downlink.claims(evidence, data.assign(score="I_O", ours=ours))


def lower_quantile(evidence: Doctored) -> None:
    """A hundredth more of the parameters is personal by q, and as many as before by the masks."""
    evidence.move("hp.q", -0.01)


def larger_models(evidence: Doctored) -> None:
    evidence.cells["parameters"] *= 2


def right_counts(evidence: Doctored) -> None:
    """What the text states of CIFAR-100 belongs to CIFAR-100."""
    slip = {"table": "text V-D", "dataset": PRINTED["cifar100"], "metric": optima.COUNT}
    evidence.state(lambda v: v.where(v < 1000, 92_470), **slip)


def fewer_sent(evidence: Doctored) -> float:
    """Half of the model goes up, and accuracy is best where nothing stays at home."""
    evidence.cells["traffic.up_values"] /= 2
    return 70.0


def tuned_leads(evidence: Doctored, result: Result, by: float) -> Sequence[Claim]:
    """The logged pairs, with every lead of fine-tuned FedAvg moved."""
    pairs = finetuned.leads()
    return (finetuned.claim("paper", pairs.assign(lead=pairs["lead"] + by)),)


LATE = tuple(
    f"late-{layer}-{columns}"
    for layer in ("classifier", "conv1")
    for columns in ("cifar10-cifar100", "emnist", "svhn", "mnist", "fmnist", "organa-organc")
)
CASES = (
    Case(
        "table2",
        ("counts-follow", "masks-have-counts", "share-below-half", "eighteen-parameters"),
        rendered_anew,
        counts_agree,
        lower_quantile,
    ),
    Case(
        "table3",
        ("protocol", "eight-compared"),
        told_beside(claims.protocol_claims),
        lambda e: e.state(lambda v: v + 4, metric="number_of_compared_methods"),
        lambda e: e.move("recipe.clients", 1),
    ),
    Case("table3", ("finetuned-fedavg-ahead",), tuned_leads, giving(0.0), giving(-5.0)),
    Case("table5", ("same-entries",), told(ablation.same_masks), all_alike, as_it_is),
    Case(
        "fig2",
        (
            *("eleven-baselines-drawn", "high-on-cifar10", "low-on-cifar10"),
            *("high-on-organa", "high-on-organc"),
        ),
        drawn,
        giving(False),
        another_count,
    ),
    Case("fig3", ("near-optimum-at-200",), told_beside(curves.fig3_claims), flat, climbing),
    *(
        Case(
            "fig4",
            (f"counts-{short}",),
            told(partial(optima._counts, short=short)),
            right_counts,
            larger_models,
        )
        for short in ("cifar10", "cifar100")
    ),
    Case("fig4", ("sweeps-met",), sweep_verdicts, giving("reproduced"), giving("differs")),
    Case("fig4", ("stable-on-organs",), quantile_spreads, giving("I_O"), giving("I_G")),
    Case("fig4", ("rise-and-fall",), sweeps, giving(60.0), giving(40.0)),
    propositions("fig4", claims),
    working("no-work-at-clients", "table4", "FedOBP"),
    Case("fig6", LATE, late_shares, giving(0.0), giving(0.3)),
    Case("fig6", ("constant-number",), told(layers.fixed), as_it_is, all_personal),
    Case("fig6", ("epochs-on-axis",), told(layers.axis), more_rounds, as_it_is),
    Case("fig6", ("moves-to-classifier",), drift, giving(1.0), giving(-1.0)),
    Case(
        "fig7",
        ("uplink-whole-model", "stable-to-nine-tenths"),
        without_saving,
        giving(30.0),
        fewer_sent,
    ),
)
