"""Does the gate notice mistakes? They are planted one at a time in methods, engine, data path,
metrics and harness, and the gate is run; it must not say a word about refactorings.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import pytest

from repfl.bench.check.gate import REFERENCE
from tests.bench.check import asked
from tests.bench.check.planted import Mistake, by_hand, in_methods
from tests.bench.conftest import ROOT, copy_code

BAR = 0.95
CLONES = int(os.environ.get("REPFL_TEST_CLONES", "2"))


class Answer(NamedTuple):
    """What the gate said of a mistake."""

    moved: list[str]
    broken: bool
    """Nothing could be computed or compared: the mistake would be seen without a gate."""


Ask = Callable[[Sequence[Mistake]], list[Answer]]
SILENCE = Answer([], False)


def ask(context: Any, clone: Path, names: tuple[str, ...], recipes: tuple[str, ...]) -> Answer:
    """Run the gate in a copy of this clone."""
    here, there = context.Pipe()
    process = context.Process(target=asked.ask, args=(str(clone.resolve()), names, recipes, there))
    process.start()
    there.close()
    try:
        moved = here.recv()
    except EOFError:
        return Answer([], True)
    finally:
        process.join()
    return Answer(moved, any(" is failed" in why or " is refused" in why for why in moved))


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Run the gate on mistakes, each in a copy of this clone that has nothing else wrong."""
    folder = tmp_path_factory.mktemp("clones")
    free: SimpleQueue[Path] = SimpleQueue()
    for number in range(CLONES):
        copy_code(folder / str(number), "algorithms", "bench", "datasets", "paper_tables")
        shutil.copy(REFERENCE, folder / str(number) / asked.REFERENCE)
        free.put(folder / str(number))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(asked.LIBRARIES)
    methods, recipes = ("fedavg", "fedpurin", "dfedpgp"), ("everybody", "pfeddst")
    assert ask(context, folder / "0", methods, recipes) == SILENCE

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
@pytest.mark.parametrize(("which", "at_least"), [("found in the code", 40), ("by hand", 60)])
def test_planted_mistakes_are_caught(
    asking: Ask, which: str, at_least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = (
        by_hand(ROOT, "harness", "engine")
        if which == "by hand"
        else [*in_methods(ROOT), *by_hand(ROOT, "redefined")]
    )
    answers = zip(planted, asking(planted), strict=True)
    # mistakes that keep anything from being computed do not count, on either side
    asked_about = [(mistake.what, answer) for mistake, answer in answers if not answer.broken]
    missed = [what for what, answer in asked_about if not answer.moved]
    caught, count = len(asked_about) - len(missed), len(asked_about)
    lines = [
        f"{len(planted)} mistakes planted, {len(planted) - count} of them break the computation",
        f"{caught} of the {count} others are caught: {caught / max(count, 1):.1%}",
        *(f"missed: {what}" for what in missed),
    ]
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert count >= at_least
    assert caught >= BAR * count, lines


@pytest.mark.slow
def test_refactorings_pass(asking: Ask) -> None:
    planted = by_hand(ROOT, "harmless")
    assert len(planted) >= 10
    for mistake, answer in zip(planted, asking(planted), strict=True):
        assert answer == SILENCE, mistake.what


def test_every_edit_fits_the_code() -> None:
    edits = by_hand(ROOT, "harness", "engine", "redefined", "harmless")
    assert len(edits) > 120
    for mistake in (*edits, *in_methods(ROOT)):
        compile(mistake.text, str(mistake.file), "exec")
