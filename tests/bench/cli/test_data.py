"""`repfl data` as a user meets it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from repfl.bench.grid import catalog
from repfl.datasets.core import registry, split_table
from repfl.datasets.core.partition import partition
from tests.bench.conftest import Here
from tests.datasets.tiny import pool, recipe, tiny_cifar

GRID = """
title = "A paper"
year = 2025
[recipes.small]
dataset = "digits"
model = "tiny"
clients = 8
partition = { rule = "client-dirichlet", options = { alpha = 0.3, train = 60, test = 30 } }
training = { rounds = 1, epochs = 1, batch = 10, lr = 0.1 }
[scales.smoke]
seeds = [3]
[scales.paper]
seeds = [3]
[artefacts.table1]
kind = "table"
title = "Table 1"
"""


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPFL_DATA", str(tmp_path / "root"))


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from repfl.bench.grid import grid

    (tmp_path / "a-paper").mkdir()
    (tmp_path / "a-paper" / "grid.toml").write_text(GRID)
    monkeypatch.setattr(grid, "ROOT", tmp_path)


def test_list_has_everything_a_script_needs(here: Here, paper: None) -> None:
    entries = {each["name"]: each for each in json.loads(here("data", "list", "--json").out)}
    assert len(entries) == 14
    for key in ("fingerprints", "classes", "licence", "citation", "homepage", "norms"):
        assert all(key in entry for entry in entries.values())
    assert entries["digits"]["verified"] == "published"
    assert entries["digits"]["needed_by"] == ["a-paper"]
    assert not entries["cifar10"]["present"]
    assert entries["cifar10"]["splits"] == {"train": 50_000, "test": 10_000}
    table = here("data", "list").out
    assert all(name in table for name in registry.names())


def test_import_list_and_verify_agree(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, source = tiny_cifar(monkeypatch, tmp_path)
    assert "train 30, test 20" in here("data", "import", "cifar10", "--from", source).out
    entry = next(each for each in catalog.all_dataset_facts() if each["name"] == "cifar10")
    assert (entry["present"], entry["verified"], entry["edition"]) == (True, "recorded", "tiny")
    assert here("data", "get", "cifar10", "digits").code == 0  # both are there: nothing is fetched
    assert here("data", "list", "--verify").code == 0
    path = Path(entry["path"])
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    found = here("data", "list", "--verify")
    assert found.code == 1
    assert "does not match its fingerprint" in found.out


WRONG = {
    "get cifr10": "did you mean cifar10",
    "import cifar10 --from nowhere": "does not exist",
    f"import cifar10 --from {shlex.quote(__file__)}": "test_data.py is no file of cifar10",
    "show a-paper/smal": "did you mean a-paper/small",
    "show small --scale papr": "did you mean",
    "get office_home": "download OfficeHomeDataset",
    "get organamnist --edition medmnist-4": "no edition 'medmnist-4'",
}


def test_wrong_names_are_refused(here: Here, paper: None) -> None:
    for arguments, words in WRONG.items():
        said = here("data", *shlex.split(arguments))
        assert (said.code, said.err.count("\n")) == (2, 1), said
        assert words in said.err


def test_show_prints_the_class_by_client_table_and_writes_a_figure(
    here: Here, paper: None, tmp_path: Path
) -> None:
    shown = here("data", "show", "a-paper/small", "--out", tmp_path / "out")
    assert shown.code == 0, shown.err
    assert "8 clients; train samples min 60" in shown.out
    files = {path.name for path in (tmp_path / "out").iterdir() if path.stat().st_size > 100}
    assert files == {f"a-paper-small-paper-3.{end}" for end in ("csv", "json", "pdf", "png")}


def test_the_table_counts_every_class_of_every_client() -> None:
    samples = pool([30] * 10, [10] * 10)
    shares = partition(samples, recipe("shards", 5), seed=0)
    table = split_table.class_table(shares, samples.labels, [f"class {k}" for k in range(10)])
    assert table.filter(like="class").to_numpy().sum() == 300
    assert table["(train)"].tolist() == [60] * 5
    assert table["(test)"].tolist() == [20] * 5
