"""The contract notices a promise that is broken, however Python was started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repfl.bench.trust.contract import (
    Broken,
    Situation,
    absent,
    billed,
    blind,
    own_statistics,
    scored,
    set_apart,
    withheld,
)
from tests.bench.conftest import PEEKING, ROOT, environment

PLUGIN = """
from repfl.algorithms.core.method import Method, register


def sly(name):
    told = {"paper": "none", "year": 2026, "family": "test", "sends": "nothing, it says"}
    return register(name, title=name, **told)


class Silent(Method):
    "Averages models, and bills some of the bytes or none."

    down = up = False

    def init(self, fed):
        return {"theta": fed.new_model()}

    def round(self, state, fed):
        start = state["theta"].expand(fed.K, -1)
        end = fed.train(fed.down(start) if self.down else start).theta
        return {"theta": fed.mean(fed.up(end) if self.up else end)}

    def personal(self, state, fed):
        return state["theta"].expand(fed.K, -1)


@sly("test-silent")
class Nothing(Silent):
    pass


@sly("test-only-down")
class OnlyDown(Silent):
    down = True


@sly("test-only-up")
class OnlyUp(Silent):
    up = True


@sly("test-honest")
class Honest(Silent):
    down = up = True


class Half(Silent):
    "Sends bodies, and averages them."

    def init(self, fed):
        return {"theta": fed.new_model().expand(fed.N, -1).clone()}

    def round(self, state, fed):
        body = fed.exchanged & ~fed.layout.head
        end = fed.train(state["theta"][fed.active]).theta
        heard = self.heard(fed.up(end, body), end, body)
        theta = state["theta"].clone()
        theta[fed.active] = fed.down(fed.mean(heard), body) + end * ~body
        return {"theta": theta}

    def heard(self, said, end, body):
        return said

    def personal(self, state, fed):
        return state["theta"][fed.active]


@sly("test-half")
class HalfHonest(Half):
    pass


@sly("test-half-sly")
class HalfSly(Half):
    "Adds to the body's first entry what the head has there."

    def heard(self, said, end, body):
        said[:, 0] += end[:, ~body].sum(1)
        return said


runs = []


@sly("test-restless")
class Restless(Silent):
    def init(self, fed):
        runs.append(fed)
        return {"theta": fed.new_model() * len(runs)}
"""


@pytest.fixture
def sly(tmp_path: Path, plugged: Callable[[Path], None]) -> Path:
    path = tmp_path / "sly.py"
    path.write_text(PLUGIN)
    plugged(path)
    return path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test-silent", "clients learn from one that sends nothing"),
        ("test-only-down", "clients learn from one that sends nothing"),
        ("test-only-up", "a client that receives nothing learns from another one"),
    ],
)
def test_what_is_learnt_from_others_is_billed(sly: Path, name: str, said: str) -> None:
    with pytest.raises(Broken, match=said):
        billed(Situation(name, "tiny", 1.0))


@pytest.mark.parametrize("name", ["test-honest", "local"])
def test_who_bills_everything_or_learns_alone_keeps_the_promise(sly: Path, name: str) -> None:
    billed(Situation(name, "tiny", 1.0))


def test_what_is_averaged_was_sent(sly: Path) -> None:
    withheld(Situation("test-half", "tiny", 1.0))
    with pytest.raises(Broken, match="entries of another one's model that no message carries"):
        withheld(Situation("test-half-sly", "tiny", 1.0))


def test_a_promise_is_more_than_an_assertion(sly: Path) -> None:
    """`python -O` leaves assertions out."""
    code = f"""
from repfl.bench.cells import plugins
from repfl.bench.trust import contract
plugins.load(["{sly}"])
for promise, name in ((contract.deterministic, "test-restless"), (contract.billed, "test-silent")):
    try:
        promise(contract.Situation(name, "tiny", 1.0))
    except Exception as error:
        print(error)
"""
    command = [sys.executable, "-O", "-c", code]
    done = subprocess.run(
        command, env=environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "two runs differ",
        "clients learn from one that sends nothing",
    ], done


def test_a_method_that_looks_at_test_images_is_seen(
    tmp_path: Path, plugged: Callable[[Path], None]
) -> None:
    path = tmp_path / "peeking.py"
    path.write_text(PEEKING)
    plugged(path)
    with pytest.raises(Broken, match="training depends on test images"):
        blind(Situation("test-peeking", "tiny", 1.0))
    blind(Situation("fedavg", "tiny", 1.0))


SLIPS = """
from repfl.algorithms.core.method import register
from repfl.algorithms.fedavg import FedAvg


def slip(name):
    return register(name, title=name, paper="none", year=2026, family="test", sends="as FedAvg")


def seen(fed, models, split="test"):
    return models + 0.001 * fed.correct(models, split)[0].to(models.dtype)[:, None]


@slip("test-peeks-for-newcomers")
class Joins(FedAvg):
    "Looks at the test images of clients that join."

    def join(self, state, fed):
        return seen(fed, super().join(state, fed))


@slip("test-peeks-when-scored")
class Scores(FedAvg):
    "Looks at test images where it scores itself."

    def round(self, state, fed):
        after = super().round(state, fed)
        fed.score("pre_agg", seen(fed, fed.trained))
        return after


@slip("test-learns-from-validation")
class Greedy(FedAvg):
    "Looks at validation images where it trains."

    def round(self, state, fed):
        after = super().round(state, fed)
        return after | {"theta": seen(fed, after["theta"].expand(fed.K, -1), "val")[0]}


@slip("test-zero-statistics")
class Zeros(FedAvg):
    "Forgets that statistics are not sent."

    def init(self, fed):
        return {"theta": fed.new_model()}

    def round(self, state, fed):
        return {"theta": fed.mean(fed.up(fed.train(fed.down(state["theta"])).theta))}

    def personal(self, state, fed):
        return state["theta"].expand(fed.K, -1)


@slip("test-calls-everybody")
class Everybody(FedAvg):
    "Trains everybody, whoever is called."

    def round(self, state, fed):
        with fed.among(fed.everybody):
            return super().round(state, fed)


@slip("test-unscored")
class Unscored(FedAvg):
    "A loop of its own, after which nothing is scored."

    def round(self, state, fed):
        after = super().round(state, fed)
        fed.trained = None
        return after
"""


@pytest.mark.parametrize(
    ("name", "promise", "said"),
    [
        ("test-peeks-for-newcomers", blind, "the models of newcomers depend on test images"),
        ("test-peeks-when-scored", blind, "the models that are scored depend on test images"),
        ("test-learns-from-validation", set_apart, "training depends on validation images; if"),
        ("test-zero-statistics", own_statistics, "a message that does not carry them"),
        ("test-calls-everybody", absent, "learn from one that was not called"),
        ("test-unscored", scored, "nothing is scored after local training"),
    ],
)
def test_a_slip_is_seen(
    tmp_path: Path,
    plugged: Callable[[Path], None],
    name: str,
    promise: Callable[[Situation], None],
    said: str,
) -> None:
    path = tmp_path / "slips.py"
    path.write_text(SLIPS)
    plugged(path)
    with pytest.raises(Broken, match=said):
        promise(Situation(name, "tiny-bn", 1.0 if promise is set_apart else 0.5))
    promise(Situation("fedavg", "tiny-bn", 0.5))
