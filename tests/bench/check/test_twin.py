"""Twin rounds tell an option that matters from one that does not."""

from __future__ import annotations

from repfl.bench.check.twin import row_changes, twin_rounds
from repfl.bench.grid.plan import Selection, plan


def test_twin_rounds_see_what_an_option_changes() -> None:
    planned = plan(Selection(papers=["fedpurin"], scale="smoke"))
    cell = next(item.cell for item in planned if item.cell.method == "fedpurin")
    assert cell.hp["tau"] == 0.5
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
    assert "rate" not in base.cell.hp
    assert set(others) == {"FedBABU, tuned rate"}
    assert others["FedBABU, tuned rate"].keys() == {"rate"}
    assert row_changes(planned, "FedBABU, tuned rate")[1] == {"FedBABU": {"rate": 1.0}}


def test_rows_that_switch_no_option_are_left_out() -> None:
    _, changes = row_changes(plan(Selection(artefacts=["fedobp/table2"])), "MNIST, Dir(0.5)")
    assert changes
    assert all(changes.values())
