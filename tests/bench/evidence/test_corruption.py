"""Damage in any stored file is found by `repfl verify`, and nothing that is damaged ever enters a
report.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repfl.bench.evidence import artefacts
from repfl.bench.evidence.library import Library
from repfl.bench.grid.plan import Planned, Selection, plan
from repfl.bench.store.store import Store
from tests.bench.conftest import GRID, Said

Here = Callable[..., Said]
FILES = ("record.json", "rounds.parquet", "clients.parquet", "arrays.npz")
EACH = 10


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid whose records have all the files that a record can have."""
    path = tmp_path_factory.mktemp("corruption") / "tests.toml"
    rows = '[{ label = "Local", method = "local" }, { label = "FedAvg", method = "fedavg" }]'
    masks = '[{ label = "Local", method = "local" }, { label = "FedAvg", method = "fedpurin" }]'
    path.write_text(
        GRID.replace(rows, masks)
        .replace('inherit = "two"', 'inherit = "two"\nevaluation = { tallies = ["mask"] }')
        .replace("[0, 1]", "[0]")
    )
    return path


@pytest.fixture(scope="module")
def results(grid: Path) -> Path:
    from repfl.bench.cli.main import call

    folder = grid.parent / "results"
    assert call(["run", "--grid", str(grid), "--results", str(folder), "--executor", "inline"]) == 0
    return folder


def damaged(path: Path, rng: random.Random) -> Iterator[None]:
    """Flip a bit or cut the end off, again and again; the file is as it was in the end."""
    good = path.read_bytes()
    for trial in range(EACH):
        bad = bytearray(good)
        if trial % 2:
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        else:
            del bad[rng.randrange(len(bad)) :]
        path.write_bytes(bad)
        yield
    path.write_bytes(good)


def victim(planned: list[Planned]) -> str:
    """The cell that is going to be damaged: the mask method on three clients."""
    (found,) = {
        item.cell.id
        for item in planned
        if item.cell.method == "fedpurin" and item.column == "three"
    }
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_damage_is_found_and_none_is_used(
    here: Here, grid: Path, results: Path, name: str
) -> None:
    planned = plan(Selection(files=[grid]))
    path = results / victim(planned) / name
    whole = artefacts.make(planned, Library(Store(results)))
    assert not whole.problems
    found = 0
    for _ in damaged(path, random.Random(name)):
        said = here("verify", "--results", results)
        assert said.code == 1
        assert said.out.count("finding: ") == 1
        assert str(path.parent) in said.out
        assert name in said.out
        made = artefacts.make(planned, Library(Store(results)))
        assert len(made.problems) == 1
        assert str(path) in made.problems[0]
        table, before = (
            made.results[0].frame.set_index(["row", "column"]),
            whole.results[0].frame.set_index(["row", "column"]),
        )
        assert table.loc["FedAvg", "three"].isna()["ours"]
        assert str(path) in table.loc[("FedAvg", "three"), "reason"]
        sound = [("Local", "two"), ("Local", "three"), ("FedAvg", "two")]
        assert table.loc[sound, "ours"].equals(before.loc[sound, "ours"])
        found += 1
    assert found == EACH
    assert here("verify", "--results", results).code == 0


def test_a_report_names_what_it_could_not_use_and_shows_the_rest(
    here: Here, grid: Path, results: Path, tmp_path: Path
) -> None:
    path = results / victim(plan(Selection(files=[grid]))) / "clients.parquet"
    for _ in damaged(path, random.Random(0)):
        said = here("report", "--grid", grid, "--results", results, "--out", tmp_path / "out")
        break
    assert said.code == 1
    assert "its bytes are not those that were written" in " ".join(said.out.split())
    page = (tmp_path / "out" / "tests" / "table1.html").read_text()
    assert str(path) in page
    rows = (tmp_path / "out" / "tests" / "table1.csv").read_text().splitlines()
    assert sum("its bytes are not those" in row for row in rows) == 1
    assert len(rows) == 5
