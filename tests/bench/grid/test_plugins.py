"""Datasets, models, partition rules and papers from outside are like the suite's own."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import EntryPoint
from pathlib import Path
from runpy import run_path

import pytest

import repfl
from repfl.bench.check.toy_clients import toy_recipe
from repfl.bench.cli.new import RUN, write
from repfl.bench.cli.options import Chosen, command
from repfl.bench.errors import UserError
from repfl.bench.grid import plugins
from repfl.bench.grid.cell import build_cell, from_json
from repfl.bench.grid.source_digest import code_digest
from repfl.bench.store import versions
from repfl.bench.store.store import Store
from repfl.datasets.core.recipe import Partition
from tests.bench.conftest import Here, stored


def start(kind: str, folder: Path) -> Path:
    """A scaffold's first file."""
    return write(kind, f"try-{kind}", folder)[0]


GRID = """
title = "Everything from outside"
year = 2026
[recipes.own]
dataset = "try-dataset"
model = "try-model"
clients = 3
partition = { rule = "try-partition", options = { test_share = 0.3 } }
training = { rounds = 1, epochs = 1, batch = 16, lr = 0.1 }
[scales.smoke]
seeds = [0]
[artefacts.table]
kind = "table"
title = "A table"
[[artefacts.table.cells]]
rows = [{ label = "Mine", method = "try-method" }]
recipes = ["own"]
"""
OWN_METHOD = (
    GRID.replace("try-dataset", "digits")
    .replace("try-model", "tiny")
    .replace('"try-partition", options = { test_share = 0.3 }', '"iid"')
)
NET = """
from torch import nn
from repfl.algorithms.models import register
@register("try-model")
def net(channels, size, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, classes))
"""


@contextmanager
def loaded(files: Iterable[Path]) -> Iterator[None]:
    """Context manager: plug-ins are loaded as another process would."""
    with plugins.isolated():
        plugins.load([str(file) for file in files])
        yield


def test_a_file_of_methods_that_changes_is_loaded_again(tmp_path: Path) -> None:
    plugin = start("method", tmp_path)
    plugins.load([str(plugin)])
    first, methods = plugins.digest("method", "try-method"), plugins.registries()["method"]
    before = methods["try-method"].cls
    text = plugin.read_text()
    plugin.write_text(f"{text}\nx = 1\n")
    plugins.load([str(plugin)])
    after = methods["try-method"].cls
    assert after is not before
    assert plugins.digest("method", "try-method") != first
    # what cannot be loaded leaves what there was
    plugin.write_text(f"{text}\nx = = 1\n")
    for _ in range(2):
        with pytest.raises(UserError, match=r"try_method.py:[0-9]+: SyntaxError"):
            plugins.load([str(plugin)])
    assert methods["try-method"].cls is after
    plugin.write_text(text.replace("try-method", "other-name"))
    plugins.load([str(plugin)])
    assert "try-method" not in methods
    assert methods["other-name"].cls.__module__ == after.__module__
    assert plugins.origin("method", "try-method") is None
    # a model may be in use
    net = tmp_path / "net.py"
    net.write_text(NET)
    plugins.load([str(net)])
    net.write_text(f"{NET}\n")
    with pytest.raises(UserError, match=r"has the model 'try-model'.*restart Python"):
        plugins.load([str(net)])


CODE = '''
"""A method."""

import math


class A:
    """What it does."""

    x = 1  # one

    def f(self):
        """Return
        a text.
        """
        return """a # no comment

        b"""
'''


EDITS = [
    ("x = 1  # one", "x = 1", True),
    ("import math\n", "# Why\n\nimport math\n", True),
    ("What it does.", "What it did.", True),
    ("Return\n        a text.", "Return it.", True),
    ("x = 1", "x = 2", False),
    ("# no comment", "# a comment", False),
    ("\n\n        b", "\n        b", False),
    ("import math", "import sys", False),
    ("return ", "x = 1; return ", False),
]


def test_only_code_changes_the_hash_of_a_plugin(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        (tmp_path / "mine.py").write_text(text)
        return code_digest(tmp_path / "mine.py")

    for old, new, same in EDITS:
        assert old in CODE
        assert (digest(CODE) == digest(CODE.replace(old, new, 1))) is same, old


def test_a_grid_file_names_its_plugins(here: Here, tmp_path: Path) -> None:
    plugin, grid, results = start("method", tmp_path), tmp_path / "own.toml", tmp_path / "r"
    grid.write_text(OWN_METHOD.replace("year = 2026", f'year = 2026\nplugins = ["{plugin.name}"]'))
    asked = ("--grid", grid, "--results", results)
    assert here("run", *asked, "--executor", "inline").code == 0
    assert len(Store(results).ids()) == 1
    # whatever command takes a grid knows its plug-ins, and does not repeat them
    assert here("info", "own/own", "--grid", grid, "--scale", "smoke").code == 0
    assert "--plugin" not in command("run", Chosen(grid=[grid]), Store(results))
    # naming it again is no conflict, and one that is not there is one line
    assert here("plan", *asked, "--plugin", plugin).code == 0
    assert repfl.load(results, measured=False, grids=grid)["recipe"].tolist() == ["own"]
    grid.write_text(grid.read_text().replace(plugin.name, "absent.py"))
    assert "absent.py: there is no such file" in here("plan", *asked).err


def test_the_files_that_a_method_declares_are_part_of_its_cells(here: Here, tmp_path: Path) -> None:
    plugin, weights, results = start("method", tmp_path), tmp_path / "weights.pt", tmp_path / "r"
    (tmp_path / "own.toml").write_text(OWN_METHOD)
    asked = ("run", "--grid", tmp_path / "own.toml", "--plugin", plugin, "--results", results)
    assert here(*asked, "--executor", "inline").code == 0
    text = plugin.read_text()
    plugin.write_text(text.replace("    sends=", '    files=("weights.pt",),\n    sends=', 1))
    assert "method 'try-method' declares the file" in here(*asked).err
    for content in (b"one", b"two", b"one"):
        weights.write_bytes(content)
        assert here(*asked, "--executor", "inline").code == 0
    store = Store(results)
    records = [record for cell in store.ids() if (record := store.get(cell))]
    inputs = [dict(record.cell.get("inputs", {})) for record in records]
    assert len(inputs) == 3  # no file, one, two
    assert {} in inputs
    assert {"weights.pt": sha256(b"two").hexdigest()} in inputs
    weights.unlink()
    assert {from_json(record.cell).id for record in records} == set(store.ids())


def test_a_changed_plugin_of_any_kind_makes_its_numbers_stale(here: Here, tmp_path: Path) -> None:
    files = {kind: start(kind, tmp_path) for kind in ("method", "dataset", "partition")}
    files["model"] = tmp_path / "try_model.py"
    files["model"].write_text(NET)
    (tmp_path / "own.toml").write_text(GRID)
    given = [text for file in files.values() for text in ("--plugin", str(file))]
    asked = ["--grid", tmp_path / "own.toml", "--results", tmp_path / "r", *given]
    with plugins.isolated():
        assert here("run", *asked, "--executor", "inline").code == 0
        assert here("plan", *asked, "--stale", "--json").out.count('"id"') == 0
    store = Store(tmp_path / "r")
    (cell,) = store.ids()
    record = stored(store, cell)
    for kind, file in files.items():
        text = file.read_text()
        file.write_text(f"{text}\nPLANTED = 1\n")
        with loaded(files.values()):
            standing = versions.of_record(record.origin, record.cell)
        assert standing == (False, "a plug-in that it was made with has changed since"), kind
        file.write_text(text)
    with loaded(files.values()):
        assert versions.of_record(record.origin, record.cell).current
        said = json.loads(here("list", "datasets", "--json").out)
    assert next(each for each in said if each["name"] == "try-dataset")["present"]


METHOD = """
from repfl.algorithms.core.method import Method, hyperparameters, param, register
@hyperparameters
class HP:
    share: float = param({share}, "", le=1)
@register("mine", title="", paper="", year=2026, family="{family}", sends="")
class Mine(Method):
    HP = HP
"""


PRELUDE = """
from repfl.algorithms import models
from repfl.datasets.core.files import custom
from repfl.datasets.core import partition
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models.register('tiny')(print)", "'tiny' is registered twice"),
        ("models.register('My Net')(print)", "my-net|y-et"),
        ("custom.register(custom.from_arrays('digits', dict, classes='ab', shape=(2,)))", "twice"),
        ("partition.partitioner('iid', dict)(print)", "'iid' is registered twice"),
        (
            "custom.register(custom.from_npz('pics', 'x.npz', classes='ab', shape=(3, 16, 16)))",
            "valid: (height, width, channels) of square images",
        ),
        (METHOD.format(share=1.9, family="mask"), "default share = 1.9 is not valid: input should"),
        (METHOD.format(share=0.9, family="mask").replace(": float", ""), "`share: TYPE ="),
        (METHOD.format(share=0.9, family="masks"), "unknown family 'masks'; valid: clustered,"),
    ],
)
def test_names_are_checked_and_taken_once(
    here: Here, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "plugin.py").write_text(PRELUDE + text)
    before = {kind: set(names) for kind, names in plugins.registries().items()}
    said = here("data", "list", "--plugin", tmp_path / "plugin.py")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert any(word in said.err for word in words.split("|")), said.err
    assert {kind: set(names) for kind, names in plugins.registries().items()} == before


def test_entry_points_bring_modules_and_papers(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "their_paper"
    write("paper", "their-paper", tmp_path)
    (package / "__init__.py").write_text("")
    (tmp_path / "their_net.py").write_text(NET)
    points = [EntryPoint("a", "their_paper", "repfl"), EntryPoint("b", "their_net", "repfl")]
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == "repfl" else [])
    recipes = json.loads(here("list", "recipes", "--json").out)
    assert "their-paper/few" in {each["name"] for each in recipes}
    assert "try-model" in here("list", "models").out
    assert "try-model" not in here("list", "partitions").out


def test_features_go_through_no_network_of_images(here: Here, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        GRID.replace("try-model", "cnn4").replace("try-method", "fedavg")
    )
    given = ["--plugin", start("dataset", tmp_path), "--plugin", start("partition", tmp_path)]
    said = here("plan", "--grid", tmp_path / "own.toml", *given)
    assert said.code == 2
    assert "valid: 'mlp'" in said.err


# -- starts ----------------------------------------------------------------------------------------


def test_a_start_is_written_once_and_under_a_free_name(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in RUN:
        assert here("new", kind, f"try-{kind}").code == 0
        assert "there already" in here("new", kind, f"try-{kind}").err
    assert here("new", "method", "fedavg").code == here("new", "method", "Try").code == 2
    assert "did you mean model" in here("new", "modle", "try").err
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and "my-" in path.read_text()
    ]


def test_the_command_that_a_method_s_start_prints_beats_the_most_frequent_class(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = here("new", "method", "try-method")
    (printed,) = re.findall("try it: +repfl reproduce (.*)", said.out)
    where = ("--results", tmp_path / "r", "--executor", "inline", "--seed", "1")
    column = ("--column", "cifar100-dir0.1")
    assert here("run", *shlex.split(printed), *where, *column).code == 0
    store = Store(tmp_path / "r")
    (record,) = [store.get(cell) for cell in store.ids()]
    assert record is not None
    assert record.value > record.metrics.floor.clients + 0.1


KINDS = ["dataset", "model", "partition", "grid"]


@pytest.mark.parametrize("kind", [*KINDS, pytest.param("method", marks=pytest.mark.slow)])
def test_the_test_of_a_start_passes(kind: str, tmp_path: Path) -> None:
    """That of a paper is in test_own_paper."""
    (file,) = (path for path in write(kind, f"try-{kind}", tmp_path) if "test_" in path.name)
    tests = [each for name, each in run_path(str(file)).items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()


def test_a_plugin_imports_its_neighbours_and_another_folder_has_its_own(tmp_path: Path) -> None:
    for number, folder in enumerate(("first", "second")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "helper.py").write_text(f"LR = {number + 1}\n")
        (tmp_path / folder / "mine.py").write_text("import helper\n\nLR = helper.LR\n")
        plugins.load([str(tmp_path / folder / "mine.py")])
    files = {str(tmp_path / folder / "mine.py") for folder in ("first", "second")}
    found = [m for m in [*sys.modules.values()] if getattr(m, "__file__", None) in files]
    assert sorted(module.LR for module in found) == [1, 2]
    assert "helper" not in sys.modules
    assert not {str(tmp_path / "first"), str(tmp_path / "second")} & set(sys.path)


def test_the_files_that_a_model_declares_are_part_of_its_cells(tmp_path: Path) -> None:
    text = NET.replace('"try-model"', '"weighted", files=("weights.pt",)')
    (tmp_path / "net.py").write_text(text)
    plugins.load([str(tmp_path / "net.py")])
    changes = {"dataset": "digits", "model": "weighted", "partition": Partition(rule="iid")}
    recipe, ids = replace(toy_recipe(), **changes), set()
    with pytest.raises(UserError, match=r"model 'weighted' declares the file .*weights\.pt"):
        build_cell("fedavg", {}, recipe, 0)
    for weights in (b"1", b"22"):
        (tmp_path / "weights.pt").write_bytes(weights)
        cell = build_cell("fedavg", {}, recipe, 0)
        assert list(cell.inputs) == ["model/weights.pt"]
        ids.add(cell.id)
    assert len(ids) == 2
