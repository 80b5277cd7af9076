"""`repfl data` as a user meets it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from repfl.bench.cli import data, data_figure
from repfl.datasets.core import prepare, registry
from repfl.datasets.core.partition import partition
from repfl.datasets.core.registry import File
from tests.datasets.tiny import balanced, debris, npz, pool, recipe, tiny_cifar

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
[scales.desk]
seeds = [3]
[scales.paper]
seeds = [3]
[artefacts.table1]
kind = "table"
title = "Table 1"
"""


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("REPFL_DATA", str(tmp_path / "root"))
    return tmp_path / "root"


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from repfl.bench.grid import grid

    (tmp_path / "a-paper").mkdir()
    (tmp_path / "a-paper" / "grid.toml").write_text(GRID)
    monkeypatch.setattr(grid, "ROOT", tmp_path)


def repfl(*arguments: object) -> Any:
    return CliRunner().invoke(data.app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """The one line of a command that ends with exit code 2."""
    result = repfl(*arguments)
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


def test_the_catalogue_lists_thirteen_with_everything_a_script_needs(root: Path) -> None:
    entries = {entry["name"]: entry for entry in json.loads(json.dumps(data.catalogue()))}
    assert len(entries) == 13
    for entry in entries.values():
        for key in (
            "fingerprints",
            "classes",
            "splits",
            "licence",
            "citation",
            "present",
            "homepage",
            "norms",
        ):
            assert key in entry
    assert entries["digits"]["present"]
    assert entries["digits"]["verified"] == "published"
    assert not entries["cifar10"]["present"]
    assert entries["cifar10"]["fingerprints"]["train"].startswith("367eab66")
    assert entries["cifar10"]["splits"] == {"train": 50_000, "test": 10_000}
    assert "office_home" in entries["office_home"]["note"]


def test_list_prints_a_table_and_json(root: Path, paper: None) -> None:
    table = repfl("list")
    assert table.exit_code == 0
    assert all(name in table.output for name in registry.names())
    assert "a-paper" in table.output
    assert len(json.loads(repfl("list", "--json").output)) == 13


def test_import_list_and_verify_agree(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    _, source = tiny_cifar(monkeypatch, tmp_path)
    done = repfl("import", "cifar10", "--from", source)
    assert done.exit_code == 0, done.output
    assert "train 30, test 20" in done.output
    entry = next(entry for entry in data.catalogue() if entry["name"] == "cifar10")
    assert (entry["present"], entry["verified"], entry["edition"]) == (True, "recorded", "tiny")
    assert repfl("verify").exit_code == 0
    path = Path(entry["path"])
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    found = repfl("verify")
    assert found.exit_code == 1
    assert "does not match its fingerprint" in found.stderr


def test_a_missing_class_ends_with_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    dataset, whole = tiny_cifar(monkeypatch, tmp_path)
    catless = balanced(dataset, 3)
    catless.labels[catless.labels == 3] = 5
    source = npz(tmp_path / "catless.npz", train=catless, test=balanced(dataset, 2))
    assert "no sample of class 'cat'" in refused("import", "cifar10", "--from", source)
    assert debris(root) == []
    assert repfl("import", "cifar10", "--from", whole).exit_code == 0


def test_a_half_written_cache_ends_with_exit_code_2_and_can_be_mended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    _, source = tiny_cifar(monkeypatch, tmp_path)
    repfl("import", "cifar10", "--from", source)
    path = root / "prepared" / "cifar10.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    assert "is incomplete" in refused("verify", "cifar10")
    assert "is incomplete" in repfl("list").output
    assert repfl("import", "cifar10", "--from", source).exit_code == 0
    assert repfl("verify", "cifar10").exit_code == 0


def test_no_network_ends_with_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    dataset, _ = tiny_cifar(monkeypatch, tmp_path)
    files = (
        File(
            "cifar-10-python.tar.gz",
            ("http://127.0.0.1:9/cifar-10-python.tar.gz",),
            "md5:" + "0" * 32,
        ),
    )
    monkeypatch.setitem(registry._REGISTRY, "cifar10", replace(dataset, files=lambda: files))
    line = refused("get", "cifar10")
    assert "no connection" in line
    assert "repfl data import" in line
    assert debris(root) == []
    assert list((root / "raw").iterdir()) == []


def test_a_read_only_data_root_ends_with_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    _, source = tiny_cifar(monkeypatch, tmp_path)
    root.write_text("not a folder")
    assert "point REPFL_DATA to a folder" in refused("import", "cifar10", "--from", source)


def test_wrong_names_and_paths_end_with_exit_code_2(
    root: Path, paper: None, tmp_path: Path
) -> None:
    assert "did you mean cifar10" in refused("get", "cifr10")
    assert "does not exist" in refused("import", "cifar10", "--from", tmp_path / "nowhere")
    assert "is not prepared" in refused("verify", "svhn")
    assert "did you mean a-paper/small" in refused("show", "a-paper/smal")
    assert "did you mean" in refused("show", "small", "--scale", "papr")
    assert "download OfficeHomeDataset" in refused("get", "office_home")
    assert "no edition 'medmnist-4'" in refused("get", "organamnist", "--edition", "medmnist-4")


def test_getting_what_is_there_does_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    _, source = tiny_cifar(monkeypatch, tmp_path)
    prepare.import_files("cifar10", source)
    assert repfl("get", "cifar10", "digits").exit_code == 0


def test_show_prints_the_class_by_client_table_and_writes_a_figure(
    root: Path, paper: None, tmp_path: Path
) -> None:
    shown = repfl("show", "a-paper/small", "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.output
    assert "8 clients; train samples min 60" in shown.output
    assert "most frequent class" in shown.output
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == [
        "a-paper-small-paper-3.csv",
        "a-paper-small-paper-3.pdf",
        "a-paper-small-paper-3.png",
    ]
    assert all((tmp_path / "out" / name).stat().st_size > 100 for name in files)


def test_the_table_counts_every_class_of_every_client() -> None:
    samples = pool([30] * 10, [10] * 10)
    shares = partition(samples, recipe("shards", 5), seed=0)
    table = data_figure.class_table(shares, samples.labels, [f"class {k}" for k in range(10)])
    assert table.filter(like="class").to_numpy().sum() == 300
    assert table["(train)"].tolist() == [60] * 5
    assert table["(test)"].tolist() == [20] * 5


def test_many_classes_are_condensed_in_print_and_whole_in_the_file(tmp_path: Path) -> None:
    samples = pool([30] * 100, [10] * 100)
    shares = partition(samples, recipe("shards", 20, per_client=5), seed=0)
    table = data_figure.class_table(shares, samples.labels, [f"c{k}" for k in range(100)])
    printed = data_figure.text(table, shares, samples.labels)
    assert max(map(len, printed.splitlines()[:21])) < 100
    csv = data_figure.write(table, "title", tmp_path, "name")[0]
    assert len(csv.read_text().splitlines()[0].split(",")) == 1 + 100 + 3
