"""What attackers and accidents put into grids, plug-ins, names and options costs one line, and
changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from repfl.bench.grid import plugins
from repfl.bench.grid.torch_state import changed_setting, settings
from repfl.paper_tables.core import published
from tests.bench.cli.test_fuzz import answered
from tests.bench.conftest import GRID, ROOT, Compute, Here, repfl, task


def refused(here: Here, *arguments: str | Path) -> str:
    """The one line that a refusal costs."""
    said = here(*arguments)
    answered(said, 2)
    return said.err


def planned(here: Here, tmp_path: Path, grid: str, name: str = "tests.toml") -> str:
    """The one line with which a grid is refused when it is planned."""
    path = tmp_path / name
    path.write_text(grid, errors="surrogateescape")
    return refused(here, "plan", "--grid", path, "--results", tmp_path / "r")


# -- grids -----------------------------------------------------------------------------------------


def test_an_artefact_whose_name_leads_elsewhere_is_refused(here: Here, tmp_path: Path) -> None:
    for name in ("../../outside", "a/b", "Table 1", "..", "", "[/]", "tablé"):
        text = GRID.replace("artefacts.table1", f"artefacts.{json.dumps(name)}")
        said = planned(here, tmp_path, text)
        assert "tests.toml:" in said
        assert "letters a-z, digits and hyphens, such as" in said


def test_a_byte_order_mark_is_no_part_of_a_grid_or_of_a_table(here: Here, tmp_path: Path) -> None:
    (tmp_path / "tests.toml").write_text(GRID, encoding="utf-8-sig")
    answered(here("plan", "--grid", tmp_path / "tests.toml"), 0)
    source = next((ROOT / "paper_tables" / "fedpurin" / "published").glob("*.csv"))
    (tmp_path / source.name).write_text(source.read_text(), encoding="utf-8-sig")
    found = published.read_published(tmp_path)
    assert found.problems == ()
    assert len(found.frame)


# -- plug-ins --------------------------------------------------------------------------------------


@pytest.fixture
def as_before() -> Iterator[None]:
    """What a plug-in has changed is put back."""
    state = torch.get_rng_state()
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.backends.mkldnn.enabled = True  # type: ignore[assignment]
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.set_grad_enabled(True)
    torch.set_num_threads(1)
    torch.set_rng_state(state)


TAKEN = """import torch
from repfl.algorithms.core.method import Method, register
@register("fedavg", title="x", paper="x", year=2026, family="partial", sends="x")
class FedAvg(Method):
    "x"
"""


CHANGES = [
    ("torch.set_default_dtype(torch.float64)", "the default dtype from torch.float32 to"),
    ("torch.set_default_device('meta')", "the default device from cpu to meta"),
    ("torch.backends.mkldnn.enabled = False", "mkldnn.enabled from True to False"),
    ("torch.backends.cudnn.benchmark = True", "cudnn.benchmark from False to True"),
    ("torch.use_deterministic_algorithms(True)", "deterministic algorithms from 0 to 2"),
    ("torch.set_float32_matmul_precision('medium')", "the precision of float32 matrix"),
    ("torch.set_grad_enabled(False)", "the grad mode"),
    ("torch.set_num_threads(2)", "the number of threads from 1 to 2"),
]


@pytest.mark.parametrize(("line", "setting"), CHANGES)
def test_a_plugin_that_changes_the_process_is_refused(
    here: Here, tmp_path: Path, as_before: None, line: str, setting: str
) -> None:
    torch.set_num_threads(1)
    plugin = tmp_path / "plugin.py"
    plugin.write_text(f"import torch\n{line}")
    said = refused(here, "list", "methods", "--plugin", plugin)
    assert f"plugin {plugin}: changes" in said
    assert setting in said


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are chosen on Linux alone")
def test_a_process_that_is_moved_to_one_core_goes_on(as_before: None) -> None:
    """Schedulers and `taskset` move processes that run; PyTorch then reports fewer threads between
    operations, which change no number.
    """
    torch.set_num_threads(1)
    cores, before = os.sched_getaffinity(0), settings()
    try:
        os.sched_setaffinity(0, {min(cores)})
        assert changed_setting(before) == ""
    finally:
        os.sched_setaffinity(0, cores)


def test_what_a_plugin_draws_while_it_is_imported_changes_nothing(
    tmp_path: Path, as_before: None
) -> None:
    """Some libraries draw random numbers while they are imported."""
    plugin = tmp_path / "plugin.py"
    drawn = "random.random()\nnumpy.random.rand()\ntorch.rand(1)\ntorch.manual_seed(20261122)"
    plugin.write_text(f"import random\nimport numpy\nimport torch\n{drawn}")
    before = settings()
    plugins.load([str(plugin)])
    assert changed_setting(before) == ""


def test_a_plugin_that_takes_a_name_is_refused_where_it_does(tmp_path: Path) -> None:
    """In a process of its own, in which nobody has asked for our methods yet."""
    plugin = tmp_path / "plugin.py"
    plugin.write_text(TAKEN)
    done = repfl("plan", "--artefact", "fedpurin/fig5", "--plugin", plugin)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"plugin {plugin}:3: method 'fedavg' is registered twice" in done.stderr


MEDDLING = """
import random
import sys
import torch
from tests.bench.faulty import Steady, misbehave
@misbehave("test-meddles")
class Meddles(Steady):
    def fault(self, fed):
        torch.set_default_dtype(torch.float64)
@misbehave("test-draws")
class Draws(Steady):
    def fault(self, fed):
        random.random()
@misbehave("test-exits")
class Exits(Steady):
    def fault(self, fed):
        sys.exit(0)
"""


def test_a_method_that_changes_the_process_while_it_computes_is_not_stored(
    compute: Compute, as_before: None, tmp_path: Path, store: Any
) -> None:
    (tmp_path / "plugin.py").write_text(MEDDLING)
    plugins.load([str(tmp_path / "plugin.py")])
    outcome = compute(task("test-meddles"))
    assert outcome.status == "fatal"
    assert "'test-meddles' changes the default dtype" in outcome.reason
    assert store.ids() == []
    torch.set_default_dtype(torch.float32)
    outcome = compute(task("test-draws"))
    assert "'test-draws' changes Python's random state" in outcome.reason
    outcome = compute(task("test-exits"))
    assert (outcome.status, outcome.reason) == ("failed", "SystemExit: 0 (plugin.py:17)")
