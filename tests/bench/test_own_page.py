"""The page on one's own images and network: its commands do what it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from repfl.bench.grid.plan import Selection, plan
from tests.bench.conftest import ROOT, Here

PAGE = (ROOT / "bench" / "OWN.md").read_text()
CLASSES = ("owl", "robin", "wren")


def birds(folder: Path) -> None:
    """Small pictures of three colours, of sizes of their own."""
    rng = np.random.default_rng(0)
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for index in range(40):
            size = 12 + index % 9
            pixels = rng.integers(0, 120, (size, size, 3))
            pixels[..., label] += 130
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{index}.png")


def test_from_a_folder_and_a_module_to_a_table_of_seven_methods(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPFL_DATA", str(tmp_path / "data"))
    birds(tmp_path / "birds")
    for file, text in re.findall(r"Save as `([\w.]+)`:\n\n```\w+\n(.*?)```", PAGE, flags=re.DOTALL):
        (tmp_path / file).write_text(text)
    commands = "".join(re.findall(r"```bash\n(.*?)```", PAGE, flags=re.DOTALL)).splitlines()
    assert len(commands) == 7
    for command in commands:
        name, *arguments = shlex.split(command)
        inline = ["--executor", "inline"] if "reproduce" in arguments else []
        assert name == "repfl"
        said = here(*arguments, *inline)
        assert said.code == 0, f"{command}: {said.err}"
    variations = PAGE.split("## 5. Variations")[1].split("```toml\n")[1].split("```")[0]
    with (tmp_path / "birds.toml").open("a") as grid:
        grid.write("\n" + variations)
    given = ("--grid", "birds.toml", "--plugin", "birds.py", "--plugin", "net.py")
    said = here("plan", *given, "--artefact", "birds/rates", "--column", "skewed", "--json")
    assert said.code == 0, said.err
    assert len(json.loads(said.out)["cells"]) == 4
    (file,) = (tmp_path / "report").rglob("table.csv")
    table = pd.read_csv(file)
    assert len(table) == 7
    assert (table["ours"] > 33).all()
    # runs on data of one's own are no toy runs
    assert "Runs: birds, 4 clients, 3 rounds" in (file.with_suffix(".md")).read_text()


def test_the_grid_of_the_page_on_persons_can_be_planned(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "har.md").read_text(), re.DOTALL)
    (path := tmp_path / "persons.toml").write_text(text)
    planned = plan(Selection(files=[path]))
    assert {(each.cell.method, each.cell.seed) for each in planned} == {
        (method, seed) for method in ("local", "fedavg", "fedavg-ft") for seed in (0, 1, 2)
    }
    assert not any(each.skip for each in planned)
