"""The first screen, counted from the sheets: a finding as title, a sentence per paper, a mark per
published number. Numbers and claims have the same states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repfl.bench.report.artefact_data import ArtefactData, ClaimData
from repfl.bench.report.numbers import Number
from repfl.paper_tables.core.counting import is_number, is_printed, split
from repfl.paper_tables.core.statistics.verdict import EXACT, UNJUDGED, Kind, Verdict

STATES = {
    str(Verdict.REPRODUCED): ("reproduced", "✓"),
    str(Verdict.DIFFERS): ("differs", "≠"),
    str(Verdict.UNDECIDED): ("undecided", "?"),
    str(Verdict.OTHER_SCALE): ("reduced", "~"),
    str(Verdict.MISSING): ("missing", "·"),
}
"""By verdict, in the order of every legend: the class that colours it, and its sign."""
CLAIMS = {
    "holds": Verdict.REPRODUCED,
    "does not hold": Verdict.DIFFERS,
    "contradicts the paper's own numbers": Verdict.DIFFERS,
    "undecided": Verdict.UNDECIDED,
    "setting": Verdict.OTHER_SCALE,
}
"""The verdict whose colour each state of a claim has. The states are written out, since the module
that has them imports Matplotlib.
"""
PLURAL = (
    "hold",
    "do not hold",
    "contradict the paper's own numbers",
    "undecided",
    "settings that our runs take over",
)


ORIGINS = ("in print", "of the authors' files")
"""Where numbers stand: counted apart, everywhere."""


def state(verdict: str) -> str:
    """Return the class of a verdict; a published range without a value is not measured."""
    return STATES.get(verdict, STATES[str(Verdict.MISSING)])[0]


@dataclass(frozen=True)
class Dot:
    """One published number: its verdict, its page and its name."""

    verdict: str
    link: str
    name: str


def dots(sheet: ArtefactData) -> list[Dot]:
    """Return a dot for every number that a table or figure publishes."""
    return [
        Dot(
            number.verdict,
            f"{sheet.page}#{number.id}",
            f"{number.row}, {number.where}: {_reported(number)} {number.printed_text}, "
            + (f"ours {number.ours_text}, {number.verdict}" if number.measured else "not measured"),
        )
        for number in sheet.printed
        if is_number(number.kind)
    ]


def _reported(number: Number) -> str:
    return "logged" if number.kind == Kind.LOGGED else "reported"


def apart(numbers: Iterable[Number]) -> tuple[list[Number], list[Number]]:
    """Return the numbers that papers print, and those of their authors' files."""
    printed, filed = list[Number](), list[Number]()
    for number in numbers:
        (printed if is_printed(number.source) else filed).append(number)
    return printed, filed


def differing(sheets: Sequence[ArtefactData]) -> list[tuple[ArtefactData, Number]]:
    """Return the numbers that differ, the largest share of the reported value first."""
    pairs = [(s, n) for s in sheets for n in s.printed if n.verdict == Verdict.DIFFERS]
    return sorted(pairs, key=lambda pair: -_relative_gap(pair[1]))


def _relative_gap(number: Number) -> float:
    return abs(number.difference or 0.0) / max(abs(number.printed or 0.0), 1e-9)


@dataclass(frozen=True)
class Summary:
    """One paper in numbers."""

    paper: str
    title: str
    year: int
    sheets: tuple[ArtefactData, ...]
    open: Mapping[str, Any]
    sources: str = ""
    about: str = ""
    coverage: tuple[Mapping[str, Any], ...] = ()

    @property
    def numbers(self) -> list[Number]:
        """Return the numbers of tables and figures, without settings."""
        return [n for sheet in self.sheets for n in sheet.printed if is_number(n.kind)]

    @property
    def claims(self) -> list[tuple[ArtefactData, ClaimData]]:
        return [(sheet, claim) for sheet in self.sheets for claim in sheet.claims]

    @property
    def _stated(self) -> list[str]:
        """Return the sources of the numbers that stand in sentences only."""
        return [s for _, claim in self.claims if is_number(claim.state) for s in claim.sources]

    @property
    def sentences(self) -> int:
        """Count the numbers that stand in sentences only."""
        return len(self._stated)

    @property
    def published(self) -> int:
        return len(self.numbers) + self.sentences

    @property
    def origins(self) -> tuple[int, int]:
        """Count the numbers that the paper prints, and those of its authors' files."""
        return split([*(number.source for number in self.numbers), *self._stated])

    @property
    def verdicts(self) -> dict[str, int]:
        """Count the numbers of tables and figures by verdict."""
        given = Counter(number.verdict for number in self.numbers)
        return {str(verdict): given[str(verdict)] for verdict in Verdict}

    @property
    def claim_counts(self) -> dict[str, int]:
        """Count the paper's claims by state, without checks of ours."""
        states = Counter(claim.state for _, claim in self.claims if not claim.ours)
        return {name: states[name] for name in CLAIMS}

    @property
    def standings(self) -> str:
        """Return the claims by state, in words."""
        words = zip(self.claim_counts.items(), PLURAL, strict=True)
        return ", ".join(f"{n} {one if n == 1 else many}" for (one, n), many in words if n)

    @property
    def bars(self) -> list[tuple[str, list[tuple[str, int, float]]]]:
        """Return a stacked bar of the printed numbers and one of those of authors' files: verdict,
        count and per cent.
        """
        bars = []
        for name, numbers in zip(ORIGINS, apart(self.numbers), strict=True):
            given = Counter(number.verdict for number in numbers)
            counts = [(str(verdict), given[str(verdict)]) for verdict in Verdict]
            if numbers:
                bars.append((name, [(v, n, 100 * n / len(numbers)) for v, n in counts if n]))
        return bars

    @property
    def sentence(self) -> str:
        """Return the paper in plain words."""
        about = self.about or ("" if self.published else "A protocol of its own, printed nowhere.")
        return " ".join(filter(None, (about, *_sentences(self))))

    @property
    def findings(self) -> list[tuple[ArtefactData, str]]:
        """Return the first finding of each table and figure."""
        return [(sheet, sheet.findings[0]) for sheet in self.sheets if sheet.findings]


def summaries(
    sheets: Sequence[ArtefactData],
    papers: Mapping[str, Mapping[str, Any]],
    open_: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Summary]:
    """Return one summary per paper, in the order of the sheets."""
    return [
        Summary(
            paper,
            str(facts.get("title", paper)),
            int(facts.get("year") or 0),
            tuple(sheet for sheet in sheets if sheet.paper == paper),
            (open_ or {}).get(paper, {}),
            str(facts.get("sources", "")),
            str(facts.get("about", "")),
            tuple(facts.get("coverage", ())),
        )
        for paper in dict.fromkeys(sheet.paper for sheet in sheets)
        for facts in [papers.get(paper, {})]
    ]


# -- words -----------------------------------------------------------------------------------------


def title(summaries: Sequence[Summary]) -> str:
    """Return the finding of the whole report: the outcome of re-running at full scale so far."""
    toy = all(sheet.scale == "smoke" for summary in summaries for sheet in summary.sheets)
    judged = [number for summary in summaries for number in _judged(summary.numbers)]
    if not judged:
        exact = [n for s in summaries for n in s.numbers if n.kind in EXACT]
        same = sum(n.verdict == Verdict.REPRODUCED for n in exact)
        match = f"{same} of {len(exact)} numbers that need no training match"
        return f"Toy run: {match}" if toy else f"{match}; no run at full scale yet"
    printed, filed = apart(judged)
    parts = [f"{_count(len(printed), 're-run printed number')}: {_outcomes(printed)}"]
    if filed:
        parts.append(f"{_count(len(filed), 're-run value')} of authors' logs: {_outcomes(filed)}")
    return "; ".join(parts)


def _outcomes(judged: Sequence[Number]) -> str:
    """Return the verdicts on numbers that were re-run, in words; a zero is said, too."""
    counts = Counter(n.verdict for n in judged)
    reproduced, differ, undecided = (
        counts[str(v)] for v in (Verdict.REPRODUCED, Verdict.DIFFERS, Verdict.UNDECIDED)
    )
    differs = "differs" if differ == 1 else "differ"
    return f"{reproduced:,} reproduced, {differ:,} {differs}, {undecided:,} undecided"


def lead(summaries: Sequence[Summary]) -> str:
    """Return the report in three sentences: what was checked, how, and from how many runs."""
    papers = [summary for summary in summaries if summary.published]
    numbers = [number for summary in papers for number in summary.numbers]
    exact = [n for n in numbers if n.kind in EXACT]
    trained = [n for n in numbers if n.kind and n.kind not in EXACT]
    judged = _judged(numbers)
    reduced = sum(n.verdict == Verdict.OTHER_SCALE for n in trained)
    printed, filed = (sum(summary.origins[side] for summary in papers) for side in (0, 1))
    files = f" and {_count(filed, 'value')} of their authors' files" if filed else ""
    parts = [
        f"This report checks {_count(printed, 'printed number')} of"
        f" {_count(len(papers), 'paper')}{files}; settings are none."
    ]
    if exact:
        parts.append(f"{len(exact):,} need no training: {_matching(exact)}.")
    if trained:
        parts.append(
            f"{len(trained):,} need training: {len(judged):,} were re-run at full scale"
            f"{_single(judged)}"
            + (
                f", and {reduced:,} only in a reduced run, which decides nothing."
                if reduced
                else "."
            )
        )
    if sentences := sum(summary.sentences for summary in papers):
        parts.append(f"{sentences:,} stand in sentences, which are checked as claims.")
    return " ".join(parts)


def counts(summaries: Sequence[Summary]) -> dict[str, tuple[int, int]]:
    """Count the numbers of each verdict: those in print, and those of authors' files."""
    printed, filed = apart(number for summary in summaries for number in summary.numbers)
    return {
        name: (
            sum(state(number.verdict) == each for number in printed),
            sum(state(number.verdict) == each for number in filed),
        )
        for name, (each, _) in STATES.items()
    }


def _judged(numbers: Iterable[Number]) -> list[Number]:
    """Return the numbers that need training and have a verdict at full scale."""
    return [n for n in numbers if n.kind not in EXACT and n.verdict not in UNJUDGED | {""}]


def _single(judged: Sequence[Number]) -> str:
    """Return how many of the compared numbers rest on one run of ours, in words."""
    single = sum(n.seeds == 1 for n in judged)
    if not single:
        return ""
    return ", one run each" if single == len(judged) else f", {single:,} of them with one run"


def _sentences(summary: Summary) -> Iterator[str]:
    exact = [n for n in summary.numbers if n.kind in EXACT]
    trained = [n for n in summary.numbers if n.kind and n.kind not in EXACT]
    if exact:
        yield f"Of {_count(len(exact), 'number')} that need no training, {_matching(exact)}."
    if trained:
        for name, numbers in zip(ORIGINS, apart(trained), strict=True):
            if judged := _judged(numbers):
                yield (
                    f"{len(judged):,} of {len(numbers):,} trained numbers {name} were re-run at"
                    f" full scale{_single(judged)}: {_outcomes(judged)}."
                )
            elif numbers:
                yield (
                    f"None of {len(numbers):,} trained numbers {name} has been re-run at full"
                    " scale."
                )
    if count := sum(summary.claim_counts.values()):
        own_checks = len(summary.claims) - count
        suffix = f"; and {_count(own_checks, 'check')} of ours" if own_checks else ""
        yield f"{_count(count, 'claim')}: {summary.standings}{suffix}."
    if missing := summary.open.get("missing"):
        hours = summary.open["seconds"] / 3600
        yield f"Still to run: {_count(missing, 'cell')}, about {span(hours)} of one CPU core."


def _matching(exact: Sequence[Number]) -> str:
    """Return how many of the numbers that need no training match, in words."""
    verdicts = Counter(n.verdict for n in exact)
    match, differ, other = (
        verdicts[str(v)] for v in (Verdict.REPRODUCED, Verdict.DIFFERS, Verdict.OTHER_SCALE)
    )
    parts = [f"{match:,} match{'es' * (match == 1)}"]
    parts += [f"{differ:,} differ{'s' * (differ == 1)}"] if differ else []
    parts += [f"{other:,} {'is' if other == 1 else 'are'} not comparable"] if other else []
    return ", ".join(parts)


def span(hours: float) -> str:
    """Return a time in a unit that a reader can picture."""
    for size, name in ((8760, "year"), (24, "day"), (1, "hour")):
        if hours >= 1.5 * size:
            return _count(round(hours / size), name)
    return _count(max(1, round(hours * 60)), "minute")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
