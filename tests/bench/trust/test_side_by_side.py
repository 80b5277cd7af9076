"""Two commits side by side: what is equal, what moved and where first, and the rows that follow."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.cells.plan import plan
from repfl.bench.cells.planned import Selection
from repfl.bench.errors import UserError
from repfl.bench.records import provenance
from repfl.bench.trust import commits, ledger, regress, side_by_side
from repfl.bench.trust.commits import Question
from repfl.bench.trust.side_by_side import Comparison, first_difference
from tests.bench.conftest import Said, copy_code, task

METRICS = {
    "value": 0.5,
    "points": {"post_agg": {"last": {"mean": 0.5}}},
    "traffic": {"up_values": 10},
}


def answer(**changes: Any) -> dict[str, Any]:
    made = {
        "digests": {"state": "s", "curves": "c"},
        "probe": {"theta": 1.0},
        **changes.pop("made", {}),
    }
    return {
        "status": "done",
        "reason": "",
        "cell": {"version": 1},
        "metrics": METRICS,
        "made": made,
        **changes,
    }


@pytest.mark.parametrize(
    ("now", "what"),
    [
        ({}, ""),
        ({"metrics": {**METRICS, "new": 1}}, ""),
        ({"metrics": {**METRICS, "value": 0.6}}, "value 0.5 -> 0.6"),
        ({"metrics": {**METRICS, "traffic": {"up_values": 11}}}, "traffic/up_values 10 -> 11"),
        (
            {"made": {"digests": {"state": "t", "curves": "c"}, "probe": {"theta": 1.5}}},
            "final theta 1 -> 1.5; digests/state s -> t",
        ),
        (
            {"cell": {"version": 2}, "metrics": {**METRICS, "value": 0.6}},
            "version 1 -> 2; value 0.5 -> 0.6",
        ),
        ({"status": "diverged", "reason": "not finite"}, "was done, is diverged: not finite"),
    ],
)
def test_the_first_difference_is_told(now: dict[str, Any], what: str) -> None:
    assert first_difference(answer(), answer(**now)) == what


def test_where_rounds_were_kept_the_first_round_and_group_are_told() -> None:
    then = answer(
        made={"norms": {"theta/conv": [1.0, 2.0, 3.0], "theta/head.linear": [1.0, 2.0, 3.0]}}
    )
    now = {
        "norms": {"theta/conv": [1.0, 2.0, 3.5], "theta/head.linear": [1.0, 2.5, 3.5]},
        "digests": {"state": "t", "curves": "c"},
    }
    assert (
        first_difference(then, answer(made=now))
        == "round 1, theta/head.linear 2 -> 2.5; digests/state s -> t"
    )


def test_what_was_not_answered_for_want_of_data_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything else is asked once."""
    asked = [trial("gate"), trial("smoke"), trial("view")]
    answers = [answer(), {"unknown": "no data"}, {"view": {"norm": [1.0]}, "absent": "no data"}]
    posed = []

    def told(_: str, todo: list[Question], __: int) -> Iterator[str]:
        posed.append({each.kind for each in todo})
        said = {each.key: words for each, words in zip(asked, answers, strict=True)}
        for key in ("sources", *(each.key for each in todo)):
            yield json.dumps({"key": key, **said.get(key, {})}) + "\n"

    monkeypatch.setattr(commits, "_answers", told)
    for _ in range(2):
        assert commits.ask("c" * 40, asked, tmp_path, 1)[asked[2].key]["absent"]
    answers[1:] = [answer(), {"view": {"norm": [1.0], "digest": "d"}}]
    for _ in range(2):
        assert commits.ask("c" * 40, asked, tmp_path, 1)[asked[2].key]["view"]["digest"] == "d"
    assert posed == [{"gate", "smoke", "view"}, {"smoke", "view"}, {"smoke", "view"}]


# -- rows ------------------------------------------------------------------------------------------


def trial(kind: str, method: str = "fedavg", seed: int = 0) -> Question:
    return Question(kind, f"{method} {seed}", task(method, seed).cell)


def found_in(*answers: tuple[Question, dict[str, Any], dict[str, Any]]) -> Comparison:
    found = Comparison("1" * 40, "2" * 40)
    found.sources = {
        name: (ledger.Code("a" * 16, "b" * 16), ledger.Code("c" * 16, "b" * 16))
        for name in ("fedavg", "local")
    }
    for each in answers:
        side_by_side._compare(*each, found)
    return found


def test_a_row_says_how_many_cells_were_equal() -> None:
    pairs = [(trial("gate", seed=seed), answer(), answer()) for seed in range(3)]
    found = found_in(
        *pairs,
        (trial("smoke"), answer(), answer()),
        (trial("view"), {"view": {"digest": "d"}}, {"view": {"digest": "d"}}),
    )
    [row] = side_by_side.steps(found)
    assert (row.method, row.gate, row.smoke, row.views, row.moved, row.platform) == (
        "fedavg",
        3,
        1,
        1,
        "",
        regress.platform(),
    )


def test_one_cell_that_moved_makes_the_row_one_that_carries_nothing() -> None:
    other = answer(metrics={**METRICS, "value": 0.6})
    [row] = side_by_side.steps(
        found_in((trial("gate"), answer(), answer()), (trial("smoke"), answer(), other))
    )
    assert (row.moved, row.but, row.gate) == ("fedavg: value 0.5 -> 0.6", "", 1)


@pytest.mark.parametrize(
    "other", [{"unknown": "no such option"}, answer(status="skipped", reason="no norm layers")]
)
def test_what_one_of_the_two_cannot_compute_is_neither_equal_nor_moved(
    other: dict[str, Any],
) -> None:
    found = found_in((trial("gate"), other, answer()))
    assert (found.equal, found.moves, list(found.unknown)) == ({}, [], ["fedavg"])
    assert side_by_side.steps(found) == []


def test_no_row_is_made_once_clients_hold_other_data() -> None:
    pair = {"view": {"norm": [1.0], "digest": "d"}}, {"view": {"norm": [2.0], "digest": "d"}}
    found = found_in((trial("gate"), answer(), answer()), (trial("view"), *pair))
    with pytest.raises(UserError, match="norm"):
        side_by_side.steps(found)


# -- from commits to rows --------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """A small history of this code; the function edits a file and commits. The trials are of two
    small cells.
    """
    root = tmp_path / "clone"
    copy_code(root, "algorithms", "datasets", "bench", "paper_tables/core")
    monkeypatch.setattr(provenance, "ROOT", root)
    monkeypatch.setattr(ledger, "FILE", root / "bench/trust/engines.csv")
    small = [trial("gate"), trial("smoke", "local"), trial("view")]
    monkeypatch.setattr(commits, "trials", lambda methods=(): small)

    def edit(file: str, then: str, now: str) -> None:
        text = (root / file).read_text()
        assert then in text
        (root / file).write_text(text.replace(then, now, 1))
        git("commit", "-qam", "change")

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=e", *arguments],
            check=True,
        )

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "start")
    return edit


def test_commits_are_compared_by_what_they_compute(
    clone: Any, here: Callable[..., Said], tmp_path: Path
) -> None:
    clone("algorithms/fedavg.py", "fed.train(self", "1.02 * fed.train(self")
    said = here(
        "compare",
        "HEAD~1",
        "HEAD",
        "--keep",
        tmp_path,
        "--workers",
        "1",
        "--record",
        "--markdown",
        tmp_path / "page.md",
    )
    assert said.code == 1, said.out + said.err
    assert "| fedavg | 0 equal | 0 equal | 0 | 1 |" in said.out
    assert "| local | same code | same code | 0 | 0 |" in said.out
    assert "fedavg: 1 moved; gate fedavg 0: " in (tmp_path / "page.md").read_text()
    [row] = [row for row in ledger.read_ledger() if row.new_commit == commits.commit_of("HEAD")]
    assert (row.method, bool(row.moved)) == ("fedavg", True)


def test_commits_that_differ_in_words_alone_have_the_same_code(clone: Any) -> None:
    clone("algorithms/core/run.py", "from __future__", "# a remark\nfrom __future__")
    clone("algorithms/local.py", "from __future__", "PLANTED = 1\nfrom __future__")
    start, words, planted = (commits.commit_of(ref) for ref in ("HEAD~2", "HEAD~1", "HEAD"))
    assert side_by_side._same_code((start, words), ["fedavg", "local"]) == ["fedavg", "local"]
    assert side_by_side._same_code((words, planted), ["fedavg", "local"]) == ["fedavg"]


def test_a_clone_with_changes_records_nothing(clone: Any, here: Callable[..., Said]) -> None:
    (provenance.ROOT / "bench/trust/engines.csv").write_text("rows of an earlier comparison\n")
    side_by_side.refuse_changes()
    (provenance.ROOT / "bench/new.py").write_text("")
    said = here("compare", "HEAD", "HEAD", "--record")
    assert said.code == 2
    assert "changes" in said.err


def test_a_commit_that_does_not_run_is_named_with_what_it_said(
    clone: Any, here: Callable[..., Said], tmp_path: Path
) -> None:
    clone("bench/cells/cell.py", "import json", "raise RuntimeError('broken on purpose')")
    said = here(
        "compare", "HEAD", "HEAD~1", "--method", "fedavg", "--keep", tmp_path, "--workers", "1"
    )
    assert said.code == 3
    assert f"commit {commits.commit_of('HEAD')[:8]}: its code does not run here" in said.err
    assert "broken on purpose" in said.err


def test_an_unknown_commit_is_named(here: Callable[..., Said]) -> None:
    said = here("compare", "no-such-commit", "HEAD")
    assert (said.code, "no-such-commit" in said.err) == (2, True)


def test_commits_are_asked_for_gate_and_smoke_scale_and_every_dataset_of_a_grid() -> None:
    asked = commits.trials(["local"])
    cells = [trial for trial in asked if trial.kind != "view"]
    assert ({trial.kind for trial in cells}, {trial.cell.method for trial in cells}) == (
        {"gate", "smoke"},
        {"local"},
    )
    planned = {item.cell.recipe["dataset"] for item in plan(Selection(scale="paper"))}
    assert planned <= {trial.cell.recipe["dataset"] for trial in asked if trial.kind == "view"}
    assert len({trial.key for trial in asked}) == len(asked)
