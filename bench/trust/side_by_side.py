"""Two commits side by side: what is equal, what moved and where first; and the rows that follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from repfl.bench.errors import FINDING, UserError
from repfl.bench.records import sources as code
from repfl.bench.trust import commits, ledger, regress
from repfl.bench.trust.commits import Question
from repfl.bench.trust.ledger import Step
from repfl.datasets.core.cache import data_root


@dataclass(frozen=True)
class Disagreement:
    """A trial that the two commits do not agree on."""

    trial: Question
    what: str
    """What moved first, and by how much."""


@dataclass
class Comparison:
    """What was found."""

    old: str
    new: str
    same: set[str] = field(default_factory=set)
    """Methods whose code is the same, so that no cell was computed."""
    equal: dict[str, list[Question]] = field(default_factory=dict)
    """By method."""
    unknown: dict[str, list[str]] = field(default_factory=dict)
    """By method: why cells could not be compared."""
    moves: list[Disagreement] = field(default_factory=list)
    views: int = 0
    """Ways of dealing data that are equal."""
    sources: dict[str, tuple[ledger.Code, ledger.Code]] = field(default_factory=dict)
    """By method: what the two commits call their own code."""

    @property
    def methods(self) -> list[str]:
        """Those of which something can be said."""
        moved = {move.trial.cell.method for move in self.moves if move.trial.kind != "view"}
        return sorted({*self.same, *self.equal, *self.unknown, *moved})

    def moved(self, method: str) -> list[Disagreement]:
        return [
            move
            for move in self.moves
            if move.trial.kind != "view" and move.trial.cell.method == method
        ]

    @property
    def views_moved(self) -> list[Disagreement]:
        return [move for move in self.moves if move.trial.kind == "view"]


def compare(
    old: str,
    new: str,
    methods: Sequence[str] = (),
    keep: Path | None = None,
    workers: int | None = None,
) -> Comparison:
    """Ask both commits; of methods whose code is the same in both, nothing needs to be asked."""
    refs = commits.commit_of(old), commits.commit_of(new)
    asked = commits.trials(methods)
    found = Comparison(*refs)
    names = list(dict.fromkeys(trial.cell.method for trial in asked if trial.kind != "view"))
    found.same = set(_same_code(refs, names))
    asked = [
        trial for trial in asked if trial.cell.method not in found.same or trial.kind == "view"
    ]
    if found.same:
        asked = [trial for trial in asked if trial.kind != "view"]  # nor has dealing moved
    keep = keep or Path(data_root()) / "compare"
    answers = [commits.ask(ref, asked, keep, workers) for ref in refs]
    for name in names:
        if all(name in each["sources"]["sources"] for each in answers):
            found.sources[name] = tuple(
                ledger.code_of(each["sources"]["sources"][name]) for each in answers
            )  # type: ignore[assignment]
    for trial in asked:
        _compare(trial, answers[0][trial.key], answers[1][trial.key], found)
    return found


def _same_code(refs: tuple[str, str], methods: Sequence[str]) -> list[str]:
    """The methods whose code is the same in both, but for comments, docstrings and layout."""
    with commits.tree_of(refs[0]) as old, commits.tree_of(refs[1]) as new:
        return [name for name in methods if _hashes(name, old) == _hashes(name, new) != {}]


def _hashes(method: str, tree: Path) -> Mapping[str, str]:
    try:
        return code.sources(method, tree)
    except KeyError:
        return {}


def _compare(
    trial: Question, then: Mapping[str, Any], now: Mapping[str, Any], found: Comparison
) -> None:
    """One trial: equal, moved, or unknown to one of the two."""
    method = trial.cell.method
    reason = next(
        (answer["unknown"] for answer in (then, now) if "unknown" in answer), ""
    ) or _not_run(then, now)
    if reason:
        if trial.kind != "view":
            found.unknown.setdefault(method, []).append(reason)
    elif what := first_difference(then, now):
        found.moves.append(Disagreement(trial, what))
    elif trial.kind == "view":
        found.views += 1
    else:
        found.equal.setdefault(method, []).append(trial)


def _not_run(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Why two records say nothing about the code: the cell makes no sense, or does not run here."""
    ends = {answer.get("status") for answer in (then, now)}
    return (
        f"{then['reason'] or now['reason'] or 'skipped'}"
        if "skipped" in ends or ends == {"failed"}
        else ""
    )


# -- what moved first ------------------------------------------------------------------------------


def first_difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Where two answers first part, in words; empty where they are equal, in every bit and every
    metric.
    """
    if "view" in then:
        return next(_parted("", then["view"], now["view"]), "")
    if then["status"] != now["status"]:
        return f"was {then['status']}, is {now['status']}: {now['reason'] or then['reason']}"
    made, remade = then["made"], now["made"]
    versions = [answer["cell"]["version"] for answer in (then, now)]
    differing = [
        *_parted("", then["metrics"], now["metrics"]),
        *_parted("digests", made.get("digests", {}), remade.get("digests", {})),
    ]
    if not differing:
        return ""
    differing.sort(key=lambda told: not told.startswith("value "))  # what tables show, if it moved
    newer = f"version {versions[0]} -> {versions[1]}" if versions[0] != versions[1] else ""
    return "; ".join(filter(None, (newer, _first_size(made, remade), differing[0])))


def _parted(place: str, then: Any, now: Any) -> Iterator[str]:
    """Every value that both have and that is not the same."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for name in (name for name in then if name in now):
            yield from _parted(f"{place}/{name}".lstrip("/"), then[name], now[name])
    elif then != now:
        yield f"{place} {_short(then)} -> {_short(now)}"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:12]


def _first_size(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first round and group whose size differs, if rounds were kept; else the final tensor."""
    if all("norms" in each for each in (then, now)):
        return _first_round(then["norms"], now["norms"])
    sizes, resized = then.get("probe", {}), now.get("probe", {})
    apart = {
        name: abs(resized[name] / size - 1)
        for name, size in sizes.items()
        if size and resized.get(name, size) != size
    }
    name = max(apart, key=lambda name: apart[name], default="")
    return f"final {name} {sizes[name]:.6g} -> {resized[name]:.6g}" if name else ""


def _first_round(
    then: Mapping[str, Sequence[float | None]], now: Mapping[str, Sequence[float | None]]
) -> str:
    parted = (
        (round_, group, size, resized)
        for group in then
        for round_, (size, resized) in enumerate(zip(then[group], now.get(group, ()), strict=False))
        if size != resized
    )
    first = min(parted, key=lambda each: each[0], default=None)
    return (
        ""
        if first is None
        else f"round {first[0]}, {first[1]} {_short(first[2])} -> {_short(first[3])}"
    )


# -- rows of the ledger ----------------------------------------------------------------------------


def steps(found: Comparison) -> list[Step]:
    """A row for every method that something can be said of."""
    if found.views_moved:
        move = found.views_moved[0]
        raise UserError(
            f"{move.trial.label}: clients hold other data now, {move.what}; no value that rests on"
            " them can be carried",
            FINDING,
        )
    return [step for name in found.sources if (step := _step(found, name))]


def _step(found: Comparison, method: str) -> Step | None:
    """One method; nothing where nothing was compared, or both call their code the same."""
    old, new = found.sources[method]
    moves, equal = found.moved(method), found.equal.get(method, [])
    if old == new or not (moves or equal or method in found.same):
        return None
    row = Step(method, *old, *new, found.old, found.new)
    if method in found.same:
        return row
    kinds = Counter(trial.kind for trial in equal)
    what = f"{moves[0].trial.variant}: {moves[0].what}" if moves else ""
    but = ledger.apart(
        [move.trial.cell.json for move in moves], [trial.cell.json for trial in equal]
    )
    return replace(
        row,
        platform=regress.platform(),
        gate=kinds["gate"],
        smoke=kinds["smoke"],
        views=found.views,
        moved=what,
        but=but,
    )


def refuse_changes() -> None:
    """Rows rest on code that everybody can look at: on commits, compared by a commit."""
    if commits.changed(ledger.FILE):
        raise UserError(
            "--record: this clone has changes, and rows rest on commits; commit them first"
        )
