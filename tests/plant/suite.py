"""Do gate and tests together notice mistakes? Those of `ideas.toml` are planted one at a time into
a copy of this clone. The gate is asked, if a method is named, and then the tests that are named:
those of the folder, or the files of it that have to do with the place.

OMP_NUM_THREADS=1 python -m tests.plant.suite            # all; ideas whose text matches: ... WORD

What has not answered in time has found nothing: the mistake is named, and counts as not found.
"""

from __future__ import annotations

import compileall
import multiprocessing
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

from tests import PATIENCE
from tests.plant import asked

ROOT = Path(__file__).resolve().parents[2]
BAR = 55 / 60
FOUND, MISSED, TIMED_OUT = "found", "MISSED", "TIMED OUT"
DRAWING = ["matplotlib.figure", "seaborn", "torch.func", "torchvision", "hypothesis", "typer"]
CHECKED_HASH = PycInvalidationMode.CHECKED_HASH
DIRT = (".git", "__pycache__", ".nox", ".venv", ".mypy_cache", ".ruff_cache")


@dataclass(frozen=True)
class Idea:
    """A mistake, in which file, and who may find it."""

    idea: str
    file: str
    old: str
    new: str
    tests: str
    method: str = ""
    recipes: str = ""

    def planted(self, clone: Path) -> str | None:
        """Return the text of the file with the mistake; None if the code has moved on."""
        path = clone / self.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


def ideas(words: list[str]) -> Iterator[Idea]:
    """Return the ideas that match a word, or all."""
    text = Path(__file__).with_name("ideas.toml").read_text(encoding="utf-8")
    for entry in tomllib.loads(text)["ideas"]:
        if not words or any(word in f"{entry['file']} {entry['idea']}" for word in words):
            yield Idea(**entry)


def answer(context: Any, target: Any, *arguments: Any, patience: float = PATIENCE) -> Any:
    """Return what a process of its own answers; None if it dies. TimeoutError if it takes long."""
    here, there = context.Pipe()
    process = context.Process(target=target, args=(*arguments, there))
    process.start()
    there.close()
    try:
        if not here.poll(patience):
            raise TimeoutError
        return here.recv()
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def finder(context: Any, clone: Path, idea: Idea) -> str:
    """Return what notices the mistake that the clone has; empty if nothing does."""
    if idea.method:
        recipes = tuple(idea.recipes.split())
        moved = answer(context, asked.ask, str(clone), (idea.method,), recipes)
        if moved != []:
            return f"the gate: {moved[0] if moved else 'it could not compute'}"
    failed = answer(context, asked.tests, str(clone), idea.tests.split())
    if failed != []:
        return str(failed[0]) if failed else "the tests: they died"
    return ""


def outcome(find: Callable[[], str]) -> tuple[str, str]:
    """Return the word for what became of a mistake, and who found it."""
    try:
        by = find()
    except TimeoutError:
        return TIMED_OUT, ""
    return (FOUND, by) if by else (MISSED, "")


def main() -> int:
    """Plant the ideas and print who found them; return exit code 1 if too few were found."""
    counts: Counter[str] = Counter()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*asked.LIBRARIES, *DRAWING, "pytest"])
    with tempfile.TemporaryDirectory(prefix="repfl-plant-") as folder:
        clone = Path(folder).resolve() / "clone"
        shutil.copytree(ROOT, clone, symlinks=True, ignore=shutil.ignore_patterns(*DIRT))
        # checked by content: a file that changes twice a second is not taken for its predecessor
        compileall.compile_dir(clone, quiet=2, invalidation_mode=CHECKED_HASH)
        shutil.copy(clone / "bench" / "check" / "reference.json", clone / asked.REFERENCE)
        for idea in ideas(sys.argv[1:]):
            path, text = clone / idea.file, idea.planted(clone)
            if text is None:
                print(f"left out, since the code has moved on: {idea.idea} ({idea.file})")
                continue
            right = path.read_text(encoding="utf-8")
            path.write_text(text, encoding="utf-8")
            word, by = outcome(partial(finder, context, clone, idea))
            path.write_text(right, encoding="utf-8")
            counts[word] += 1
            print(f"{idea.file}: {idea.idea}: {word}{by and ' by '}{by[:150]}", flush=True)
    planted = counts.total()
    print(f"{counts[FOUND]} of {planted} found, {counts[TIMED_OUT]} timed out")
    return 0 if counts[FOUND] >= BAR * planted else 1


if __name__ == "__main__":
    sys.exit(main())
