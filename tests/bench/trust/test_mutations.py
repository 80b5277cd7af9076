"""Would the gate notice? Mistakes are planted in the methods' own code and in the engine, one at a time, and the gate is asked."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import pytest

from tests.bench.conftest import ROOT, environment
from tests.bench.trust import asked
from tests.bench.trust.planted import Mistake, in_engine, in_methods

AT_LEAST = 40
BAR = 0.95
BAR_ELSEWHERE = 0.9
"""Where bits may differ, a wrong note, and an average of accuracies that is wrong within the band, pass."""
CLONES = int(os.environ.get("REPFL_TEST_CLONES", "2"))
PACKAGES = ("algorithms", "bench", "datasets", "paper_tables")


class Answer(NamedTuple):
    """What the gate said of a mistake."""

    here: list[str]
    elsewhere: list[str]
    broken: bool
    """Nothing could be computed any more, or nothing that could be compared: whoever made the mistake would see it without a gate."""


def ask(context: Any, clone: Path, names: tuple[str, ...]) -> Answer:
    """The gate in a copy of this clone."""
    here, there = context.Pipe()
    process = context.Process(target=asked.ask, args=(str(clone.resolve()), names, there))
    process.start()
    there.close()
    try:
        known, unknown = here.recv()
    except EOFError:
        return Answer([], [], True)
    finally:
        process.join()
    return Answer(known, unknown, any(" is failed" in why for why in known))


def other_platform(reference: Path) -> str:
    """A reference as if it had been made somewhere else."""
    values = json.loads(reference.read_text())
    for cell in values["cells"].values():
        cell["digests"] = {"another": ""}
    return json.dumps(values)


def clone(folder: Path, reference: Path | None) -> Path:
    """A copy of this clone with a reference of its own."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    if reference is None:
        accept = [sys.executable, "-m", "bench", "check", "--reference", "here.json", "--accept", "--reason", "before the mistakes"]
        made = subprocess.run(accept, cwd=folder, env=environment(PYTHONPATH=str(folder)), capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
    else:
        shutil.copy(reference, folder / "here.json")
    (folder / "elsewhere.json").write_text(other_platform(folder / "here.json"))
    return folder


@pytest.mark.slow
def test_planted_mistakes_are_caught(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = clone(tmp_path / "0", None)
    others = [clone(tmp_path / str(number), first / "here.json") for number in range(1, CLONES)]
    free: SimpleQueue[Path] = SimpleQueue()
    for folder in (first, *others):
        free.put(folder)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(asked.LIBRARIES)
    assert ask(context, first, ("fedavg", "fedpurin", "dfedpgp")) == Answer([], [], False)

    def answer(mistake: Mistake) -> Answer:
        folder = free.get()
        path = folder / mistake.file
        right = path.read_text()
        path.write_text(mistake.text)
        try:
            return ask(context, folder, mistake.methods)
        finally:
            path.write_text(right)
            free.put(folder)

    planted = [*in_methods(first), *in_engine(first)]
    with ThreadPoolExecutor(CLONES) as pool:
        answers = list(pool.map(answer, planted))
    told = judged(planted, answers)
    with capsys.disabled():
        print("\n" + "\n".join(told.lines))
    assert told.planted >= AT_LEAST
    assert told.here >= BAR * told.planted, told.lines
    assert told.elsewhere >= BAR_ELSEWHERE * told.planted, told.lines


class Told(NamedTuple):
    """The catch rates. Mistakes that keep anything from being computed do not count, on either side."""

    planted: int
    here: int
    elsewhere: int
    lines: list[str]


def judged(planted: list[Mistake], answers: list[Answer]) -> Told:
    """Count, and say it."""
    asked = [(mistake.what, answer) for mistake, answer in zip(planted, answers, strict=True) if not answer.broken]
    missed = [what for what, answer in asked if not answer.here]
    lenient = [what for what, answer in asked if answer.here and not answer.elsewhere]
    here, elsewhere = len(asked) - len(missed), sum(bool(answer.elsewhere) for _, answer in asked)
    broken, all_of_them = len(planted) - len(asked), max(len(asked), 1)
    lines = [
        f"{len(planted)} mistakes planted, {broken} of them break the computation itself; of the {len(asked)} others",
        f"{here} are caught where the platform is known: {here / all_of_them:.1%}",
        f"{elsewhere} are caught elsewhere: {elsewhere / all_of_them:.1%}",
    ]
    lines += [f"missed: {what}" for what in missed] + [f"missed elsewhere: {what}" for what in lenient]
    return Told(len(asked), here, elsewhere, lines)
