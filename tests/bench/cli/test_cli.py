"""The command line: exit codes, one line per fault, and never a traceback."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.cli import main as cli
from repfl.bench.store.store import Store
from tests.bench.conftest import FAULTY, GRID, ROOT, Said, environment, repfl

Here = Callable[..., Said]


def test_run_report_and_reuse(here: Here, grid: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    first = here("run", "--grid", grid, "--results", results, "--executor", "inline")
    assert (first.code, "8 computed" in first.out) == (0, True)
    second = here("run", "--grid", grid, "--results", results)
    assert (second.code, "8 there already" in second.out) == (0, True)
    plan = json.loads(here("plan", "--grid", grid, "--results", results, "--json").out)
    assert plan["statuses"] == {"done": 8}
    assert "distinct cells" in here("plan", "--grid", grid, "--results", results).out
    cell = plan["cells"][0]["id"]
    shown = here("show", cell[:8], "--results", results)
    assert cell in shown.out
    assert "--cell" in shown.out
    assert json.loads(here("show", cell, "--results", results, "--json").out)["id"] == cell
    assert here("verify", "--results", results, "--rerun", "1").code == 0
    report = here("report", "--grid", grid, "--results", results, "--out", tmp_path / "out")
    assert (report.code, "two clients" in report.out) == (0, True)
    assert {path.name for path in (tmp_path / "out" / "tests").iterdir()} >= {
        "table1.csv",
        "table1.md",
        "table1.tex",
        "fig1.png",
        "fig1.pdf",
    }
    assert (tmp_path / "out" / "index.html").exists()


def test_failures_end_with_code_3_and_the_rest_is_done(
    here: Here, tmp_path: Path, faulty: Path
) -> None:
    grid = tmp_path / "tests.toml"
    grid.write_text(
        GRID.replace(
            '{ label = "Local", method = "local" }', '{ label = "Bad", method = "test-raise" }'
        )
    )
    done = here(
        "run",
        "--grid",
        grid,
        "--results",
        tmp_path / "r",
        "--plugin",
        FAULTY,
        "--executor",
        "inline",
    )
    assert done.code == 3
    assert "4 computed" in done.out
    assert "4 failed" in done.out
    assert "ZeroDivisionError: on purpose" in done.out
    (line, *_) = [line for line in done.out.splitlines() if "repeat:" in line]
    assert line.startswith("    repeat: repfl run --scale smoke --artefact tests/table1 --cell")
    for words in (f"--grid {grid}", f"--plugin {FAULTY}", f"--results {tmp_path / 'r'}"):
        assert words in line


def test_shards_together_are_the_whole(here: Here, grid: Path, tmp_path: Path) -> None:
    for part in ("1/2", "2/2"):
        assert (
            here(
                "run",
                "--grid",
                grid,
                "--results",
                tmp_path / "r",
                "--shard",
                part,
                "--executor",
                "inline",
            ).code
            == 0
        )
    facts = json.loads(here("plan", "--grid", grid, "--results", tmp_path / "r", "--json").out)
    assert facts["statuses"] == {"done": 8}
    assert facts["seconds"] == 0


def test_a_damaged_record_is_a_finding_and_is_never_used(
    here: Here, grid: Path, tmp_path: Path
) -> None:
    results = tmp_path / "r"
    here("run", "--grid", grid, "--results", results, "--executor", "inline")
    victim = next(results.glob("*/rounds.parquet"))
    victim.write_bytes(victim.read_bytes()[:-1])
    found = here("verify", "--results", results)
    assert found.code == 1
    assert str(victim) in found.out
    again = here("run", "--grid", grid, "--results", results, "--executor", "inline")
    assert "1 computed" in again.out
    assert here("verify", "--results", results).code == 0


def test_infeasible_data_are_refused_with_code_2_and_the_rest_is_done(
    here: Here, tmp_path: Path
) -> None:
    grid = tmp_path / "tests.toml"
    grid.write_text(
        GRID.replace(
            'inherit = "two"',
            'inherit = "two"\npartition = { rule = "class-dirichlet", options = { alpha = 1.0,'
            " minimum = 5000 } }",
        )
    )
    done = here("run", "--grid", grid, "--results", tmp_path / "r", "--executor", "inline")
    assert done.code == 2
    assert "4 computed" in done.out
    assert "not run: 4 cells: digits" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rn"], ["No such command 'rn'", "run"]),
        (["run", "--scale", "smok"], ["smok", "smoke"]),
        (["run", "--paper", "fedprin"], ["unknown paper 'fedprin'", "fedpurin"]),
        (["run", "--metod", "x"], ["--metod", "--method"]),
        (["run", "--seed", "x"], ["--seed"]),
        (["run", "--executor", "proceses"], ["proceses", "processes"]),
        (["run", "--executor", "ray", "--address", "ray://head:10001"], ["ray"]),
        (["run", "--per-gpu", "half"], ["--per-gpu", "valid integer"]),
        (["run", "--workers", "0"], ["--workers 0", ">= 1"]),
        (["run", "--device", "tpu"], ["tpu", "auto, cpu, cuda"]),
        (["run", "--stack", "0"], ["--stack 0"]),
        (["run", "--time-limit", "nan"], ["--time-limit"]),
        (["run", "--shard", "3/2"], ["--shard '3/2'"]),
        (["run", "--plugin", "/nowhere.py"], ["/nowhere.py", "no such file"]),
        (["run", "--grid", "/nowhere.toml"], ["/nowhere.toml", "cannot be read"]),
        (["info", "fedprn"], ["unknown name 'fedprn'", "fedpurin"]),
        (["show", "zz"], ["zz"]),
        (["verify", "--results", "/nowhere"], ["/nowhere", "does not exist"]),
        (["verify", "--paper", "fedobp"], ["verify --paper", "--measured"]),
        (["verify", "--keep"], ["verify --keep", "--measured"]),
        (["verify", "--measured", "--paper", "fedop"], ["unknown paper 'fedop'", "fedobp"]),
        (["check", "--reference", "/nowhere.json"], ["/nowhere.json", "--accept"]),
        (["check", "--accept"], ["--reason"]),
        (["check", "--method", "fedprn"], ["fedprn"]),
        (["data", "get", "cifar11"], ["cifar11", "cifar10"]),
    ],
)
def test_wrong_input_is_one_line_and_code_2(
    here: Here, arguments: list[str], words: list[str], tmp_path: Path
) -> None:
    results = ["--results", str(tmp_path)] if arguments[0] in ("run", "show") else []
    said = here(*arguments, *results)
    assert said.code == 2
    assert said.err.count("\n") == 1
    for word in words:
        assert word in said.err


@pytest.mark.parametrize(
    "text", ["def f(:", "1 / 0", "import nothing_like_this", "raise SystemError('a\\nb')"]
)
def test_a_broken_plugin_is_named_with_its_line(here: Here, tmp_path: Path, text: str) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(f"\n{text}\n")
    said = here("list", "methods", "--plugin", path)
    assert said.code == 2
    assert f"{path}:2:" in said.err
    assert said.err.count("\n") == 1


def test_a_plugin_may_not_take_the_name_of_a_method(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(
        "from repfl.algorithms.core.method import Method, register\n@register('fedavg', title='',"
        " paper='', year=1, family='', sends='')\nclass Mine(Method):\n    pass\n"
    )
    said = here("list", "methods", "--plugin", path)
    assert (said.code, "registered twice" in said.err) == (2, True)


def test_a_plugin_is_a_method_like_any_other(
    here: Here, faulty: Path, grid: Path, tmp_path: Path
) -> None:
    assert "test-slow" in here("list", "methods", "--plugin", FAULTY).out
    facts = json.loads(here("info", "test-slow", "--plugin", FAULTY, "--json").out)
    assert facts["method"]["rule"] == "Takes its time and is right."
    options = ("--plugin", FAULTY, "--results", tmp_path / "r", "--executor", "inline")
    done = here("run", "--grid", grid, "--method", "test-slow[seconds=0]", *options)
    assert (done.code, "4 computed" in done.out) == (0, True)


def test_lists_are_json(here: Here) -> None:
    from repfl.bench.cli.catalog import TABLES

    for command in (*(f"list {kind}" for kind in TABLES), "info iid", "doctor"):
        assert json.loads(here(*command.split(), "--json").out), command
        assert here(*command.split()).out, command
    for command in ("info fedpurin", "info digits", "", "--help", "run --help"):
        said = here(*command.split())
        assert said.code == 0, command
        assert said.out


def test_artefacts_tell_what_came_measured_with_the_code(here: Here, tmp_path: Path) -> None:
    asked = ("list", "artefacts", "--results", tmp_path / "none")
    table = next(
        each
        for each in json.loads(here(*asked, "--json").out)
        if (each["paper"], each["name"]) == ("fedpurin", "table1")
    )
    desk = table["scales"]["desk"]
    assert desk["done"] == 0 < desk["measured"] <= desk["cells"]
    assert f"0 / {desk['measured']} / {desk['cells']}" in here(*asked).out


def test_a_package_of_another_project_with_a_folders_name_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "__init__.py").write_text("foreign = True")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import datasets; "
        "assert datasets.foreign; from repfl.bench.cli.main import main; main(['list', 'methods'])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), cwd=ROOT, check=True
    )
    assert "fedavg" in done.stdout


def test_a_fault_of_ours_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Any) -> int:
        raise KeyError("x")

    monkeypatch.setattr(cli, "_dispatch", broken)
    assert cli.call(["run"]) == 3
    assert "internal error, KeyError" in capsys.readouterr().err


def test_a_terminal_without_our_signs_shows_others(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(cli, "_dispatch", lambda _: print("1 – 2", flush=True) or 0)
    with pytest.raises(SystemExit) as left:
        cli.main(["plan"])
    assert left.value.code == 0
    assert screen.buffer.getvalue() == b"1 ? 2\n"


def test_a_full_disk_is_no_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cli, "_dispatch", full)
    assert cli.call(["run"]) == 2
    assert capsys.readouterr().err.startswith("repfl: No space left on device")


def test_listing_imports_no_heavy_library() -> None:
    heavy = ("torch", "pandas", "matplotlib", "torchvision", "pyarrow")
    code = (
        "import sys; from repfl.bench.cli.main import call; call(['list', 'methods']);"
        f" print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=ROOT,
        check=True,
    )
    assert done.stdout.endswith("[]\n")


def test_a_read_only_results_folder_is_one_line() -> None:
    said = repfl("run", "--artefact", "fedpurin/fig5", "--results", "/proc/repfl")
    assert said.returncode == 2
    assert "/proc/repfl" in said.stderr


def test_whatever_ends_a_cell_is_a_record_and_a_line_and_the_rest_is_done(
    here: Here, tmp_path: Path, faulty: Path
) -> None:
    grid = tmp_path / "tests.toml"
    rows = [
        '{ label = "nan", method = "test-nan" }',
        '{ label = "raises", method = "test-raise" }',
        '{ label = "late", method = "test-slow", hp = { seconds = 4.5 } }',
        '{ label = "memory", method = "test-memory" }',
        '{ label = "well", method = "test-slow", hp = { seconds = 0.0 } }',
    ]
    text = GRID.replace(
        '{ label = "Local", method = "local" }, { label = "FedAvg", method = "fedavg" }',
        ", ".join(rows),
    )
    grid.write_text(
        text.replace('recipes = ["two", "three"]', 'recipes = ["two"]').replace(
            "seeds = [0, 1]", "seeds = [0]"
        )
    )
    options = (
        "--plugin",
        FAULTY,
        "--results",
        tmp_path / "r",
        "--executor",
        "inline",
        "--time-limit",
        "4",
        "--stack",
        "2",
    )
    done = here("run", "--grid", grid, "--artefact", "tests/table1", *options)
    assert done.code == 3
    assert "2 computed" in done.out
    assert "2 failed" in done.out
    assert "1 diverged" in done.out
    assert done.out.count("    repeat: repfl run --scale smoke --artefact tests/table1 --cell") == 3
    records = [Store(tmp_path / "r").get(cell) for cell in Store(tmp_path / "r").ids()]
    found = {
        record.cell["method"]: record
        for record in records
        if record is not None and record.status != "done"
    }
    assert found["test-nan"].reason == "the model is not finite after round 2"
    assert found["test-raise"].reason == "ZeroDivisionError: on purpose"
    assert found["test-slow"].reason == "time limit of 4 s reached after round 1 of 2"
    for record in found.values():
        assert "Traceback" in record.provenance["traceback"]
        assert f"--cell {record.id[:12]}" in record.provenance["command"]
    assert {
        record.provenance["chunk"]
        for record in records
        if record is not None and record.cell["method"] == "test-memory"
    } == {1}
