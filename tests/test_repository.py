"""What surrounds the code is well formed, and names only what exists: sessions, commands, options,
files, versions.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PLUGIN = ROOT / ".github" / "actions" / "repfl-plugin"
FOLDERS = [ROOT / name for name in ("bench", "datasets", "docs", "paper_tables")]
PAGES = [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in folder.rglob("*.md"))]
PAGES = [*sorted(PAGES), ROOT / ".github" / "pull_request_template.md", PLUGIN / "README.md"]
PAGES += FORMS
NAMED = [*WORKFLOWS, PLUGIN / "check.sh", *PAGES]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def jobs(path: Path) -> dict[str, Any]:
    return dict(read(path)["jobs"])


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


def scripts(path: Path) -> Iterator[str]:
    """What is run, or what readers are told to run."""
    text = path.read_text()
    if path in WORKFLOWS:
        yield from (step["run"] for step in steps(path) if "run" in step)
    elif path.suffix == ".sh":
        yield "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    else:
        yield from re.findall(r"`((?:repfl|nox) [^`]+)`", text)
        for block in re.findall(r"```(?:bash)?\n(.*?)```", text, flags=re.DOTALL):
            yield from (re.split(r" {2,}", line.strip())[0] for line in block.splitlines())


def test_every_command_and_option_that_is_named_exists() -> None:
    from repfl.bench.cli.main import command_line

    known = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in command_line().commands.items()
    }
    for path in NAMED:
        for text in scripts(path):
            for name, rest in re.findall(r"(?:^|[\s/`])repfl ([a-z]+)([^\n`]*)", text):
                assert name in known, path
                if name != "data":  # which has commands of its own
                    used = set(re.findall(r"(--[a-z][a-z-]*)", rest))
                    assert used <= known[name] | {"--help"}, path


def test_every_session_and_every_file_that_is_named_exists() -> None:
    sessions = {
        node.name
        for node in ast.parse((ROOT / "noxfile.py").read_text()).body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    }
    for path in NAMED:
        for text in scripts(path):
            for names in re.findall(r"nox -s ([a-z ]+)", text):
                assert set(names.split()) <= sessions, path
    for path in PAGES:
        named = re.findall(r"`((?:bench|tests|paper_tables)/[\w./-]+\.\w+)`", path.read_text())
        assert [name for name in named if not (ROOT / name).exists()] == [], path


def test_a_workflow_may_read_and_no_more() -> None:
    for path in WORKFLOWS:
        whole = read(path)
        assert whole["permissions"] == {"contents": "read"}, path
        assert "concurrency" in whole, path
        text = path.read_text()
        assert not [word for word in ("pull_request_target", "secrets.") if word in text], path
        more = {name for name, job in jobs(path).items() if "permissions" in job}
        assert more <= ({"publish"} if path.name == "report.yml" else set()), path
        assert all("timeout-minutes" in job for job in jobs(path).values()), path


@pytest.fixture(scope="module")
def every_step() -> list[dict[str, Any]]:
    """The steps of the workflows and of the action."""
    of_action = read(PLUGIN / "action.yml")["runs"]["steps"]
    return [*(step for path in WORKFLOWS for step in steps(path)), *of_action]


def test_actions_are_pinned_to_a_major_version(every_step: list[dict[str, Any]]) -> None:
    named = [step["uses"] for step in every_step if "uses" in step]
    assert named
    for name in named:
        assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", name) or (ROOT / name / "action.yml").is_file()


def test_no_value_from_outside_is_pasted_into_a_script(every_step: list[dict[str, Any]]) -> None:
    """It comes as a variable, so that a name on a pull request cannot be a command."""
    assert [step["run"] for step in every_step if "${{" in step.get("run", "")] == []


# -- the action for plug-ins -----------------------------------------------------------------------

Stub = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    """Runs a script of the action with a stand-in for the program that it calls."""

    def run(script: str, program: str, body: str, **variables: str) -> Any:
        (tmp_path / program).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tmp_path / program).chmod(0o755)
        where = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PAGE": str(tmp_path / "page.md")}
        env, command = {**os.environ, **where, **variables}, [str(PLUGIN / script)]
        how = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
        return subprocess.run(command, env=env, **how)

    return run


CALLS = 'echo "repfl $*"; echo "a table"; '


@pytest.mark.parametrize(("code", "reference"), [(0, True), (1, True), (0, False)])
def test_the_action_checks_contract_and_gate(
    stub: Stub, tmp_path: Path, code: int, reference: bool
) -> None:
    if reference:
        (tmp_path / "its.json").touch()
    asked = {"METHODS": "one two", "PLUGIN": "a.py", "REFERENCE": "its.json"}
    done = stub("check.sh", "repfl", f"{CALLS}exit {code}", **asked)
    assert done.returncode == code
    assert "repfl check --plugin a.py --method one --method two" in done.stdout
    assert ("--reference its.json\n" in done.stdout) is reference
    page = (tmp_path / "page.md").read_text()
    assert page.count("a table") == 1
    assert ("no reference" in page) is not reference


def test_the_example_of_the_action_uses_its_inputs() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (PLUGIN / "README.md").read_text(), re.DOTALL)
    used = yaml.safe_load(example)["jobs"]["method"]["steps"][-1]
    assert f"/{PLUGIN.relative_to(ROOT).as_posix()}@" in used["uses"]
    inputs = read(PLUGIN / "action.yml")["inputs"]
    assert {name for name, each in inputs.items() if each.get("required")} <= set(used["with"])
    assert set(used["with"]) <= set(inputs)
