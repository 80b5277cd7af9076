"""What the first screen says: one sentence for the whole, one per paper, a dot per printed number.
All of it is counted, none of it written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repfl.bench.report.sheet import Number, Said, Sheet
from repfl.paper_tables.core.verdict import EXACT, UNJUDGED, Kind, Verdict

AGAIN = (Verdict.REPRODUCED,)
OUTCOMES = {
    "again": "comes out again",
    "unsure": "undecided: too few runs, or too noisy ones",
    "off": "differs",
    "scaled": "measured on real data, but not comparable",
    "open": "not measured",
}
"""What a dot of a colour means."""
OF = {
    str(Verdict.REPRODUCED): "again",
    str(Verdict.UNDECIDED): "unsure",
    str(Verdict.DIFFERS): "off",
    str(Verdict.OTHER_SCALE): "scaled",
    str(Verdict.MISSING): "open",
}


@dataclass(frozen=True)
class Dot:
    """One printed number: what became of it, where its page is, and what it is called."""

    outcome: str
    link: str
    name: str


def dots(sheet: Sheet) -> list[Dot]:
    """Every number that an artefact prints; those of its sentences last."""
    found = [
        Dot(
            outcome(number),
            f"{sheet.page}#{number.id}",
            f"{number.row}, {number.where}: {_word(number)} {number.published}, "
            + (f"ours {number.ours}, {number.verdict}" if number.measured else "not measured"),
        )
        for number in sheet.printed
    ]
    for claim in sheet.claims:
        said = Dot(of_claim(claim), f"{sheet.page}#claim-{claim.id}", f"in our words: {claim.text}")
        found += [said] * len(claim.sources)
    return found


def _word(number: Number) -> str:
    """Logs of the authors print nothing."""
    return "logged" if number.kind == Kind.LOGGED else "printed"


def outcome(number: Number) -> str:
    """What became of a printed number; of one without a value, such as a range, nothing yet."""
    return OF.get(number.verdict, "open")


def differing(sheets: Sequence[Sheet]) -> list[tuple[Sheet, Number]]:
    """The numbers that differ, the one that is most off, as a share of what is printed, first."""
    found = [(s, n) for s in sheets for n in s.printed if n.verdict == Verdict.DIFFERS]
    return sorted(found, key=lambda pair: -_off(pair[1]))


def _off(number: Number) -> float:
    return abs(number.gap or 0.0) / max(abs(number.printed or 0.0), 1e-9)


def of_claim(claim: Said) -> str:
    """What became of a sentence."""
    if claim.holds is None:
        return "open" if claim.suggests is None else "scaled"
    return "again" if claim.holds else "off"


def verdict_names() -> list[str]:
    """All verdicts, best first."""
    return [str(v) for v in Verdict]


@dataclass(frozen=True)
class Summary:
    """One paper in numbers."""

    paper: str
    title: str
    year: int
    sheets: tuple[Sheet, ...]
    open: Mapping[str, Any]
    sources: str = ""
    about: str = ""

    @property
    def numbers(self) -> list[Number]:
        return [number for sheet in self.sheets for number in sheet.printed]

    @property
    def claims(self) -> list[Said]:
        return [claim for sheet in self.sheets for claim in sheet.claims]

    @property
    def sentences(self) -> int:
        """Printed numbers that stand in sentences only."""
        return sum(len(claim.sources) for claim in self.claims)

    @property
    def published(self) -> int:
        return len(self.numbers) + self.sentences

    @property
    def verdicts(self) -> dict[str, int]:
        given = [number.verdict for number in self.numbers]
        return {name: given.count(name) for name in verdict_names()}

    @property
    def held(self) -> tuple[int, int, int]:
        """Claims that hold, fail, are open."""
        given = [claim.holds for claim in self.claims]
        return given.count(True), given.count(False), given.count(None)

    @property
    def dots(self) -> list[Dot]:
        return [dot for sheet in self.sheets for dot in dots(sheet)]

    @property
    def sentence(self) -> str:
        """The paper in plain words."""
        own = self.about or ("" if self.published else "A protocol that is printed nowhere else.")
        return " ".join(filter(None, (own, *_told(self))))

    @property
    def findings(self) -> list[tuple[Sheet, str]]:
        """What its artefacts show, of each the first thing."""
        return [(sheet, sheet.findings[0]) for sheet in self.sheets if sheet.findings]


def summaries(
    sheets: Sequence[Sheet],
    papers: Mapping[str, Mapping[str, Any]],
    open_: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Summary]:
    """One summary per paper, in the order of the sheets."""
    return [
        Summary(
            paper,
            str(papers.get(paper, {}).get("title", paper)),
            int(papers.get(paper, {}).get("year") or 0),
            tuple(sheet for sheet in sheets if sheet.paper == paper),
            (open_ or {}).get(paper, {}),
            str(papers.get(paper, {}).get("sources", "")),
            str(papers.get(paper, {}).get("about", "")),
        )
        for paper in dict.fromkeys(sheet.paper for sheet in sheets)
    ]


# -- words -----------------------------------------------------------------------------------------


def whole(found: Sequence[Summary]) -> str:
    """One sentence for the report."""
    every = [number for summary in found for number in summary.numbers]
    exact, trained = _parted(every)
    found = [summary for summary in found if summary.published]
    printed = sum(summary.published for summary in found)
    again = sum(n.verdict in AGAIN for n in exact)
    logged = sum(n.kind == Kind.LOGGED for n in every)
    told = [
        f"Here {_count(printed, 'number')} of {_count(len(found), 'paper')} stand beside our own"
        + (
            f"; {logged:,} of them are from the authors' logs, the others are printed."
            if logged
            else "."
        )
    ]
    if exact:
        told.append(
            f"Of {len(exact):,} that follow from sizes and settings, {again:,} come out again."
        )
    judged = [n for n in trained if n.verdict and n.verdict not in UNJUDGED]
    told.append(
        f"Of {len(trained):,} that depend on training, {len(judged):,} have been compared at the"
        f" paper's own scale{_outcomes(judged)}{_single(judged)}, and"
        f" {sum(n.verdict == Verdict.OTHER_SCALE for n in trained):,} were only measured in a"
        " smaller or different setting."
    )
    if sentences := sum(summary.sentences for summary in found):
        held = [c for s in found for c in s.claims if of_claim(c) == "again"]
        again = sum(len(c.sources) for c in held)
        kept = sum(len(c.sources) for c in held if c.settings)
        told.append(
            f"The other {sentences:,} stand in sentences, which are judged as claims; {again:,} of"
            " them come out again"
            + (f" ({kept:,} say how runs are set up, and ours are set up so)." if kept else ".")
        )
    return " ".join(told)


def counts(found: Sequence[Summary]) -> dict[str, str]:
    """How many dots each colour has: numbers of tables and figures, and those of sentences."""
    every = [dot.outcome for summary in found for dot in summary.dots]
    tabled = [outcome(number) for summary in found for number in summary.numbers]
    told = {}
    for name in OUTCOMES:
        whole_, own = every.count(name), tabled.count(name)
        parts = f" ({_count(own, 'number')}, {whole_ - own:,} in sentences)"
        told[name] = f"{whole_:,}" + (parts if whole_ > own else "")
    return told


def _parted(every: Iterable[Number]) -> tuple[list[Number], list[Number]]:
    """Numbers that need no training, and those that do."""
    exact, trained = [], []
    for number in every:
        if number.kind in EXACT:
            exact.append(number)
        elif number.kind:
            trained.append(number)
    return exact, trained


def _outcomes(judged: Sequence[Number]) -> str:
    """How many of the compared numbers came to what."""
    words = {
        "reproduced": AGAIN,
        "different": (Verdict.DIFFERS,),
        "undecided": (Verdict.UNDECIDED,),
    }
    counts = {word: sum(n.verdict in of for n in judged) for word, of in words.items()}
    told = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    return f" ({told})" if told else ""


def _single(judged: Sequence[Number]) -> str:
    """Return how many of the compared numbers rest on one run of ours."""
    single = sum(n.seeds == 1 for n in judged)
    if not single:
        return ""
    all_ = single == len(judged)
    return f", {'each' if all_ else f'{single:,} of them'} from one run of ours"


def _told(summary: Summary) -> Iterator[str]:
    exact, trained = _parted(summary.numbers)
    if exact:
        again = sum(n.verdict in AGAIN for n in exact)
        off = sum(n.verdict == Verdict.DIFFERS for n in exact)
        yield (
            f"{again} of {len(exact)} numbers that need no training come out again"
            + (f", {off} differ." if off else ".")
        )
    if trained:
        judged = [n for n in trained if n.verdict not in UNJUDGED]
        other = sum(n.verdict == Verdict.OTHER_SCALE for n in trained)
        if judged:
            yield (
                f"{len(judged)} of {len(trained)} trained numbers were compared at the paper's"
                f" scale{_outcomes(judged)}{_single(judged)}."
            )
        else:
            yield f"None of {len(trained)} trained numbers has been compared yet."
        if other:
            yield f"{other} have a value of ours that cannot be compared directly."
    holds, fails, open_ = summary.held
    if summary.claims:
        yield f"Of {len(summary.claims)} claims {holds} hold, {fails} do not, {open_} are open."
    yield from _cost(summary)


def _cost(summary: Summary) -> Iterator[str]:
    """What the rest would take."""
    if missing := summary.open.get("missing"):
        hours = summary.open["seconds"] / 3600
        yield f"Still to run: {_count(missing, 'cell')}, about {span(hours)} of one processor core."


def span(hours: float) -> str:
    """A time in the unit that a reader can picture."""
    for size, name in ((8760, "year"), (24, "day"), (1, "hour")):
        if hours >= 1.5 * size:
            return _count(round(hours / size), name)
    return _count(max(1, round(hours * 60)), "minute")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
