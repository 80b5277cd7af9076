"""Does the gate notice mistakes? They are planted one at a time in methods, engine, data path,
metrics and harness, and the gate is run; it must not say a word about refactorings.

python -m tests.plant            # before a release; about half an hour on two cores
python -m tests.plant --fit      # only whether both lists fit the code, in a few seconds

Edits of `mistakes.toml` and `ideas.toml` whose text is no longer in the code are named and left
out: mend or drop them. No test pins the lists.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from repfl.bench.check.gate import REFERENCE
from tests.bench.conftest import ROOT, copy_code
from tests.plant import asked, suite
from tests.plant.planted import Mistake, by_hand, in_methods

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


def asking(folder: Path) -> Ask:
    """Return a function that runs the gate on mistakes, each in a copy of this clone that has
    nothing else wrong.
    """
    free: SimpleQueue[Path] = SimpleQueue()
    for number in range(CLONES):
        copy_code(folder / str(number), "algorithms", "bench", "datasets", "paper_tables")
        shutil.copy(REFERENCE, folder / str(number) / asked.REFERENCE)
        free.put(folder / str(number))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(asked.LIBRARIES)
    methods, recipes = ("fedavg", "fedpurin", "dfedpgp"), ("everybody", "pfeddst")
    if (answer_ := ask(context, folder / "0", methods, recipes)) != SILENCE:
        raise SystemExit(f"the gate finds fault with this clone as it is: {answer_.moved}")

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


def report(planted: Sequence[Mistake], answers: Sequence[Answer]) -> bool:
    """Print what was caught; return whether it is enough."""
    pairs = list(zip(planted, answers, strict=True))
    # mistakes that keep anything from being computed do not count, on either side
    judged = [(mistake.what, answer) for mistake, answer in pairs if not answer.broken]
    missed = [what for what, answer in judged if not answer.moved]
    caught = len(judged) - len(missed)
    print(f"{len(pairs)} mistakes planted, {len(pairs) - len(judged)} break the computation")
    print(f"{caught} of the {len(judged)} others are caught: {caught / max(len(judged), 1):.1%}")
    for what in missed:
        print(f"missed: {what}")
    return caught >= BAR * len(judged)


def main() -> int:
    """Plant everything; return exit code 1 if the gate misses too much or hears too much."""
    groups = {
        "found in the methods": list(in_methods(ROOT)),
        "by hand": by_hand(ROOT, "engine", "harness", "redefined"),
    }
    harmless = by_hand(ROOT, "harmless")
    for mistake in (*harmless, *(each for group in groups.values() for each in group)):
        compile(mistake.text, str(mistake.file), "exec")
    if "--fit" in sys.argv:
        for idea in suite.ideas([]):
            if idea.planted(ROOT) is None:
                print(f"left out, since code or tests have moved on: {idea.idea} ({idea.file})")
        return 0
    with tempfile.TemporaryDirectory(prefix="repfl-plant-") as folder:
        plant, fine = asking(Path(folder)), True
        for name, mistakes in groups.items():
            print(f"-- {name}")
            fine &= report(mistakes, plant(mistakes))
        print(f"-- {len(harmless)} refactorings")
        for mistake, answer in zip(harmless, plant(harmless), strict=True):
            if answer != SILENCE:
                print(f"taken for a mistake: {mistake.what}: {answer.moved}")
                fine = False
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
