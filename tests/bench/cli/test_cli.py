"""The command line: exit codes, one line per fault, and never a traceback."""

from __future__ import annotations

import errno
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.cli import main as cli
from repfl.bench.cli.printing import screen
from repfl.bench.store.store import Store
from tests.bench.conftest import FAULTY, GRID, ROOT, Here

ROWS = re.compile(r"^rows = .*Local.*$", re.MULTILINE)


def test_run_report_and_reuse(here: Here, grid: Path, tmp_path: Path) -> None:
    asked = ("--grid", grid, "--results", tmp_path / "results")
    first = here("run", *asked, "--executor", "inline")
    assert (first.code, "8 computed" in first.out) == (0, True)
    second = here("run", *asked)
    assert (second.code, "8 there already" in second.out) == (0, True)
    assert json.loads(here("plan", *asked, "--json").out)["statuses"] == {"done": 8}
    assert "distinct cells" in here("plan", *asked).out
    assert here("verify", "--results", tmp_path / "results", "--rerun", "1").code == 0
    report = here("report", *asked, "--out", tmp_path / "out")
    assert (report.code, "two clients" in report.out) == (0, True)
    made = {path.name for path in (tmp_path / "out" / "tests").iterdir()}
    assert made >= {"table1.csv", "table1.md", "table1.tex", "fig1.png", "fig1.pdf"}
    assert (tmp_path / "out" / "index.html").exists()


def test_shards_together_are_the_whole(here: Here, grid: Path, tmp_path: Path) -> None:
    asked = ("--grid", grid, "--results", tmp_path)
    for part in ("1/2", "2/2"):
        done = here("run", *asked, "--shard", part, "--executor", "inline")
        assert (done.code, "4 computed" in done.out) == (0, True)
    facts = json.loads(here("plan", *asked, "--json").out)
    assert (facts["statuses"], facts["seconds"]) == ({"done": 8}, 0)


def test_a_damaged_record_is_a_finding_and_is_never_used(
    here: Here, grid: Path, tmp_path: Path
) -> None:
    run = ("run", "--grid", grid, "--results", tmp_path / "r", "--executor", "inline")
    here(*run)
    victim = next((tmp_path / "r").glob("*/rounds.parquet"))
    victim.write_bytes(victim.read_bytes()[:-1])
    found = here("verify", "--results", tmp_path / "r")
    assert found.code == 1
    assert str(victim) in found.out
    assert "1 computed" in here(*run).out
    assert here("verify", "--results", tmp_path / "r").code == 0


def test_whatever_ends_a_cell_is_a_record_and_a_line_and_the_rest_is_done(
    here: Here, tmp_path: Path, faulty: Path
) -> None:
    rows = [f'{{ label = "{n}", method = "test-{n}" }}' for n in ("nan", "raise", "memory")]
    rows.append('{ label = "well", method = "test-slow", hp = { seconds = 0.0 } }')
    text = ROWS.sub(f"rows = [{', '.join(rows)}]", GRID)
    text = text.replace('recipes = ["two", "three"]', 'recipes = ["two"]')
    (tmp_path / "tests.toml").write_text(text.replace("seeds = [0, 1]", "seeds = [0]"))
    where = ("--grid", tmp_path / "tests.toml", "--plugin", FAULTY, "--results", tmp_path / "r")
    how = ("--executor", "inline", "--stack", "2")
    done = here("run", *where, "--artefact", "tests/table1", *how)
    assert done.code == 3
    for words in ("2 computed", "1 failed", "1 diverged", "ZeroDivisionError: on purpose"):
        assert words in done.out
    repeat = [line for line in done.out.splitlines() if line.startswith("    repeat: repfl run")]
    assert len(repeat) == 2
    for line in repeat:
        command = shlex.split(line.partition("repeat: ")[2])
        for option, path in (("grid", "tests.toml"), ("results", "r"), ("plugin", FAULTY)):
            assert command[command.index(f"--{option}") + 1] == str(tmp_path / path)
    raising = FAULTY.read_text().partition("raise ZeroDivisionError")[0].count("\n") + 1
    store = Store(tmp_path / "r")
    records = [record for cell in store.ids() if (record := store.get(cell)) is not None]
    found = {record.cell["method"]: record for record in records if record.status != "done"}
    assert {name: record.reason for name, record in found.items()} == {
        "test-nan": "the model is not finite after round 2",
        "test-raise": f"ZeroDivisionError: on purpose (faulty.py:{raising})",
    }
    assert f"    record and traceback: repfl show {found['test-raise'].id[:12]}" in done.out
    for record in found.values():
        assert "Traceback" in record.provenance["traceback"]
        assert f"--cell {record.id[:12]}" in record.provenance["command"]
        assert record.provenance["command"].count("--stack 2") == 1
    memory = [each for each in records if each.cell["method"] == "test-memory"]
    assert [each.provenance["chunk"] for each in memory] == [1]


def test_a_long_message_of_a_plug_in_is_cut_and_the_record_has_it_whole(
    here: Here, grid: Path, tmp_path: Path, faulty: Path
) -> None:
    rows = 'rows = [{ label = "Local", method = "test-wordy" }]'
    grid.write_text(ROWS.sub(rows, GRID).replace("seeds = [0, 1]", "seeds = [0]"))
    where = ("--grid", grid, "--results", tmp_path / "r", "--artefact", "tests/table1")
    said = here("run", *where, "--plugin", FAULTY, "--executor", "inline")
    assert said.code == 3
    assert said.out.count("ValueError: word") == 2  # of two cells, each once
    assert said.err.count("ValueError: word") == 2
    assert "(100,000 characters)" in said.out
    assert max(map(len, [*said.out.splitlines(), *said.err.splitlines()])) < 2000
    store = Store(tmp_path / "r")
    record = store.get(store.ids()[0])
    assert record is not None
    assert "word" * 25_000 in record.provenance["traceback"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rn"], ["No such command 'rn'", "run"]),
        (["method"], ["No such command", "valid: check, collect"]),
        (["run", "--metod", "x"], ["--metod", "--method"]),
        (["run", "--seed", "x"], ["--seed"]),
        (["run", "--cell", ""], ["--cell is empty"]),
        (["run", "--executor", "proceses"], ["proceses", "processes"]),
        (["run", "--per-gpu", "half"], ["--per-gpu", "valid integer"]),
        (["run", "--workers", "0"], ["workers 0", ">= 1"]),
        (["run", "--device", "tpu"], ["tpu", "auto, cpu, cuda"]),
        (["run", "--stack", "0"], ["stack 0"]),
        (["run", "--checkpoint", "nan"], ["checkpoint nan"]),
        (["run", "--plugin", "/nowhere.py"], ["/nowhere.py", "no such file"]),
        (["run", "--grid", "/nowhere.toml"], ["/nowhere.toml", "cannot be read"]),
        (["list"], ["Missing argument 'kind': papers, methods"]),
        (["show", "fedobp"], ["'fedobp' is not valid", "PAPER/ARTEFACT"]),
        (["show", "star-pfl/tabel2"], ["unknown claim, table or figure 'tabel2'", "table2"]),
        (["list", "method"], ["unknown kind 'method'", "methods"]),
        (["info", "fedprn"], ["unknown name 'fedprn'", "fedpurin"]),
        (["info", "fedobp/table4"], ["`repfl show fedobp/table4`"]),
        (["new", "method", "1Bad name"], ["such as bad-name"]),
        (["show", "zz"], ["zz"]),
        (["verify", "--results", "/nowhere"], ["/nowhere", "does not exist"]),
        (["verify", "--paper", "fedobp"], ["verify --paper", "--measured"]),
        (["verify", "--measured", "--paper", "fedop"], ["unknown paper 'fedop'", "fedobp"]),
        (["plan", "--method", "fedper+pd"], ["unknown wrapper 'pd'", "dp"]),
        (["plan", "--method", "dis-pfl+dp"], ["dis-pfl has no server"]),
        (["merge"], ["merge: Missing argument", "results folder"]),
        (["merge", "/nowhere"], ["/nowhere: is no folder"]),
        (["check", "--reference", "/nowhere.json"], ["/nowhere.json", "--accept"]),
        (["check", "--accept"], ["--reason"]),
        (["check", "--method", "fedprn"], ["fedprn"]),
        (["check", "--promise", "finit"], ["unknown promise 'finit'", "finite"]),
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
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert f"{path}:2:" in said.err


# -- what there is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        *(f"list {kind}" for kind in ("papers", "datasets", "partitions", "models", "recipes")),
        *(f"info {name}" for name in ("fedpurin", "digits", "iid", "auc", "fedobp/cifar10-dir0.1")),
        f"info test-slow --plugin {shlex.quote(str(FAULTY))}",
    ],
)
def test_everything_is_listed_as_a_table_and_as_json(here: Here, faulty: Path, asked: str) -> None:
    command = shlex.split(asked)
    said = here(*command)
    assert (said.code, said.err) == (0, "")
    assert said.out
    assert json.loads(here(*command, "--json").out)


def test_artefacts_count_what_is_published_with_the_code(
    here: Here, grid: Path, tmp_path: Path
) -> None:
    asked = ("list", "artefacts", "--results", tmp_path / "none", "--grid", grid, "--json")
    found = json.loads(here(*asked).out)
    assert {each["name"] for each in found if each["paper"] == "tests"} == {"table1", "fig1"}
    table = next(each for each in found if (each["paper"], each["name"]) == ("fedpurin", "table1"))
    desk = table["scales"]["desk"]
    assert desk["done"] == 0 < desk["committed"] <= desk["cells"]
    shown = here(*asked[:-1])
    assert shown.code == 0, shown.err
    assert re.search(r"tests/table1 +table +0 / 0 / 8 ", shown.out)


def test_runs_lists_what_is_stored_the_unreadable_too(
    here: Here, grid: Path, tmp_path: Path
) -> None:
    assert json.loads(here("list", "runs", "--results", tmp_path, "--json").out) == []
    here("run", "--grid", grid, "--results", tmp_path, "--executor", "inline")
    store = Store(tmp_path)
    first, *others = store.ids()
    (store.folder(first) / "record.json").write_text("{", "utf-8")
    runs = json.loads(here("list", "runs", "--results", tmp_path, "--json").out)
    assert [run["run"] for run in runs if "method" not in run] == [first]
    assert {run["run"]: run["status"] for run in runs} == {
        first: "missing",
        **dict.fromkeys(others, "done"),
    }
    said = here("list", "runs", "--results", tmp_path)
    assert (said.code, said.err) == (0, "")
    assert all(cell[:12] in said.out for cell in store.ids())


# -- hints -----------------------------------------------------------------------------------------


def test_a_plan_says_why_cells_are_skipped(here: Here, tmp_path: Path) -> None:
    start = ROOT / "bench" / "templates" / "grid" / "my_grid.toml"
    grid = tmp_path / "mine.toml"
    grid.write_text(start.read_text("utf-8").replace("tiny-bn", "mlp"), "utf-8")
    said = here("plan", "--grid", grid, "--results", tmp_path / "results")
    assert "4 skipped: fedbn needs normalisation layers" in said.out


def test_a_plan_says_what_is_published_and_what_the_rest_costs(here: Here, tmp_path: Path) -> None:
    whole = ("--artefact", "fedpurin/table3", "--scale", "desk", "--results", tmp_path)
    assert "a committed run\n" in here("plan", *whole).out
    asked = ("--artefact", "star-pfl/table3", "--scale", "desk", "--results", tmp_path)
    facts = json.loads(here("plan", *asked, "--json").out)
    assert 0 < facts["committed"] <= facts["statuses"]["missing"]
    assert facts["uncommitted_seconds"] < facts["seconds"]
    (line,) = re.findall(r"rest: `repfl (run [^`]*)`", here("plan", *asked).out)
    asked = shlex.split(line.replace("run", "plan", 1))
    assert json.loads(here(*asked, "--json").out)["committed"] == 0


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (KeyError("x"), 4, "internal error, KeyError"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "repfl: No space left on device"),
    ],
)
def test_a_fault_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: Exception,
    code: int,
    words: str,
) -> None:
    def broken(_: Any) -> int:
        raise fault

    monkeypatch.setattr(cli, "_dispatch", broken)
    assert cli.call(["run"]) == code
    assert words in capsys.readouterr().err


def test_a_page_that_is_no_terminal_is_wide_and_wider_if_columns_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for columns, width in (("200", 200), ("80", 140), ("", 140)):
        monkeypatch.setenv("COLUMNS", columns)
        assert screen().width == width
