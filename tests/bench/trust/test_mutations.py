"""Would the gate notice? Mistakes are planted in methods, engine, data path, metrics and harness,
one at a time, and the gate is asked; of refactorings it must not say a word.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import pytest

from repfl.bench.records import provenance
from repfl.bench.trust.gate.reference import FILE
from tests.bench.conftest import ROOT, copy_code, environment
from tests.bench.trust import asked
from tests.bench.trust.edits import HARMLESS, MISTAKES
from tests.bench.trust.planted import Mistake, by_hand, in_engine, in_methods

BAR = 0.95
BAR_ELSEWHERE = 0.9
"""Where bits may differ, a mistake that moves one sample of all clients, and no size, passes."""
CLONES = int(os.environ.get("REPFL_TEST_CLONES", "2"))


class Answer(NamedTuple):
    """What the gate said of a mistake."""

    here: list[str]
    elsewhere: list[str]
    broken: bool
    """Nothing could be computed any more, or nothing that could be compared: whoever made the
    mistake would see it without a gate.
    """


Ask = Callable[[Sequence[Mistake]], list[Answer]]


def ask(context: Any, clone: Path, names: tuple[str, ...], recipes: tuple[str, ...]) -> Answer:
    """The gate in a copy of this clone."""
    here, there = context.Pipe()
    process = context.Process(target=asked.ask, args=(str(clone.resolve()), names, recipes, there))
    process.start()
    there.close()
    try:
        known, unknown = here.recv()
    except EOFError:
        return Answer([], [], True)
    finally:
        process.join()
    return Answer(known, unknown, any(" is failed" in why or " is refused" in why for why in known))


def other_platform(reference: Path) -> str:
    """A reference as if it had been made somewhere else."""
    values = json.loads(reference.read_text())
    for cell in values["cells"].values():
        cell["digests"] = {"another": ""}
    return json.dumps(values)


def knows_this_platform(reference: Path) -> bool:
    here = provenance.platform_of("cpu", "fp64")["fingerprint"]
    return all(
        here in cell["digests"] for cell in json.loads(reference.read_text())["cells"].values()
    )


def clone(folder: Path, reference: Path | None) -> Path:
    """A copy of this clone with a reference of its own."""
    copy_code(folder, "algorithms", "bench", "datasets", "paper_tables")
    if reference is None:
        accept = [
            sys.executable,
            "-m",
            "repfl",
            "check",
            "--reference",
            "here.json",
            "--accept",
            "--reason",
            "before the mistakes",
        ]
        made = subprocess.run(
            accept,
            cwd=folder,
            env=environment(PYTHONPATH=str(folder)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
    else:
        shutil.copy(reference, folder / "here.json")
    (folder / "elsewhere.json").write_text(other_platform(folder / "here.json"))
    return folder


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Asks the gate about mistakes, each in a copy of this clone that has nothing else wrong."""
    folder = tmp_path_factory.mktemp("clones")
    first = clone(folder / "0", FILE if knows_this_platform(FILE) else None)
    others = [clone(folder / str(number), first / "here.json") for number in range(1, CLONES)]
    free: SimpleQueue[Path] = SimpleQueue()
    for each in (first, *others):
        free.put(each)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(asked.LIBRARIES)
    assert ask(
        context, first, ("fedavg", "fedpurin", "dfedpgp"), ("everybody", "pfeddst")
    ) == Answer([], [], False)

    def answer(mistake: Mistake) -> Answer:
        mine = free.get()
        path = mine / mistake.file
        right = path.read_text()
        path.write_text(mistake.text)
        try:
            return ask(context, mine, mistake.methods, mistake.recipes)
        finally:
            path.write_text(right)
            free.put(mine)

    def answers(mistakes: Sequence[Mistake]) -> list[Answer]:
        with ThreadPoolExecutor(CLONES) as pool:
            return list(pool.map(answer, mistakes))

    return answers


@pytest.mark.slow
@pytest.mark.parametrize(("which", "at_least"), [("found in the code", 40), ("by hand", 30)])
def test_planted_mistakes_are_caught(
    asking: Ask, which: str, at_least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = (
        [*by_hand(ROOT, MISTAKES)] if which == "by hand" else [*in_methods(ROOT), *in_engine(ROOT)]
    )
    told = judged(planted, asking(planted))
    with capsys.disabled():
        print("\n" + "\n".join(told.lines))
    assert told.planted >= at_least
    assert told.here >= BAR * told.planted, told.lines
    assert told.elsewhere >= BAR_ELSEWHERE * told.planted, told.lines


@pytest.mark.slow
def test_refactorings_pass(asking: Ask) -> None:
    planted = [*by_hand(ROOT, HARMLESS)]
    assert len(planted) >= 10
    for mistake, answer in zip(planted, asking(planted), strict=True):
        assert answer == Answer([], [], False), mistake.what


class Told(NamedTuple):
    """The catch rates. Mistakes that keep anything from being computed do not count, on either
    side.
    """

    planted: int
    here: int
    elsewhere: int
    lines: list[str]


def judged(planted: list[Mistake], answers: list[Answer]) -> Told:
    """Count, and say it."""
    asked = [
        (mistake.what, answer)
        for mistake, answer in zip(planted, answers, strict=True)
        if not answer.broken
    ]
    missed = [what for what, answer in asked if not answer.here]
    lenient = [what for what, answer in asked if answer.here and not answer.elsewhere]
    here, elsewhere = len(asked) - len(missed), sum(bool(answer.elsewhere) for _, answer in asked)
    broken, all_of_them = len(planted) - len(asked), max(len(asked), 1)
    lines = [
        (
            f"{len(planted)} mistakes planted, {broken} of them break the computation itself; of"
            f" the {len(asked)} others"
        ),
        f"{here} are caught where the platform is known: {here / all_of_them:.1%}",
        f"{elsewhere} are caught elsewhere: {elsewhere / all_of_them:.1%}",
    ]
    lines += [f"missed: {what}" for what in missed] + [
        f"missed elsewhere: {what}" for what in lenient
    ]
    return Told(len(asked), here, elsewhere, lines)


def test_every_edit_fits_the_code() -> None:
    for edit in (*MISTAKES, *HARMLESS):
        compile(edit.applied(ROOT), edit.file, "exec")
