"""The contract sees the mistakes that newcomers make, and passes who makes none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from repfl.algorithms.core.method import MethodError
from repfl.bench.check import contract, toy_clients
from repfl.bench.check.contract import Broken
from repfl.bench.check.situation import Situation, situations
from repfl.bench.errors import UserError
from repfl.bench.grid import plugins
from repfl.datasets.core.recipe import Partition, Recipe, Training

HEAD = """
import itertools

import torch
from repfl.algorithms.core.method import Method, register
from repfl.algorithms.fedavg import FedAvg
from repfl.algorithms.math.class_stats import class_statistics

NEXT = itertools.count().__next__

def slip(name, family="partial"):
    return register(name, title=name, paper="none", year=2026, family=family, sends="as FedAvg")

def seen(fed, models, split="test"):
    return 0.001 * fed.count_correct(models, split)[0].to(models.dtype)[:, None]

class More(FedAvg):
    "Adds something to what FedAvg ends with."

    def round(self, state, fed):
        after = super().round(state, fed)
        return after | {"theta": after["theta"] + self.more(after["theta"], fed)}

class Plain(Method):
    "FedAvg without a name for anything."

    def init(self, fed):
        return {"theta": fed.new_model()}

    def round(self, state, fed):
        end = fed.train(self.down(state, fed))
        return {"theta": fed.mean(self.up(end, fed))}

    def down(self, state, fed):
        return fed.down(state["theta"])

    def up(self, end, fed):
        return fed.up(end)

    def client_params(self, state, fed):
        return state["theta"].expand(fed.K, -1)

"""
EACH_SLIP = """
@slip("test-forgetful")
class Forgetful(Plain):
    def round(self, state, fed):
        super().round(state, fed)
        return state

@slip("test-half-upload")
class HalfUpload(Plain):
    def up(self, end, fed):
        fed.up(end, fed.communicated & fed.params.body)
        return end

@slip("test-control")
class Control(FedAvg):
    def init(self, fed):
        return super().init(fed) | {"control": torch.zeros_like(fed.new_model())}

    def round(self, state, fed):
        start = self.download(state, fed)
        end = fed.train(start + state["control"])
        new = self.upload_and_average(state, fed, end)
        return new | {"control": 0.1 * (new["theta"] - state["theta"])}

@slip("test-client-control")
class ClientControl(FedAvg):
    def init(self, fed):
        return super().init(fed) | {"control": torch.zeros(fed.N, fed.D, dtype=fed.dtype)}

    def round(self, state, fed):
        before = state["control"][fed.active].mean(0)
        new = super().round(state, fed)
        own = fed.scatter_rows(state["control"], fed.trained)
        return new | {"theta": new["theta"] + 0.1 * before, "control": own}

@slip("test-one-scalar")
class OneScalar(FedAvg):
    def init(self, fed):
        return super().init(fed) | {"prototypes": torch.zeros(fed.classes, dtype=fed.dtype)}

    def round(self, state, fed):
        new = super().round(state, fed)
        sums = fed.trained[:, : fed.classes]
        fed.send("up", sums[:, :1])
        return new | {"prototypes": sums.mean(0)}

class Rows(Method):
    def init(self, fed):
        return {"w": fed.new_models().clone()}

    def round(self, state, fed):
        return {"w": fed.scatter_rows(state["w"], fed.train(self.start(state, fed)))}

    def start(self, state, fed):
        return state["w"][fed.active]

    def client_params(self, state, fed):
        return state["w"][fed.active]

@slip("test-honest-rows")
class HonestRows(Rows):
    pass

@slip("test-few-rows")
class FewRows(Rows):
    def round(self, state, fed):
        return {"w": fed.train(self.start(state, fed))}

@slip("test-first-rows")
class FirstRows(Rows):
    def start(self, state, fed):
        return state["w"][: fed.K]

@slip("test-peeks-when-scored")
class Scores(FedAvg):
    def round(self, state, fed):
        after = super().round(state, fed)
        fed.score("pre_agg", fed.trained + seen(fed, fed.trained))
        return after

@slip("test-learns-from-validation")
class Greedy(More):
    def more(self, theta, fed):
        return seen(fed, theta.expand(fed.K, -1), "val")[0]

@slip("test-zero-statistics")
class Zeros(Plain):
    "Forgets that statistics are not sent."

@slip("test-calls-all")
class CallsAll(FedAvg):
    def round(self, state, fed):
        with fed.as_active(range(fed.N)):
            return super().round(state, fed)

@slip("test-unscored")
class Unscored(FedAvg):
    def round(self, state, fed):
        after = super().round(state, fed)
        fed.trained = None
        return after

@slip("test-remembers")
class Remembers(More):
    rounds = 0

    def more(self, theta, fed):
        self.rounds += 1
        return 1e-3 * self.rounds

@slip("test-asks")
class Asks(More):
    def more(self, theta, fed):
        return theta if theta.sum().item() > 1e9 else 0

@slip("test-mixes")
class Mixes(More):
    def more(self, theta, fed):
        return torch.zeros(fed.D)

@slip("test-draws")
class Draws(More):
    def more(self, theta, fed):
        return 1e-3 * torch.randn(fed.D, generator=torch.Generator().manual_seed(NEXT()))

@slip("test-seeds")
class Seeds(More):
    def more(self, theta, fed):
        return 1e-3 * torch.randn(fed.D, generator=torch.manual_seed(0))

@slip("test-stacks")
class Stacks(More):
    def more(self, theta, fed):
        return 1e-3 * fed.stack

@slip("test-draws-by-place")
class DrawsByPlace(Plain):
    def up(self, end, fed):
        noise = torch.from_numpy(fed.rng("noise").random((fed.K, 1)))
        return fed.up(end + 1e-3 * noise.to(end))

@slip("test-attention")
class Attention(Plain):
    def init(self, fed):
        return super().init(fed) | {"w": fed.client_rows(fed.new_model()[None])}

    def round(self, state, fed):
        shared = fed.params.select(lambda s: s.name.startswith("attention"))
        end = fed.train(state["w"][fed.active])
        fed.up(end, shared & ~shared)
        theta = torch.where(shared, fed.mean(end), state["theta"])
        end = torch.where(shared, theta, end)
        return {"theta": theta, "w": fed.scatter_rows(state["w"], end)}

    def client_params(self, state, fed):
        return state["w"][fed.active]

@slip("test-backwards")
class Backwards(Plain):
    def round(self, state, fed):
        received, end = self.down(state, fed), {}
        twice = fed.active_ids[:2]
        for client in [*twice, *reversed(fed.active_ids)]:
            with fed.as_active([client]):
                row = torch.zeros(1, fed.D) if client in twice and client not in end else None
                start = state["theta"][None] if row is None else row
                end[client] = fed.train(start.to(received))[0]
        return {"theta": fed.mean(self.up(torch.stack([end[c] for c in fed.active_ids]), fed))}

@slip("test-bills")
class Bills(More):
    def more(self, theta, fed):
        fed.network.ledger.bill("up", fed.active, 1)
        return 0

@slip("test-welcomes")
class Welcomes(FedAvg):
    def newcomer_params(self, state, fed):
        state["theta"] += 1
        return state["theta"].expand(fed.N, -1)

@slip("test-compares")
class Compares(Plain):
    def client_params(self, state, fed):
        return state["theta"].expand(fed.K, -1) * fed.K

@slip("test-explodes")
class Explodes(More):
    def more(self, theta, fed):
        return theta / 0

@slip("test-full-mask", "mask")
class FullMask(FedAvg):
    "Masks nothing."

@slip("test-idle")
class Idle(Plain):
    def round(self, state, fed):
        return {"theta": fed.mean(self.up(self.down(state, fed), fed))}
"""
SLIPS = HEAD + EACH_SLIP

FOUND = [
    ("test-forgetful", "learning", 1.0, "no round changes any client's model"),
    ("test-half-upload", "unsent", 1.0, "learns from a client what no message carries"),
    ("test-control", "unreceived", 1.0, "a part of the server's state that no message carries"),
    ("test-client-control", "unsent", 1.0, "'theta' learns from a client what no message carries"),
    ("test-one-scalar", "unsent", 1.0, "'prototypes' learns from a client"),
    ("test-first-rows", "absent", 0.5, "index the rows of a state with"),
    ("test-peeks-when-scored", "blind", 0.5, "scored models depend on test images"),
    ("test-learns-from-validation", "blind", 1.0, "training depends on validation images; if"),
    ("test-zero-statistics", "statistics", 0.5, "a message that does not carry them"),
    ("test-calls-all", "absent", 0.5, "learn from one that was not sampled"),
    ("test-unscored", "finite", 0.5, "nothing is scored after local training"),
    ("test-remembers", "resumable", 1.0, "the same cell, resumed, gives another theta"),
    ("test-draws", "repeatable", 1.0, "draw from fed.rng"),
    ("test-seeds", "repeatable", 1.0, "changes PyTorch's random state from"),
    ("test-stacks", "stacked", 1.0, "stacked clients differ from single ones"),
    ("test-draws-by-place", "ordered", 1.0, "a cohort in descending order gives states"),
    ("test-bills", "billed", 1.0, "bytes are billed"),
    ("test-welcomes", "newcomers", 1.0, "giving unseen clients a model changes the state"),
    ("test-compares", "pure_scoring", 1.0, "depends on who else is scored"),
    ("test-asks", "device", 1.0, "a GPU would have to wait"),
    ("test-mixes", "device", 1.0, "tensors of two devices meet"),
]


@pytest.fixture
def slips(tmp_path: Path) -> Path:
    path = tmp_path / "slips.py"
    path.write_text(SLIPS)
    plugins.load([str(path)])
    return path


@pytest.mark.parametrize(("name", "promise", "participation", "said"), FOUND)
def test_a_slip_is_seen(
    slips: Path, name: str, promise: str, participation: float, said: str
) -> None:
    keeps = getattr(contract, promise)
    own_state = ("test-one-scalar", "test-control", "test-client-control")
    model = "tiny" if name in own_state else "tiny-bn"
    with pytest.raises(Broken, match=said):
        keeps(Situation(name, model, participation))


def test_where_the_toy_model_lacks_what_a_method_works_on_that_is_said(slips: Path) -> None:
    tiny = Situation("test-attention", "tiny", 1.0)
    contract.unsent(tiny)
    assert contract.vacuous(tiny) == "nothing is sent"
    assert contract.vacuous(Situation("fedavg", "tiny", 1.0)) == ""
    every = [case.model for case in situations("test-attention", "every-kind")]
    assert every == ["every-kind"] * 2
    with pytest.raises(Broken, match="'w' learns from a client what no message carries"):
        contract.unsent(Situation("test-attention", "every-kind", 1.0))


def test_one_who_makes_no_slip_keeps_all(slips: Path) -> None:
    assert [wrong for _, _, wrong in contract.check("test-honest-rows") if wrong] == []


def test_one_cause_is_told_once(slips: Path) -> None:
    """Of a method that does not repeat itself nothing else is said, nor of one that diverges."""
    assert [promise for promise, *_ in contract.check("test-draws")] == ["repeatable"] * 2
    (said,) = {wrong for *_, wrong in contract.check("test-explodes", [contract.finite])}
    assert said.startswith("diverged on toys")


def test_rows_stay_with_their_clients_however_a_method_trains_them(slips: Path) -> None:
    """The scores after training are those of FedAvg, whose clients train in order."""
    backwards = Situation("test-backwards", "tiny", 0.5).run()
    plain = Situation("fedavg", "tiny", 0.5).run()
    points = {point for _, point, *_ in plain.counts}
    assert "pre_agg" in points
    assert sorted(backwards.counts) == sorted(plain.counts)


def test_a_method_that_lacks_a_part_is_refused_when_it_registers(tmp_path: Path) -> None:
    misspelt = HEAD.replace("client_params", "params")
    (tmp_path / "half.py").write_text(misspelt + '\n\nslip("test-half")(Plain)\n')
    with pytest.raises(UserError, match="'test-half': Plain lacks client_params"):
        plugins.load([str(tmp_path / "half.py")])


def test_a_start_of_another_shape_is_told_where_it_is_given(slips: Path) -> None:
    run = Situation("test-honest-rows", "tiny", 1.0).fresh()
    run.start()
    run.fed.begin(1)
    with pytest.raises(ValueError, match=r"one row of .* for each of the \d+ in `fed.active`"):
        run.fed.train(run.fed.new_model())


@pytest.mark.parametrize(
    ("part", "after", "words"),
    [
        ("down", "lambda self, state, fed: fed.dwn()", "; did you mean down? (half.py:"),
        ("init", "lambda self, fed: fed.new_model()", "init returned a Tensor [2548]; it returns"),
        ("init", "lambda self, fed: {'theta': [0]}", "init returned a list as 'theta'; valid"),
        ("round", "lambda self, state, fed: None", "round returned None; it returns a dict"),
        ("round", "lambda self, state, fed: {}", "round returned nothing as 'theta'"),
        ("client_params", "lambda self, state, fed: state['theta']", "it returns a row of"),
        ("personalize", "lambda self, fed, params: None", "personalize returned None; it"),
    ],
)
def test_what_a_part_must_return_is_said_where_it_returns(
    tmp_path: Path, part: str, after: str, words: str
) -> None:
    half = f'@slip("test-half")\nclass Half(Plain):\n    {part} = {after}\n'
    (tmp_path / "half.py").write_text(f"{HEAD}\n\n{half}")
    plugins.load([str(tmp_path / "half.py")])
    (first, *_) = [wrong for _, _, wrong in contract.check("test-half")]
    assert words in first


@pytest.mark.parametrize(
    ("value", "words"),
    [("None", "Half.round.* returned None; it returns a"), ("batch.x.sum()", r"a Tensor \[\]; it")],
)
def test_a_loss_without_a_gradient_is_named(tmp_path: Path, value: str, words: str) -> None:
    (tmp_path / "half.py").write_text(
        f'{HEAD}\n\n@slip("test-half")\nclass Half(Plain):\n    def round(self, state, fed):\n'
        f"        fed.train(self.down(state, fed), loss=lambda model, batch, extras: {value})\n"
    )
    plugins.load([str(tmp_path / "half.py")])
    for stack in (1, 6):
        with pytest.raises(TypeError, match=words):
            Situation("test-half", "tiny", 1.0).run(stack=stack)


def test_rows_of_the_active_clients_alone_are_no_state(slips: Path) -> None:
    with pytest.raises(MethodError, match="returned 3 rows of 'w', which had 6: write"):
        Situation("test-few-rows", "tiny", 0.5).run()


def test_the_contract_takes_a_recipes_model_data_and_training(slips: Path) -> None:
    recipe = Recipe(
        dataset="har",
        model="conv1d",
        clients=20,
        partition=Partition(rule="persons"),
        training=Training(rounds=40, batch=32, lr=0.01, momentum=0.5, steps=50),
    )
    cases = list(situations("fedavg", recipe=("mine/har", recipe)))
    shown = [(case.where, case.participation) for case in cases]
    assert shown == [("mine/har", 1.0), ("mine/har", 0.5)]
    run = cases[0].fresh()
    assert (run.fed.data.kind, run.fed.data.images.shape[1:]) == ("signals", (1, 128, 9))
    assert (run.fed.protocol.steps, run.fed.protocol.momentum) == (5, 0.5)
    assert run.fed.model.name == "conv1d"
    found = contract.check("fedavg", [contract.stacked], None, ("mine/har", recipe))
    assert [wrong for *_, wrong in found] == ["", ""]
    leak = next(situations("test-attention", recipe=("mine/har", recipe)))
    assert contract.vacuous(leak) == "nothing is sent"


def test_a_method_that_masks_nothing_is_told(slips: Path) -> None:
    assert contract.vacuous(Situation("fedpurin", "tiny", 1.0)) == ""
    assert contract.vacuous(Situation("test-full-mask", "tiny", 1.0)) == "nothing is masked"
    assert contract.vacuous(Situation("test-idle", "tiny", 1.0)) == "nothing is trained"


def test_toy_labels_are_those_of_a_recipe_s_classes() -> None:
    recipe = replace(toy_clients.toy_recipe(), dataset="digits", classes=3)
    labels = toy_clients.like(toy_clients.toy_data(), recipe).labels
    assert set(labels.tolist()) == {0, 1, 2}
