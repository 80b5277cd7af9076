"""The scripts behind single sentences of the papers' pages do what they say."""

from __future__ import annotations

import io
import pickle
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from repfl.algorithms.core.method import build
from repfl.bench.grid import plugins
from repfl.bench.grid.plan import Selection, plan
from repfl.paper_tables.fedobp.studies import propositions as fedobp
from repfl.paper_tables.fedpurin.studies import propositions as fedpurin
from repfl.paper_tables.star_pfl.studies import partition
from repfl.paper_tables.studies.digits_toy import Toy
from repfl.paper_tables.studies.twin_rounds import row_changes, twin_rounds
from tests.algorithms import toys
from tests.bench.conftest import ROOT

LOGGED = {"mode": "flbench", "body_epochs": 1, "detach": True, "newcomer": "global"}


# -- a published partition -------------------------------------------------------------------------


def test_shipped_clients_are_compared_sample_by_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A made-up clone, one of whose samples changed its client."""
    (tmp_path / "data/medmnist").mkdir(parents=True)
    (tmp_path / "split/medmnist0.1").mkdir(parents=True)
    labels = np.random.default_rng(0).integers(0, 4, 4000)
    np.save(tmp_path / "data/medmnist/ydata.npy", labels.astype(np.uint8))
    for alpha in partition.ALPHAS:
        parts = partition.ours(labels, alpha)
        assert len(np.unique(np.concatenate(parts))) == 4000
        parts[0][0] = parts[3][0]
        shipped = np.array([*parts, None], dtype=object)[:-1]
        file = f"partion_non_iid_dirichlet_{alpha}_20.npy"
        np.save(tmp_path / "split/medmnist0.1" / file, shipped, allow_pickle=True)
    partition.main(tmp_path)
    assert capsys.readouterr().out.count(": 59 of 60 parts equal") == 3


def test_a_shipped_file_may_hold_arrays_alone() -> None:
    with pytest.raises(pickle.UnpicklingError, match="is no array"):
        partition.Arrays(io.BytesIO(pickle.dumps(print))).load()


# -- equations on a toy ----------------------------------------------------------------------------


@pytest.mark.parametrize("script", [fedobp, fedpurin], ids=lambda script: script.__name__)
def test_the_committed_numbers_are_computed_again(script: ModuleType) -> None:
    path = Path(script.__file__ or "").parents[1] / "propositions.csv"
    committed = pd.read_csv(path)
    first = pd.DataFrame(islice(script.statements(Toy(0)), 2))
    assert list(first["quantity"]) == list(committed["quantity"][:2])
    assert first["value"].tolist() == pytest.approx(committed["value"][:2].tolist(), abs=2e-3)


def test_the_gradient_is_that_of_the_loss() -> None:
    toy = Toy(1)
    samples, step = toy.clients[0], torch.randn_like(toy.start) * 1e-6
    change = float(toy.loss(toy.start + step, samples) - toy.loss(toy.start - step, samples)) / 2
    assert change == pytest.approx(float(toy.gradient(toy.start, samples) @ step), rel=1e-4)


# -- variants of methods ---------------------------------------------------------------------------


@pytest.fixture
def two_workers() -> Any:
    """The module that the example makes."""
    plugins.load([str(ROOT / "paper_tables/fedobp/studies/two_workers.py")])
    return sys.modules[type(build("flute-two-workers")).__module__]


@pytest.mark.parametrize(
    ("workers", "durations", "order"),
    [
        (2, [5, 1, 1, 9, 2, 2], [1, 2, 0, 4, 5, 3]),
        (2, [3], [0]),
        (2, [2, 2, 2], [0, 1, 2]),
        (1, [5, 1, 4], [0, 1, 2]),
    ],
)
def test_jobs_end_in_the_order_of_their_workers(
    two_workers: Any,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    durations: list[int],
    order: list[int],
) -> None:
    monkeypatch.setattr(two_workers, "WORKERS", workers)
    assert two_workers.order_of_completion(durations) == order


def test_one_worker_returns_every_head_to_its_client_and_two_do_not(
    two_workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flute, two = (toys.run(name, LOGGED).state["own"] for name in ("flute", "flute-two-workers"))
    assert not torch.equal(two, flute)
    monkeypatch.setattr(two_workers, "WORKERS", 1)
    assert torch.equal(toys.run("flute-two-workers", LOGGED).state["own"], flute)


def test_the_selection_skew_is_noted_beside_the_same_run() -> None:
    plugins.load([str(ROOT / "paper_tables/pfeddst/studies/propositions.py")])
    noted, plain = (toys.run(n, {"degree": 2}, rounds=3) for n in ("selection-skew", "pfeddst"))
    assert torch.equal(noted.state["w"], plain.state["w"])
    notes = {name: value for round_, name, value in noted.rows if round_ == 3}
    skews = {n: v for n, v in notes.items() if n.startswith("note/skew/zero/")}
    assert max(skews, key=skews.__getitem__) == "note/skew/zero/with the largest losses"
    assert len(set(skews.values())) > 1


def test_the_skew_is_the_mean_loss_on_chosen_peers_over_that_on_all() -> None:
    plugins.load([str(ROOT / "paper_tables/pfeddst/studies/propositions.py")])
    skew = sys.modules[type(build("selection-skew")).__module__].skew
    one = torch.tensor([[0.5, 2.0, 4.0], [3.0, 0.5, 3.0], [1.0, 2.0, 0.5]])
    assert skew(one, torch.zeros(3), ~torch.eye(3, dtype=torch.bool)) == pytest.approx(1.0)
    chosen = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 0]]).bool()
    # means of the chosen: 4, 3 and 2; of all others: 3, 3 and 1.5
    assert skew(one, torch.zeros(3), chosen) == pytest.approx(9 / 7.5)
    # one less on the data of client 1: 4, 3 and 1; 2.5, 3 and 1
    assert skew(one, torch.tensor([0.0, 1.0, 0.0]), chosen) == pytest.approx(8 / 6.5)


def test_without_the_check_frozen_entries_stay_frozen() -> None:
    plugins.load([str(ROOT / "paper_tables/star_pfl/studies/propositions.py")])
    returned = {}
    for name in ("without-check", "star-pfl"):
        run = toys.run(name, rounds=1)
        returned[name] = 0
        for _ in range(4):
            before = run.state["client.active"].clone()
            run.step()
            returned[name] += int((run.state["client.active"] & ~before).sum())
    assert returned["without-check"] == 0
    assert returned["star-pfl"] > 0


# -- twin rounds -----------------------------------------------------------------------------------


def test_twin_rounds_see_what_an_option_changes() -> None:
    planned = plan(Selection(papers=["fedpurin"], scale="smoke"))
    cell = next(item.cell for item in planned if item.cell.method == "fedpurin")
    assert cell.hp.tau == 0.5
    changes = {"fewer": {"tau": 0.3}, "same": {"tau": 0.5}, "private": {"beta": 1}}
    frame = twin_rounds(cell, changes, [1, 2]).set_index(["round", "change"])

    assert (frame["mask_entries"] > 0).all()
    for round_ in (1, 2):
        rounding, same, fewer = (frame.loc[(round_, c)] for c in ("rounding", "same", "fewer"))
        assert 0 < rounding["update"] < 1e-4
        assert rounding["masks_differ"] <= 5
        assert same["update"] == same["masks_differ"] == same["bytes"] == 0
        assert fewer["update"] > 0.1
        # a fifth of all entries is critical no more
        assert -0.4 < fewer["bytes"] < -0.1
    assert (frame.loc[[(1, "private"), (2, "private")], "update"] > 0).all()


def test_rows_differ_also_by_an_option_that_a_cell_does_not_store() -> None:
    planned = plan(Selection(artefacts=["board/table1"], methods=["fedbabu"], scale="paper"))
    base, others = row_changes(planned, "FedBABU")
    assert "rate" not in base.cell.options
    assert set(others) == {"FedBABU, tuned rate"}
    assert others["FedBABU, tuned rate"].keys() == {"rate"}
    assert row_changes(planned, "FedBABU, tuned rate")[1] == {"FedBABU": {"rate": 1.0}}


def test_rows_that_switch_no_option_are_left_out() -> None:
    _, changes = row_changes(plan(Selection(artefacts=["fedobp/table2"])), "MNIST, Dir(0.5)")
    assert changes
    assert all(changes.values())
