"""What the page says of the authors' logs follows from the committed values."""

from __future__ import annotations

import numpy as np
import pytest

from repfl.paper_tables.core import published
from repfl.paper_tables.fedobp import logs
from repfl.paper_tables.fedobp.settings import FOLDER
from repfl.paper_tables.fedobp.studies import print_and_logs as study


def test_what_the_page_says_of_the_logs_follows_from_them() -> None:
    gaps = study.differences()
    assert (gaps.shape, int((gaps < 0).to_numpy().sum())) == ((8, 12), 87)
    cells = study.informative()
    found = [int(study.lies_at(cells, d).sum()) for d in (1.25, 1.5, np.sqrt(3), 2.0, 2.25)]
    assert (len(cells), found) == (118, [2, 4, 74, 0, 0])
    workers = study.workers()
    gap = (workers["serial"] - workers["parallel"]).round(2)
    far = {"FLUTE": 6.69, "LG-FedAvg": 0.66, "pFedFDA": -0.93}
    assert gap[list(far)].to_dict() == pytest.approx(far)
    assert (len(gap), gap.drop(list(far)).abs().max() <= 0.04) == (8, True)
    both = logs.logged().query("dataset == 'MNIST' and setting == 'Dir(0.1)'")
    modes = both.groupby("method")["mode"].nunique()
    assert set(modes[modes > 1].index) == set(gap.index)
    tuned = logs.finetuned()
    assert (len(tuned), list(tuned.index[tuned["lead"] <= 0])) == (12, ["CIFAR-10, Dir(0.1)"])
    table5 = study.beside_print("V")
    differ = table5[table5["mean"] != table5["best"]]
    assert (len(table5), len(differ)) == (32, 4)
    assert set(differ["method"]) == {"FedOBP GlobalNorm with CLS"}


def test_published_logs_of_100_rounds_are_those_of_the_last_runs() -> None:
    """FedOBP's at Dir(0.1) are those without an average over visits."""
    rows = published.read_published(FOLDER / "published").frame.query(
        "metric == 'test_accuracy_round_100'"
    )
    runs = logs.last_runs().set_index(logs.KEYS)["round_100"]
    for dataset, setting, method, value in rows[[*logs.KEYS, "value"]].itertuples(index=False):
        level = setting.partition(";")[0]
        plain = (method, level) == ("FedOBP", "Dir(0.1)")
        assert value == runs[dataset, level, "FedOBP GlobalNorm w/o CLS" if plain else method]
    assert len(rows) == 16 * 11
