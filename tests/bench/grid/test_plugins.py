"""Datasets, models, partition rules and papers from outside are like the suite's own."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from hashlib import sha256
from importlib.metadata import EntryPoint
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from repfl.bench.cli.main import command_line
from repfl.bench.cli.new import RUN, write
from repfl.bench.grid import grid as grids
from repfl.bench.grid import plugins
from repfl.bench.grid.cell import reopen
from repfl.bench.store import versions
from repfl.bench.store.store import Store
from repfl.datasets.core import prepare, registry
from repfl.datasets.core.cache import open_dataset
from repfl.datasets.core.custom import from_arrays, from_class, from_folder, from_npz
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import Arrays

Here = Callable[..., Any]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Whatever a test registers is unknown again after it."""
    known = plugins.registries()
    had = {kind: dict(names) for kind, names in known.items()}
    remembered = (plugins._loaded, plugins._origins, plugins._digests)
    copies = [copy(each) for each in remembered]
    yield
    for paper in list(grids.OUTSIDE):
        plugins.forget_paper(paper)
    for kind, names in known.items():
        names.clear()
        names.update(had[kind])
    for place, before in zip(remembered, copies, strict=True):
        place.clear()
        place.update(before)  # type: ignore[arg-type]


def start(kind: str, folder: Path, name: str = "") -> Path:
    """A scaffold's first file."""
    return write(kind, name or f"try-{kind}", folder)[0]


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


def test_the_template_of_a_dataset_reproduces_in_a_worker(here: Here, tmp_path: Path) -> None:
    """It imports a library where it reads, and that draws random numbers while it is imported."""
    plugin, grid = start("dataset", tmp_path), tmp_path / "own.toml"
    ours = {"try-model": "mlp", "try-method": "fedavg", "try-partition": "iid"}
    text = GRID
    for theirs, our in ours.items():
        text = text.replace(theirs, our)
    grid.write_text(text)
    where = ("--results", tmp_path / "r", "--out", tmp_path / "report")
    asked = ("--grid", grid, "--plugin", plugin, *where, "--executor", "processes")
    said = here("reproduce", *asked, "--workers", "1")
    assert said.code == 0, said.out + said.err
    assert len(Store(tmp_path / "r").ids()) == 1


def load_again(files: Iterable[Path]) -> None:
    """Load plug-ins as another process would."""
    for kind, names in plugins.registries().items():
        for name in [name for name in names if (kind, name) in plugins._origins]:
            del names[name]
    plugins._loaded.clear()
    plugins.load([str(file) for file in files])


def test_the_files_that_a_method_declares_are_part_of_its_cells(here: Here, tmp_path: Path) -> None:
    plugin, weights, results = start("method", tmp_path), tmp_path / "weights.pt", tmp_path / "r"
    (tmp_path / "own.toml").write_text(OWN_METHOD)
    asked = ("run", "--grid", tmp_path / "own.toml", "--plugin", plugin, "--results", results)
    assert here(*asked, "--executor", "inline").code == 0
    text = plugin.read_text()
    plugin.write_text(text.replace("    sends=", '    files=("weights.pt",),\n    sends=', 1))
    load_again([plugin])
    said = here(*asked)
    assert said.code == 2
    assert "method 'try-method' declares the file" in said.err
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
    assert {reopen(record.cell).id for record in records} == set(store.ids())


def test_a_changed_plugin_of_any_kind_makes_its_numbers_stale(here: Here, tmp_path: Path) -> None:
    files = {kind: start(kind, tmp_path) for kind in ("method", "dataset", "partition")}
    files["model"] = tmp_path / "try_model.py"
    files["model"].write_text(NET)
    (tmp_path / "own.toml").write_text(GRID)
    given = [text for file in files.values() for text in ("--plugin", str(file))]
    asked = ["--grid", tmp_path / "own.toml", "--results", tmp_path / "r", *given]
    assert here("run", *asked, "--executor", "inline").code == 0
    assert here("plan", *asked, "--stale", "--json").out.count('"id"') == 0
    store = Store(tmp_path / "r")
    (cell,) = store.ids()
    record = store.get(cell)
    assert record is not None
    for kind, file in files.items():
        text = file.read_text()
        file.write_text(f"{text}\nPLANTED = 1\n")
        load_again(files.values())
        standing = versions.of_record(record.provenance, record.cell)
        assert standing == (False, "a plug-in that it was made with has changed since"), kind
        file.write_text(text)
    load_again(files.values())
    assert versions.of_record(record.provenance, record.cell).current
    said = json.loads(here("list", "datasets", "--json").out)
    assert next(each for each in said if each["name"] == "try-dataset")["present"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("from repfl.algorithms.models import register\nregister('tiny')(print)", "twice"),
        ("from repfl.algorithms.models import register\nregister('My Net')(print)", "my-net|y-et"),
        (
            "from repfl.datasets.core.custom import from_arrays, register\n"
            "register(from_arrays('digits', dict, classes='ab', shape=(2,)))",
            "'digits' is registered twice",
        ),
        (
            "from repfl.datasets.core.partition import partitioner\n"
            "partitioner('iid', dict)(print)",
            "'iid' is registered twice",
        ),
    ],
)
def test_names_are_checked_and_taken_once(
    here: Here, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "plugin.py").write_text(text)
    before = {kind: set(names) for kind, names in plugins.registries().items()}
    said = here("data", "list", "--plugin", tmp_path / "plugin.py")
    assert said.code == 2
    assert len(said.err.strip().splitlines()) == 1
    assert any(word in said.err for word in words.split("|")), said.err
    assert {kind: set(names) for kind, names in plugins.registries().items()} == before


def test_every_command_about_methods_or_data_takes_plugins() -> None:
    commands = dict(command_line().commands)
    commands |= {f"data {name}": each for name, each in commands.pop("data").commands.items()}
    for name in commands.keys() - {"new", "doctor"}:
        assert "--plugin" in {opt for each in commands[name].params for opt in each.opts}, name


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
    assert "their-paper/few" in {
        each["name"] for each in json.loads(here("list", "recipes", "--json").out)
    }
    assert "try-model" in here("list", "models").out
    assert "try-model" not in here("list", "partitions").out


# -- datasets --------------------------------------------------------------------------------------


def images(n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (n, 8, 8, 1)).astype(np.uint8)


def test_groups_and_origins_of_embedded_datasets_are_kept() -> None:
    labels = np.arange(12) % 2
    part = Arrays(images(12), labels, np.arange(12) // 6, np.arange(12))
    registry.register(
        from_arrays(
            "grouped", lambda: {"all": part}, classes="ab", shape=(8, 8, 1), groups=("x", "y")
        )
    )
    held = open_dataset("grouped")
    assert held.groups is not None
    assert held.source_ids is not None
    order = held.source_ids
    assert (held.images == part.images[order]).all()
    assert (held.groups == np.arange(12)[order] // 6).all()


def test_features_and_images_of_an_npz_are_prepared_and_come_back(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).standard_normal((10, 5)).astype(np.float32), np.arange(10) % 2
    held = {"train_features": x, "train_labels": y, "test_features": x, "test_labels": y}
    np.savez(tmp_path / "x.npz", **held, train_groups=y, test_groups=y)
    registry.register(
        from_npz("vectors", tmp_path / "x.npz", classes=("a", "b"), shape=(5,), groups=("u", "v"))
    )
    prepare.download("vectors", tmp_path)
    found = open_dataset("vectors", tmp_path)
    assert found.images.dtype == np.float32
    assert found.images.shape == (20, 1, 1, 5)
    assert found.groups is not None
    assert (np.asarray(found.groups) == np.asarray(found.labels)).all()
    assert sorted(found.images[:10, 0, 0, 0].tolist()) == sorted(x[:, 0].tolist())
    np.savez(tmp_path / "x.npz", **{**held, "train_features": x + 1})  # the user's own, read again
    prepare.download("vectors", tmp_path)
    assert open_dataset("vectors", tmp_path).fingerprints != found.fingerprints


@pytest.mark.parametrize("splits", [("train", "test"), ("",)])
def test_a_folder_of_images_of_any_size_is_a_dataset(
    tmp_path: Path, splits: tuple[str, ...]
) -> None:
    for split in splits:
        for size, name in ((9, "cat"), (12, "dog")):
            place = tmp_path / "pets" / split / name
            place.mkdir(parents=True)
            for index in range(3):
                Image.fromarray(np.full((size, size, 3), 10 * index, np.uint8)).save(
                    place / f"{index}.png"
                )
    registry.register(from_folder("pets", tmp_path / "pets", shape=(8, 8, 3)))
    assert registry.get("pets").classes == ("cat", "dog")
    prepare.download("pets", tmp_path / "root")
    found = open_dataset("pets", tmp_path / "root")
    assert found.images.shape == (6 * len(splits), 8, 8, 3)
    assert list(found.splits) == (["train", "test"] if len(splits) > 1 else ["all"])


def test_a_class_of_torchvision_is_a_dataset(tmp_path: Path) -> None:
    registry.register(
        from_class(
            "fake",
            "torchvision.datasets:FakeData",
            classes=("a", "b"),
            shape=(8, 8, 3),
            options={"size": 20, "image_size": (3, 8, 8), "num_classes": 2},
        )
    )
    prepare.download("fake", tmp_path)
    assert open_dataset("fake", tmp_path).images.shape == (20, 8, 8, 3)
    with pytest.raises(DataError, match="its description says"):
        prepare.import_files("fake", tmp_path, tmp_path)


def test_a_class_of_medmnist_is_told_its_split_and_place(tmp_path: Path) -> None:
    class Medical:
        """What `medmnist.BloodMNIST` does, without a network."""

        def __init__(self, split: str, download: bool = False, root: str = "") -> None:
            assert download
            assert Path(root).is_dir()
            self.size = {"train": 8, "val": 2, "test": 4}[split]

        def __len__(self) -> int:
            return self.size

        def __getitem__(self, index: int) -> tuple[Image.Image, np.ndarray]:
            return Image.fromarray(images(8)[index, :, :, 0]), np.array([index % 2])

    registry.register(
        from_class("blood", Medical, classes="ab", shape=(8, 8, 1), splits=("train", "val", "test"))
    )
    prepare.download("blood", tmp_path)
    spans = open_dataset("blood", tmp_path).splits
    assert {split: len(span) for split, span in spans.items()} == {"train": 8, "val": 2, "test": 4}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ((images(4), np.arange(3)), "as many labels"),
        ((images(4) / 255, np.arange(4)), "not uint8"),
        ((images(4), np.arange(4) / 2), "not integers"),
        ((images(4), np.arange(4)), "labels reach from 0 to 3"),
        ((images(4), np.zeros(4, int)), "no sample of class 'b'"),
    ],
)
def test_arrays_that_are_not_as_described_are_refused(part: Any, words: str) -> None:
    registry.register(from_arrays("bad", lambda: {"all": part}, classes="ab", shape=(8, 8, 1)))
    with pytest.raises(DataError, match=words):
        open_dataset("bad")


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
    assert record.metrics["value"] > record.metrics["floor"]["clients"] + 0.1


@pytest.mark.parametrize(
    "kind",
    ["dataset", "model", "partition", "grid", pytest.param("method", marks=pytest.mark.slow)],
)
def test_the_test_of_a_start_passes(kind: str, tmp_path: Path) -> None:
    """That of a paper is in test_own_paper."""
    (file,) = (path for path in write(kind, f"try-{kind}", tmp_path) if "test_" in path.name)
    tests = {name: each for name, each in run_path(str(file)).items() if name.startswith("test_")}
    assert tests
    for each in tests.values():
        each()
