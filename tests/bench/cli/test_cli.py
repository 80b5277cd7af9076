"""The command line: exit codes, one line per fault, and never a traceback."""

from __future__ import annotations

import errno
import json
import re
import shlex
from pathlib import Path
from unittest.mock import Mock

import pytest

import repfl
from repfl.bench.cli import main as cli
from repfl.bench.store import locks
from repfl.bench.store.store import Store
from tests.bench.conftest import FAULTY, GRID, Here, says

ROWS = re.compile(r"^rows = .*Local.*$", re.MULTILINE)


def test_what_is_there_is_used_verified_and_reported(
    here: Here, grid: Path, results: Path, tmp_path: Path
) -> None:
    asked = ("--grid", grid, "--results", results)
    said = here("run", *asked)
    assert (said.code, "8 there already" in said.out) == (0, True)
    assert json.loads(here("plan", *asked, "--json").out)["statuses"] == {"done": 8}
    assert here("--version").out == f"repfl {repfl.__version__}\n"
    assert here("verify", "--results", results, "--rerun", "1").code == 0
    report = here("report", *asked, "--out", tmp_path / "out")
    # names are printed as they are: Rich takes `[/]` for the end of a style, HTML `<` for a tag
    assert (report.code, "three [/] <i>$ a|b" in report.out) == (0, True)
    assert "<i>$" not in (tmp_path / "out" / "tests" / "table1.html").read_text()
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


def test_whatever_ends_a_cell_is_a_record_and_a_line_and_the_rest_is_done(
    here: Here, tmp_path: Path, faulty: Path
) -> None:
    methods = ("nan", "raise", "memory", "wordy")
    rows = [f'{{ label = "{name}", method = "test-{name}" }}' for name in methods]
    rows.append('{ label = "well", method = "test-slow", hp = { seconds = 0.0 } }')
    text = ROWS.sub(f"rows = [{', '.join(rows)}]", GRID)
    text = text.replace('recipes = ["two", "three"]', 'recipes = ["two"]')
    (tmp_path / "tests.toml").write_text(text.replace("seeds = [0, 1]", "seeds = [0]"))
    where = ("--grid", tmp_path / "tests.toml", "--plugin", FAULTY, "--results", tmp_path / "r")
    how = ("--executor", "inline", "--stack", "2")
    done = here("run", *where, "--artefact", "tests/table1", *how)
    assert done.code == 3
    says(done.out, "2 computed | 2 failed | 1 diverged | ZeroDivisionError: on purpose")
    # a message that fills many screens is cut, and the record has it whole
    assert "(100,000 characters)" in done.out
    assert max(map(len, [*done.out.splitlines(), *done.err.splitlines()])) < 2000
    repeat = [line for line in done.out.splitlines() if line.startswith("    repeat: repfl run")]
    assert len(repeat) == 3
    for line in repeat:
        command = shlex.split(line.partition("repeat: ")[2])
        for option, path in (("grid", "tests.toml"), ("results", "r"), ("plugin", FAULTY)):
            assert command[command.index(f"--{option}") + 1] == str(tmp_path / path)
    raising = FAULTY.read_text().partition("raise ZeroDivisionError")[0].count("\n") + 1
    store = Store(tmp_path / "r")
    records = [record for cell in store.ids() if (record := store.get(cell)) is not None]
    found = {record.cell["method"]: record for record in records if record.status != "done"}
    assert "word" * 25_000 in found.pop("test-wordy").origin.traceback
    assert {name: record.reason for name, record in found.items()} == {
        "test-nan": "the model is not finite after round 2",
        "test-raise": f"ZeroDivisionError: on purpose (faulty.py:{raising})",
    }
    assert f"    record and traceback: repfl show {found['test-raise'].id[:12]}" in done.out
    for record in found.values():
        assert "Traceback" in record.origin.traceback
        assert f"--cell {record.id[:12]}" in record.origin.command
        assert record.origin.command.count("--stack 2") == 1
    memory = [each for each in records if each.cell["method"] == "test-memory"]
    assert [each.origin.chunk for each in memory] == [1]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("rn", "No such command 'rn' | run"),
        ("method", "No such command | valid: check, collect"),
        ("run --metod x", "--metod | --method"),
        ("run --seed x", "--seed"),
        ("run --cell ''", "--cell is empty"),
        ("run --executor proceses", "proceses | processes"),
        ("run --per-gpu half", "--per-gpu | valid integer"),
        ("run --workers 0", "workers 0 | >= 1"),
        ("run --device tpu", "tpu | auto, cpu, cuda"),
        ("run --stack 0", "stack 0"),
        ("run --checkpoint nan", "checkpoint nan"),
        ("run --plugin /nowhere.py", "/nowhere.py | no such file"),
        ("run --grid /nowhere.toml", "/nowhere.toml | cannot be read"),
        ("list", "Missing argument | papers, methods"),
        ("list method", "unknown kind 'method' | methods"),
        ("show fedobp", "'fedobp' is not valid | PAPER/ARTEFACT"),
        ("show star-pfl/tabel2", "unknown claim, table or figure 'tabel2' | table2"),
        ("show zz", "zz"),
        ("info fedprn", "unknown name 'fedprn' | fedpurin"),
        ("info fedobp/table4", "`repfl show fedobp/table4`"),
        ("info local+dp", "local sends nothing, and dp changes only what is sent"),
        ("new method '1Bad name'", "such as bad-name"),
        ("verify --results /nowhere", "/nowhere | does not exist"),
        ("verify --paper fedobp", "verify --paper | --measured"),
        ("verify --measured --paper fedop", "unknown paper 'fedop' | fedobp"),
        ("plan --method fedper+pd", "unknown wrapper 'pd' | dp"),
        ("plan --method dis-pfl+dp", "dis-pfl has no server"),
        ("merge", "merge: Missing argument | results folder"),
        ("merge /nowhere", "/nowhere: is no folder"),
        ("check --reference /nowhere.json", "/nowhere.json | --accept"),
        ("check --accept", "--reason"),
        ("check --method fedprn", "fedprn"),
        ("check --promise finit", "unknown promise 'finit' | finite"),
        ("check --method fedavg --model tinny", "unknown model 'tinny'; did you mean tiny"),
        ("check --method fedavg --recipe fmnist-nowhere", "unknown recipe 'fmnist-nowhere'"),
        ("plan --artefact fedpurin/fig5 --shard 0/2", "i/n with 1 <= i <= n <= 10,000"),
        ("plan --artefact fedpurin/fig5 --shard 1/10001", "i/n with 1 <= i <= n <= 10,000"),
        ("plan --artefact fedpurin/fig5 --shard ²/3", "i/n with 1 <= i <= n <= 10,000"),
        ("plan --plugin ~nobody-has-this-name/x", "there is no such file"),
    ],
)
def test_wrong_input_is_one_line_and_code_2(
    here: Here, command: str, words: str, tmp_path: Path
) -> None:
    arguments = shlex.split(command)
    results = ["--results", str(tmp_path)] if arguments[0] in ("run", "show") else []
    said = here(*arguments, *results)
    assert (said.code, said.err.count("\n")) == (2, 1)
    says(said.err, words)


def test_a_broken_plugin_is_named_with_its_line(here: Here, tmp_path: Path) -> None:
    texts = ("def f(:", "1 / 0", "import nothing_like_this", "raise SystemError('a\\nb')")
    for number, text in enumerate(texts):
        path = tmp_path / f"plugin{number}.py"
        path.write_text(f"\n{text}\n")
        said = here("list", "methods", "--plugin", path)
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert f"{path}:2:" in said.err


def test_a_fault_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    for fault, code, words in ((KeyError("x"), 4, "internal error, KeyError"), (full, 2, "space")):
        monkeypatch.setattr(cli, "_dispatch", Mock(side_effect=fault))
        assert cli.call(["run"]) == code
        said = capsys.readouterr().err
        assert words in said


# -- what there is ---------------------------------------------------------------------------------


def test_everything_is_listed_as_a_table_and_as_json(here: Here, faulty: Path) -> None:
    names = ("fedpurin", "digits", "iid", "auc", "fedobp/cifar10-dir0.1")
    asked = [("info", name) for name in names]
    asked += [("list", kind) for kind in ("papers", "datasets", "partitions", "models", "recipes")]
    for command in [*asked, ("info", "test-slow", "--plugin", str(FAULTY))]:
        said = here(*command)
        assert (said.code, said.err, said.out != "") == (0, "", True), command
        assert json.loads(here(*command, "--json").out)


def test_artefacts_and_runs_are_listed_the_unreadable_too(
    here: Here, grid: Path, results: Path, tmp_path: Path
) -> None:
    nowhere = ("--results", tmp_path / "none")
    found = json.loads(here("list", "artefacts", *nowhere, "--grid", grid, "--json").out)
    assert {each["name"] for each in found if each["paper"] == "tests"} == {"table1", "fig1"}
    table = next(each for each in found if (each["paper"], each["name"]) == ("fedpurin", "table1"))
    desk = table["scales"]["desk"]
    assert desk["done"] == 0 < desk["committed"] <= desk["cells"]
    first, *others = Store(results).ids()
    (results / first / "record.json").write_text("{", "utf-8")
    runs = json.loads(here("list", "runs", "--results", results, "--json").out)
    expected = {first: "missing", **dict.fromkeys(others, "done")}
    assert {run["run"]: run["status"] for run in runs} == expected
    said = here("list", "runs", "--results", results)
    assert (said.code, said.err) == (0, "")
    assert all(cell[:12] in said.out for cell in expected)


def test_a_plan_says_what_is_committed_running_and_cheap(here: Here, tmp_path: Path) -> None:
    asked = ("plan", "--artefact", "star-pfl/table3", "--scale", "desk", "--results", tmp_path)
    facts = json.loads(here(*asked, "--json").out)
    assert 0 < facts["committed"] <= facts["statuses"]["missing"]
    assert facts["uncommitted_seconds"] < facts["seconds"]
    (line,) = re.findall(r"rest: `repfl (run [^`]*)`", here(*asked).out)
    rest = here(*shlex.split(line.replace("run", "plan", 1)), "--json")
    assert json.loads(rest.out)["committed"] == 0
    seconds = [line["seconds"] for line in facts["cells"]]
    assert seconds == sorted(seconds)
    assert len(set(seconds)) > 1
    first = facts["cells"][0]["id"]
    with locks.claim(Store(tmp_path), first):
        facts = json.loads(here(*asked, "--json").out)
    assert {each["status"] for each in facts["cells"] if each["id"] == first} == {"running"}
