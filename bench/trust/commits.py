"""What a commit's code makes of today's gate, smoke scale and grids: computed here, in
processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from repfl.bench.cells.cell import Cell, build_cell, canonical, spec
from repfl.bench.cells.grid import SCALES
from repfl.bench.cells.plan import plan
from repfl.bench.cells.planned import Planned, Selection, unique
from repfl.bench.cells.valid import recipe_from
from repfl.bench.errors import FAILED, UserError
from repfl.bench.records import provenance
from repfl.bench.running import devices, progress
from repfl.bench.running.cost import Speeds
from repfl.bench.running.task import Outcome
from repfl.bench.running.work import ONE_THREAD
from repfl.bench.trust import regress

SCRIPT = Path(__file__).with_name("under_ref.py")
DATA = ("dataset", "clients", "partition", "norm", "input", "classes")
"""What of a recipe decides which samples its clients hold."""
Answers = Mapping[str, Mapping[str, Any]]
"""What a commit's code made of trials, by their keys."""


@dataclass(frozen=True)
class Question:
    """Something that both commits are asked: a cell to compute, or what its clients hold."""

    kind: str
    """gate, smoke or view"""
    label: str
    cell: Cell

    @property
    def how(self) -> str:
        return {"gate": "fp64", "smoke": "default", "view": "view"}[self.kind]

    @property
    def key(self) -> str:
        return f"{self.how} {self.cell.id}"

    @property
    def json(self) -> dict[str, Any]:
        return {"key": self.key, "how": self.how, "cell": self.cell.json}

    @property
    def variant(self) -> str:
        """The method, with the options that are not as they are by default."""
        usual = build_cell(self.cell.method, {}, recipe_from(self.cell.recipe, "recipe"), 0).hp
        return spec(
            self.cell.method,
            {name: value for name, value in self.cell.hp.items() if value != usual[name]},
        )


def trials(methods: Sequence[str] = ()) -> list[Question]:
    """All cells of the gate and of the smoke scale, and every way in which the grids deal data."""
    found = [
        Question("gate", place.key, planned.cell) for place, planned in regress.places(methods)
    ]
    smoke = [
        item
        for item in unique(plan(Selection(scale="smoke")))
        if not methods or item.cell.method in methods
    ]
    found += [Question("smoke", _label(item), item.cell) for item in smoke]
    views: dict[str, Question] = {}
    for scale in SCALES:
        for item in plan(Selection(scale=scale)):
            held = canonical({name: item.cell.recipe[name] for name in DATA})
            views.setdefault(
                held, Question("view", f"{item.paper} {item.column} at scale {scale}", item.cell)
            )
    return [*found, *views.values()]


def _label(item: Planned) -> str:
    return f"{item.key}, {item.told}, {item.column_label}, seed {item.cell.seed}"


# -- asking a commit -------------------------------------------------------------------------------


def commit_of(ref: str) -> str:
    """The full name of a commit."""
    with suppress(OSError, subprocess.SubprocessError):
        if not _git("rev-parse", "--show-prefix").strip():  # else the repository is somebody's own
            return _git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").decode().strip()
    raise UserError(f"{ref!r} is no commit of {provenance.ROOT}; `git log --oneline` lists them")


def changed(*beside: Path) -> bool:
    """Whether this clone has changes that are not committed, other than of the given files."""
    others = [f":(exclude){path.relative_to(provenance.ROOT)}" for path in beside]
    return bool(_git("status", "--porcelain", "--", ".", *others).strip())


def _git(*arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(provenance.ROOT), *arguments], capture_output=True, check=True
    ).stdout


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """The files of a commit in a folder of their own; the clone is only read."""
    with tempfile.TemporaryDirectory(prefix="repfl-tree-") as folder:
        with tarfile.open(fileobj=BytesIO(_git("archive", "--format=tar", commit))) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder).resolve()


def ask(commit: str, asked: Sequence[Question], keep: Path, workers: int | None) -> Answers:
    """A commit's answers; each is kept as soon as it is there, so that nothing is asked twice but
    what may be answered better by now.
    """
    keep.mkdir(parents=True, exist_ok=True)
    path = keep / f"{regress.platform()}-{commit}.jsonl"
    known = _kept(path)
    costs = {
        trial.key: Speeds().seconds(trial.cell) if trial.kind != "view" else 0.0 for trial in asked
    }
    todo = sorted(
        (trial for trial in asked if not _final(known.get(trial.key))),
        key=lambda trial: -costs[trial.key],
    )
    if todo or "sources" not in known:
        told = progress.make()
        told.note(f"commit {commit[:8]}:")
        cells = {trial.key: trial.cell for trial in todo if trial.kind != "view"}
        with told.running(
            list(cells.values()),
            {cells[key].id: costs[key] for key in cells},
            0,
            workers or devices.processors(),
        ):
            for line in _answers(commit, todo, workers or devices.processors()):
                with path.open("a", encoding="utf-8") as file:
                    file.write(line)
                if cell := cells.get(json.loads(line)["key"]):
                    told.finish(Outcome(cell.id, "done"))
        known = _kept(path)
    return {key: known[key] for key in ["sources", *(trial.key for trial in asked)]}


def _final(answer: Mapping[str, Any] | None) -> bool:
    """Whether an answer is the commit's for good; data that were not at hand may be there now."""
    return answer is not None and not answer.keys() & {"absent", "unknown"}


def _kept(path: Path) -> dict[str, Any]:
    """Answers of earlier times; what a killed process left of a line is asked again."""
    found: dict[str, Any] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        found[answer["key"]] = answer
    return found


def _answers(commit: str, asked: Sequence[Question], workers: int) -> Iterator[str]:
    """Lines of JSON, as they come; each process takes its share of the trials."""
    lines: SimpleQueue[str] = SimpleQueue()
    with tree_of(commit) as tree, tempfile.TemporaryDirectory(prefix="repfl-asked-") as folder:
        running = [
            _process(
                tree, Path(folder), json.dumps([trial.json for trial in asked]), (share, workers)
            )
            for share in range(workers)
        ]
        listeners = [
            Thread(target=_listen, args=(process, lines), daemon=True) for process in running
        ]
        for listener in listeners:
            listener.start()
        try:
            for _ in running:
                yield from iter(lines.get, "")
        finally:
            for process in running:
                process.terminate()
        if any(process.wait() for process in running):
            said = " ".join((Path(folder) / "said").read_text(encoding="utf-8").split())
            raise UserError(
                f"commit {commit[:8]}: its code does not run here: {said[-300:]}", FAILED
            )


def _process(tree: Path, folder: Path, asked: str, share: tuple[int, int]) -> subprocess.Popen[str]:
    """One process under a commit's code; it sees that tree and nothing of this one."""
    (folder / "asked").write_text(asked, encoding="utf-8")
    command = [sys.executable, "-P", str(SCRIPT), str(tree), *map(str, share)]
    with (
        (folder / "asked").open(encoding="utf-8") as given,
        (folder / "said").open("a", encoding="utf-8") as said,
    ):
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(tree)}
        return subprocess.Popen(
            command, stdin=given, stdout=subprocess.PIPE, stderr=said, text=True, env=environment
        )


def _listen(process: subprocess.Popen[str], lines: SimpleQueue[str]) -> None:
    """Hand on what a process prints; an empty line is its end."""
    for line in process.stdout or ():
        lines.put(line)
    process.wait()
    lines.put("")
