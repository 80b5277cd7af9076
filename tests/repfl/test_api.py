"""`import repfl`: the command line's cells, and what is known of them, as data frames."""

from __future__ import annotations

import gc
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from math import isnan
from pathlib import Path

import numpy as np
import pytest
import torch

import repfl
from repfl.bench.evidence import plan_status
from repfl.bench.evidence.committed.committed_runs import read
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.planned import unique
from repfl.bench.store.store import Store
from tests.bench.conftest import FAULTY, ROOT, environment, refusal, says

RECIPE = "fedpurin/cifar10-dir0.1"
OWN = {
    "dataset": "digits",
    "model": "tiny",
    "clients": 2,
    "partition": {"rule": "client-dirichlet", "options": {"alpha": 0.5, "train": 20, "test": 10}},
    "training": {"rounds": 2, "epochs": 1, "batch": 10, "lr": 0.1},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four small cells."""
    folder: Path = tmp_path_factory.mktemp("results")
    repfl.grid(["fedavg", "fedper"], {"mine": OWN}, seeds=(0, 1), results=folder)
    return folder


def test_one_cell_in_two_lines(results: Path) -> None:
    found = repfl.run("fedavg", OWN, seed=0, results=results)
    assert found.status == "done"
    assert found.accuracy == found.record.value
    assert list(found.curves.index) == [1, 2]
    assert found.curves["post_agg/mean"].iloc[-1] == found.accuracy
    assert found.clients["accuracy"].mean() == pytest.approx(found.accuracy)
    assert list(found.clients.index) == [0, 1]


def test_a_stored_cell_is_not_computed_again_and_one_of_other_versions_is_named(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repfl.bench.run.attempt.compute", None)
    assert repfl.run("fedavg", OWN, seed=1, results=results).status == "done"
    monkeypatch.setattr("repfl.algorithms.core.ENGINE", 10**6)
    with pytest.warns(UserWarning, match=r"made by engine .* fresh=True computes it again"):
        repfl.run("fedavg", OWN, seed=1, results=results)


def test_the_command_of_a_record_repeats_its_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = repfl.run("fedavg", OWN, results=tmp_path, precision="fp64")
    python, _, code = shlex.split(found.record.origin.command)
    monkeypatch.setenv("REPFL_RESULTS", str(tmp_path / "again"))
    exec(code)
    again = Store(tmp_path / "again").get(found.id)
    assert python == "python"
    assert again is not None
    assert again.origin.digests == found.record.origin.digests


def test_hyper_parameters_come_by_name_or_in_the_method_and_numbers_from_numpy(
    results: Path,
) -> None:
    by_name = repfl.run("fedpurin", OWN, hp={"tau": np.float32(0.25)}, results=results)
    assert by_name.id == repfl.run("fedpurin[tau=0.25]", OWN, results=results).id
    assert repfl.load(results, measured=False).loc[by_name.id, "options"] == "tau=0.25"
    rounds = {**OWN["training"], "rounds": np.int64(2)}  # type: ignore[dict-item]
    one = repfl.run("fedavg", {**OWN, "training": rounds}, seed=np.int64(1), results=results)
    assert one.id == repfl.run("fedavg", OWN, seed=1, results=results).id
    found = repfl.grid("fedavg", {"mine": OWN}, seeds=np.arange(2), results=results)
    assert list(found["seed"]) == [0, 1]


ARRAYS = """
import os
import numpy as np
from repfl.datasets.core.files.custom import from_arrays, register

def make():
    x = np.random.default_rng(0).normal(size=(80, 3))
    x[0, 0] = float(os.environ["FIRST"])
    return {"all": (x, np.arange(80) % 2)}

register(from_arrays("blobs", make, classes="ab", shape=(3,)))
"""


def test_a_stored_result_whose_arrays_cannot_be_read_today_is_named(tmp_path: Path) -> None:
    (tmp_path / "blobs.py").write_text(ARRAYS)
    script = """
import repfl, sys
iid = {"rule": "iid", "options": {"test_share": 0.25}}
training = {"rounds": 1, "epochs": 1, "batch": 10, "lr": 0.1}
mine = {"dataset": "blobs", "model": "mlp", "clients": 2, "partition": iid, "training": training}
print(repfl.run("fedavg", mine, plugins=["blobs.py"], results="r").accuracy)
"""
    command, how = [sys.executable, "-c", script], {"cwd": tmp_path, "capture_output": True}
    first, second = (
        subprocess.run(command, env=environment(FIRST=value), text=True, check=True, **how)
        for value in ("0", "nan")
    )
    assert first.stdout == second.stdout
    assert "is not of today" not in first.stderr
    assert "today's cannot be read: blobs all: features are not all finite" in second.stderr


def test_the_process_keeps_its_own_settings(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    gc.unfreeze()
    try:
        repfl.run("fedavg", OWN, results=tmp_path)
        assert (torch.get_num_threads(), gc.get_freeze_count()) == (2, 0)
    finally:
        torch.set_num_threads(before)
        gc.freeze()


def test_a_grid_is_the_rows_of_load_in_its_own_order(results: Path) -> None:
    found = repfl.grid(["fedper", "fedavg"], {"mine": OWN}, seeds=(1, 0), results=results)
    alone = repfl.grid("fedper", {"mine": OWN}, seeds=1, results=results)
    assert list(alone.index) == list(found.index[:1])
    assert list(zip(found["row"], found["seed"], strict=True)) == [
        ("fedper", 1), ("fedper", 0), ("fedavg", 1), ("fedavg", 0),
    ]  # fmt: skip
    assert set(found["recipe"]) == {"mine"}
    assert found["accuracy"].notna().all()
    counts = repfl.clients(found)
    assert counts.groupby("id")["accuracy"].mean().to_dict() == pytest.approx(
        found["accuracy"].to_dict()
    )
    assert set(repfl.curves(found)["id"]) == set(found.index)
    per_seed = counts.groupby(["method", "recipe", "seed"])["accuracy"].mean()
    keys = zip(found["method"], found["recipe"], found["seed"], strict=True)
    assert [per_seed[key] for key in keys] == pytest.approx(list(found["accuracy"]))
    one = repfl.curves(str(found.index[0]), results)
    assert one[["method", "recipe", "seed"]].drop_duplicates().to_numpy().tolist() == [
        ["fedper", "digits", 1]
    ]


def test_load_has_own_runs_before_measured_values_and_says_where_each_is_from(
    results: Path,
) -> None:
    found = repfl.load(results)
    assert found.index.is_unique
    assert set(found["source"]) == {"record", "committed"}
    found = repfl.load(results, paper="fedobp", scale="desk")
    measured = found[found["source"] == "committed"]
    assert set(measured["paper"]) == {"fedobp"}
    assert measured["accuracy"].between(0, 1).all()
    line = measured[measured["status"] == "done"].index[0]
    assert repfl.curves(line[:20])["name"].str.startswith("post_agg/").any()


def test_load_names_recipes_and_knows_plugins(faulty: Path, tmp_path: Path) -> None:
    fast = "test-slow[seconds=0]"
    repfl.run(fast, repfl.recipe(RECIPE), plugins=[FAULTY], results=tmp_path)
    for lr in (0.1, 0.2):
        own = OWN | {"training": OWN["training"] | {"lr": lr}}
        repfl.run(fast, own, plugins=[FAULTY], results=tmp_path)
    found = repfl.load(tmp_path, measured=False, plugins=[FAULTY]).set_index("recipe")
    name = next(each for each in found.index if RECIPE.partition("/")[2] in each.split(" | "))
    assert set(found.index) == {name, "training.lr = 0.1", "training.lr = 0.2"}
    named = found.loc[name]
    assert (named["paper"], named["scale"]) == ("fedpurin", "smoke")
    assert set(found["stale"]) == {""}
    assert (found["bytes"] > 0).all()


def test_load_of_a_paper_leaves_out_runs_of_other_papers_and_scales(tmp_path: Path) -> None:
    """A method that the paper's grid lacks is no reason to leave a run out."""
    size = {"clients": 2, "training": {"rounds": 1}}
    repfl.run("fedavg", repfl.recipe(RECIPE, **size), results=tmp_path)
    planned = repfl.run("local", RECIPE, results=tmp_path)
    for chosen in ({"paper": "fedpurin"}, {"scale": "smoke"}):
        found = repfl.load(tmp_path, measured=False, **chosen)
        assert list(found.index) == [planned.id]
    for chosen in ({"paper": "fedselect"}, {"scale": "desk"}):
        assert repfl.load(tmp_path, measured=False, **chosen).empty
    assert len(repfl.load(tmp_path, measured=False)) == 2


def test_load_knows_of_measured_values_what_their_grid_says(tmp_path: Path) -> None:
    """Whether they are stale as `repfl plan --stale` tells it, and the floor of the average that
    their recipe reports.
    """
    paper, scale = "star-pfl", "desk"
    found, lines = repfl.load(tmp_path, paper=paper, scale=scale), read(paper, scale)
    planned = plan(Selection(papers=[paper], scale=scale))
    stale = plan_status.stale(planned, plan_status.Statuses(Store(tmp_path)))
    found = found.loc[found.index.intersection([item.cell.id for item in planned])]
    assert set(found.index[found["stale"] != ""]) == stale.keys()
    for item in unique(planned):
        if (line := lines.line(item.cell.id)) is not None and line.value is not None:
            average = item.cell.recipe.evaluation.average
            floor = line.record.metrics.floor.plain[average]
            assert found.loc[item.cell.id, "floor"] == floor


def test_a_damaged_record_costs_itself_and_a_warning(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "r")
    cell = Store(tmp_path / "r").ids()[0]
    (tmp_path / "r" / cell / "record.json").write_text("{}")
    with pytest.warns(UserWarning, match="record.json"):
        found = repfl.load(tmp_path / "r", measured=False)
    assert cell not in found.index
    assert len(found) == len(Store(tmp_path / "r").ids()) - 1


def test_a_table_has_printed_and_ours_whose_rows_are_compared(tmp_path: Path) -> None:
    found = repfl.table("fedpurin/table3", results=tmp_path)
    assert {"printed", "ours", "low", "high", "difference", "verdict", "runs"} <= {*found}
    assert found.index.names == ["row", "column"]
    assert found.attrs["scale"] == "desk"
    assert found["ours"].notna().any()
    assert found["printed"].notna().any()
    asked = {"scale": "paper", "results": tmp_path}
    found = repfl.compare("fedobp/table4", "FedOBP", "FedPer", **asked)
    table = repfl.table("fedobp/table4", **asked)["ours"].unstack()
    assert list(found.index) == ["MNIST, Dir(0.1)", "Fashion-MNIST, Dir(0.1)"]
    for column, line in found.iterrows():
        expected = table.loc["FedOBP", column] - table.loc["FedPer", column]
        assert line["difference"] == pytest.approx(expected)
        assert (line["low"] < line["difference"] < line["high"]) == (line["seeds"] >= 3)
        assert isnan(line["p"]) == (line["seeds"] < 3)
    own = repfl.compare("fedpurin/table1", "FedPURIN", "FedCAC", "desk", tmp_path)
    assert "CIFAR-100, α = 0.1" in own.index
    assert "CIFAR-100, α = 0.01" not in own.index  # the table has no cells of ours for it
    with pytest.raises(repfl.UserError, match="did you mean FedPer"):
        repfl.compare("fedobp/table4", "FedOBP", "FedPr", **asked)
    with pytest.raises(repfl.UserError, match="is a figure"):
        repfl.compare("fedobp/fig4", "I_O", "I_F", **asked)


RATES = """
title = "Rates"
year = 2026

[recipes.small]
dataset = "digits"
model = "tiny"
clients = 2
partition = { rule = "iid" }
training = { rounds = 1, epochs = 1, batch = 64, lr = 0.1 }

[scales.smoke]
seeds = [0]

[artefacts.table]
kind = "table"
title = "Two rates"
[[artefacts.table.cells]]
recipes = ["small"]
rows = [{ label = "FedAvg, {training.lr}", method = "fedavg" }]
sweep = { training.lr = [0.1, 0.2] }
"""


def test_a_grid_of_ones_own_has_its_table_and_names_what_it_sweeps(tmp_path: Path) -> None:
    (tmp_path / "rates.toml").write_text(RATES)
    mine = {"results": tmp_path / "r", "grids": [tmp_path / "rates.toml"]}
    for lr in (0.1, 0.2):
        recipe = repfl.recipe("rates/small", grids=[tmp_path / "rates.toml"], training={"lr": lr})
        repfl.run("fedavg", recipe, results=mine["results"])
    found = repfl.load(measured=False, **mine)
    assert set(found["recipe"]) == {"small", "small[training.lr=0.2]"}
    repfl.run("fedavg", OWN, results=mine["results"])
    assert {*repfl.load(paper="rates", **mine).index} == {*found.index}
    table = repfl.table("rates/table", **mine)
    assert list(table.index.get_level_values("row")) == ["FedAvg, 0.1", "FedAvg, 0.2"]
    assert list(100 * found.sort_values("recipe")["accuracy"]) == pytest.approx(list(table["ours"]))


WAVES = """
import random
import numpy as np
from repfl.datasets.core.files.custom import from_arrays
from repfl.datasets.core.registry import register

rng = np.random.default_rng(0)
labels = np.arange(80) % 2
images = (rng.random((80, 8, 8, 1)) * 100 + 100 * labels[:, None, None, None]).astype("uint8")


def make():
    random.random()  # as some libraries do while they are imported
    return {"all": (images, labels)}

register(from_arrays("test-waves", make, classes="ab", shape=(8, 8, 1)))
"""
SCRIPT = f"""
import repfl

print("once")
recipe = {{
    "dataset": "test-waves", "clients": 2, "model": "tiny",
    "partition": {{"rule": "iid", "options": {{"test_share": 0.5}}}},
    "training": {{"rounds": 1, "epochs": 1, "batch": 4, "lr": 0.1}},
    "evaluation": {{"point": "post_agg", "rule": "last", "metrics": ["macro-f1", "auc"]}},
}}
repfl.run("local", recipe, plugins=["waves.py"], keep_models="last", workers=1)
row = repfl.load("results", measured=False, plugins=["waves.py"]).iloc[0]
print(row["macro-f1"] >= 0, *repfl.client_data(row.name, 0, plugins=["waves.py"])[0].shape)
found = repfl.grid(["fedavg"], {{"m": {OWN}}}, workers=1)
print(*found["status"], *found.index)
"""


def test_a_script_needs_no_guard_for_workers_which_compute_the_same_bits(
    results: Path, tmp_path: Path
) -> None:
    """A worker does not run the script again that started it, and its metrics import what they like
    where none was used before.
    """
    (tmp_path / "waves.py").write_text(WAVES)
    (tmp_path / "script.py").write_text(SCRIPT)
    command, how = [sys.executable, "script.py"], {"cwd": tmp_path, "capture_output": True}
    done = subprocess.run(command, env=environment(), text=True, **how)
    *words, cell = done.stdout.split() or [""]
    assert words == ["once", "True", "20", "1", "8", "8", "done"], done.stderr
    one, other = (Store(folder).get(cell) for folder in (results, tmp_path / "results"))
    assert one is not None
    assert other is not None
    assert one.origin.digests == other.origin.digests


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: repfl.run("fedavgg", OWN), "unknown method 'fedavgg'; did you mean fedavg"),
        (lambda: repfl.run("fedavg", RECIPE + "5"), "unknown recipe"),
        (lambda: repfl.run("fedavg", {"dataset": "digits"}), "field 'training' is missing"),
        (lambda: repfl.run("fedavg", OWN, seed=-1), "seed = -1 is not valid"),
        (lambda: repfl.run("fedavg", OWN, hp={"share": 1}), "unknown field 'share'"),
        (lambda: repfl.run("fedavg", OWN, frsh=True), "unknown option 'frsh'; did you mean fresh"),
        (lambda: repfl.grid(["fedavg"], [OWN]), "need names"),
        (lambda: repfl.grid(["fedavg"], repfl.recipe(RECIPE)), "need names"),
        (lambda: repfl.grid([], {"mine": OWN}), "nothing to compute"),
        (lambda: repfl.run(None, OWN), "unknown method 'None'"),  # type: ignore[arg-type]
        (lambda: repfl.table("fedobp/table33"), "unknown artefact 'fedobp/table33'"),
        (lambda: repfl.table("fedobp/table3", scale="big"), "unknown scale 'big'"),
        (lambda: repfl.load(paper="fedopb"), "unknown paper 'fedopb'; did you mean fedobp"),
        (lambda: repfl.load("/nowhere"), "results='/nowhere': there is no such folder"),
        (lambda: repfl.curves("zzz"), "no cells have ids that start with 'zzz'"),
        (lambda: repfl.recipe(RECIPE, training={"rounds": 0}), "training.rounds = 0 is not valid"),
    ],
)
def test_what_cannot_be_done_is_one_line(call: Callable[[], object], words: str) -> None:
    says(refusal(call), words)


FLAKY = """
from repfl.algorithms.core.method import register
from repfl.algorithms.fedavg import FedAvg

@register("test-flaky", title="t", paper="none", year=2026, family="global", sends="all")
class Flaky(FedAvg):
    def round(self, state, fed):
        if "now" == "not now":
            raise RuntimeError("broken")
        return super().round(state, fed)
"""


def test_a_failure_is_an_exception_of_a_run_and_a_row_of_a_grid(
    faulty: Path, tmp_path: Path
) -> None:
    with pytest.raises(repfl.UserError, match="test-raise on digits"):
        repfl.run("test-raise", OWN, plugins=[FAULTY], results=tmp_path)
    with pytest.raises(repfl.UserError, match="no round has a score at 'pre_agg'"):
        repfl.run("test-unscored", RECIPE, plugins=[FAULTY], results=tmp_path)
    found = repfl.grid(["test-raise", "fedavg"], {"m": OWN}, plugins=[FAULTY], results=tmp_path)
    assert list(found["status"]) == ["failed", "done"]
    assert found["reason"].iloc[0]


def test_a_cell_that_fails_when_it_is_computed_again_is_a_row_that_failed(tmp_path: Path) -> None:
    file, how = tmp_path / "mine.py", {"results": tmp_path / "r", "fresh": True}
    statuses, reasons = [], []
    for text in (FLAKY, FLAKY.replace("not now", "now")):
        file.write_text(text)
        found = repfl.grid("test-flaky", {"m": OWN}, plugins=[file], **how)
        statuses += list(found["status"])
        reasons += list(found["reason"])
    assert statuses == ["done", "failed"]
    assert "broken" in reasons[1]


# -- stepping by hand ------------------------------------------------------------------------------


def test_a_run_opened_and_stepped_is_the_run_that_is_stored(results: Path) -> None:
    run = repfl.open("fedper", OWN, seed=1, stack=0)
    assert repr(run.fed).startswith("<Federation: 2 clients, 2 active, round 0 of 2, 2,")
    assert repr(run) == "<Run: FedPer, 2 clients, round 0 of 2>"
    states = [run.state]
    assert isnan(run.accuracy)
    while not run.done:
        run.step()
        states.append(run.state)
    assert len(states) == 3
    stored = repfl.run("fedper", OWN, seed=1, results=results)
    last = {name: value for round_, name, value in run.rows if round_ == 2}
    assert last["post_agg/mean"] == stored.curves.loc[2, "post_agg/mean"]
    assert run.accuracy == stored.accuracy


def test_the_accuracy_of_an_opened_run_is_what_its_recipe_reports() -> None:
    best = {**OWN, "evaluation": {"rule": "max", "average": "pooled"}}
    run = repfl.open("local", best)
    run.step()
    run.rows = [(1, "post_agg/pooled", 0.5), (2, "post_agg/pooled", 0.25), (2, "post_agg/mean", 1)]
    assert run.accuracy == 0.5


def test_a_class_of_a_notebook_is_stepped_without_a_file() -> None:
    from dataclasses import dataclass

    from repfl.algorithms.core.method import param
    from repfl.algorithms.fedavg import FedAvg

    @dataclass(frozen=True)
    class HP:
        kept: float = param(0.5, "share of the old model", ge=0, le=1)

    class Slow(FedAvg):  # type: ignore[misc]
        def round(self, state, fed):  # type: ignore[no-untyped-def]
            before = state["theta"].clone()
            state = super().round(state, fed)
            kept = self.hp.kept
            return {**state, "theta": kept * before + (1 - kept) * state["theta"]}

    Slow.HP = HP
    common, slow = repfl.open("fedavg", OWN), repfl.open(Slow, OWN, hp={"kept": 1})
    first = slow.state["theta"].clone()
    for run in (common, slow):
        run.step()
    assert torch.equal(slow.state["theta"], first)
    assert not torch.equal(common.state["theta"], first)
    for wrong in (3, object):
        with pytest.raises(repfl.UserError, match="a method's name, or a class"):
            repfl.open(wrong, OWN)
    with pytest.raises(repfl.UserError, match="kept"):
        repfl.open(Slow, OWN, hp={"kept": 2})


def test_an_edited_file_of_a_method_is_computed_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    template = ROOT / "bench" / "templates" / "method" / "my_method.py"
    text = template.read_text().replace("my-method", "edited")
    file.write_text(text)
    one = repfl.open("edited", OWN, plugins=file)
    file.write_text(text + "\nEDITED = True\n")
    two = repfl.open("edited", OWN, plugins=[file])
    assert type(one.method) is not type(two.method)
    assert sys.modules[type(two.method).__module__].EDITED
