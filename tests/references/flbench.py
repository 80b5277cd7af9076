"""FL-bench's servers (KarhouTam/FL-bench at 06e658b), ready to train in the place of runs of ours.

Its own servers, trainers and clients run whole experiments, one worker serving all clients: they
draw the participants, pack, train, aggregate and score. Handed over are our network and its initial
values, the clients' data, the order of mini-batches (with those of one sample, which its clients
skip by themselves), and what a method draws besides. Stand-ins: omegaconf, hydra, ray, rich,
pynvml, torchvision, the data sets; for pFedFDA the search for beta (ours, on FL-bench's loss) and
the nearest positive matrix (the same one, since its eigenvalues are at least one).
"""

from __future__ import annotations

import importlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.batches import Schedule, plan_batches
from repfl.algorithms.math import box_bfgs
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.loaders import entire
from tests.references.stand_ins import flbench, partition, served

if TYPE_CHECKING:
    from tests.references.conftest import Get

SEED, SIZES = 3, (25, 7, 17, 40, 9, 16)
"""Clients for methods that FL-bench cannot run where somebody has no data."""
Bench = Callable[..., Any]


class Loader:
    """The training data of whichever client the worker serves: mini-batches in our order, or at
    tests everything at once.

    After `again` epochs the order starts anew, where a method's second branch has the batches of
    its first.
    """

    def __init__(self, fed: Federation, server: Any) -> None:
        self.fed, self.server, self.worker = fed, server, server.trainer.worker
        self.epochs: Counter[tuple[int, int, str]] = Counter()
        self.tunes = server.args.common.test.client.finetune_epoch > 0
        self.again = 10**6

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        data, client, round_ = self.fed.data, self.worker.client_id, self.server.current_epoch + 1
        if self.worker.testing and not self.tunes:
            return iter(entire(self.fed, client))
        everybody = self.server.selected_clients is self.server.train_clients
        stream = "projection" if everybody else "batches"
        stream = "finetune" if self.worker.testing else stream
        epoch = self.epochs[round_, client, stream] % self.again
        self.epochs[round_, client, stream] += 1
        order = Schedule(stream, round_, 1, epoch, self.fed.protocol.batch, False)
        index = plan_batches(data, self.fed.streams, client, order).index
        return iter([(data.inputs(i), data.labels[i]) for i in index])


@pytest.fixture
def bench(reference: Get, borrowed: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """FL-bench's server of a method, ready to train, in the place of a run of ours."""
    root = reference("KarhouTam/FL-bench", "06e658b", "src")
    # before what they import has a stand-in
    for part in ("base", "decomposition", "metrics", "model_selection"):
        importlib.import_module(f"sklearn.{part}")
    kinds: dict[str, Any] = {}
    held: dict[str, dict[str, Any]] = {
        "data.utils.datasets": {"DATASETS": kinds},
        "torchmin": {"minimize": searched},
        "statsmodels.stats.correlation_tools": {"cov_nearest": lambda matrix, method: matrix},
    }
    borrowed(root, flbench(held))
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # FL-bench sets these
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)

    def opened(
        name: str, kind: str, run: Run, test: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        fed, p = run.fed, run.fed.protocol
        parts = ("constants", "models")
        constants, models = (importlib.import_module(f"src.utils.{part}") for part in parts)
        constants.NUM_CLASSES["toy"] = fed.classes
        models.MODELS["toy"] = lambda **_: network(models.DecoupledModel(), fed)
        images = TensorDataset(fed.data.inputs(torch.arange(len(fed.data.labels))), fed.data.labels)
        images.__dict__ |= {"targets": fed.data.labels, "train": lambda: None, "eval": lambda: None}
        kinds["toy"] = lambda **_: images
        own = zip(fed.data.train, fed.data.test, strict=True)
        partition(
            root / "data/toy",
            [{"train": train.tolist(), "val": [], "test": test.tolist()} for train, test in own],
        )
        common = {"seed": SEED, "join_ratio": run.recipe.participation, "global_epoch": run.round}
        common |= {"local_epoch": p.epochs, "batch_size": p.batch, "test": {"client": test or {}}}
        sgd = {"lr": p.lr, "momentum": p.momentum, "weight_decay": p.weight_decay}
        server = served("toy", "toy", name, kind, common=common, optimizer=sgd, options=options)
        server.trainer.worker.trainloader = Loader(fed, server)
        return server

    return opened


def searched(loss: Callable[[Tensor], Tensor], x0: Tensor, **_: Any) -> SimpleNamespace:
    """Our search for the least loss in the place of torchmin's; it stays in the box, so clipping,
    which hides slopes there, is left out.
    """
    with pytest.MonkeyPatch.context() as within:
        within.setattr(torch.Tensor, "clip", lambda x, *_: x)
        return SimpleNamespace(
            x=box_bfgs.minimise(lambda points: loss(points[0])[None], x0[None])[0][0]
        )


def network(net: Any, fed: Federation) -> Any:
    """`tiny` in FL-bench's two parts."""
    tiny: Any = nets.load(fed, nets.Tiny(fed), fed.new_model())
    parts = {"conv1": tiny.conv1, "relu1": nn.ReLU(), "pool": nn.MaxPool2d(2)}
    parts |= {"flatten": nn.Flatten(), "fc1": tiny.fc1, "relu2": nn.ReLU()}
    net.base, net.classifier = nn.Sequential(OrderedDict(parts)), tiny.fc2
    return net


def theirs(name: str) -> str:
    """FL-bench's name of one of our tensors."""
    return name.replace("fc2", "classifier") if name.startswith("fc2") else f"base.{name}"


def ours(method: str | Method, hp: dict[str, Any], **protocol: Any) -> Run:
    """A run of ours by FL-bench's protocol: six rounds of half of the clients, with momentum and
    weight decay.
    """
    usual: dict[str, Any] = {"sampling": "flbench", "participation": 0.5, "rounds": 6, "epochs": 2}
    usual |= {"momentum": 0.5, "weight_decay": 0.01}
    how = {"skip_single": True, "seed": SEED, "dtype": torch.float64, "evaluation": {"every": 0}}
    return toys.run(method, hp, **(usual | how | protocol))


def start(run: Run) -> State:
    """The state before the first round."""
    now, run.fed.round = run.fed.round, 0
    state, run.fed.round = run.method.init(run.fed), now
    return state


def scored(server: Any, fed: Federation, clients: int | None = None, of: str = "model") -> Tensor:
    """The models that FL-bench scores the first clients with  [clients or N, D]."""
    worker, rows = server.trainer.worker, []
    worker.testing = True
    for client in range(fed.N if clients is None else clients):
        worker.set_parameters(server.package(client))
        rows.append(nets.join(fed, getattr(worker, of).state_dict(), theirs))
    worker.testing = False
    return torch.stack(rows)


def watched(server: Any, fed: Federation, of: str = "model") -> list[Tensor]:
    """Every model that FL-bench will have scored, in the order of its scoring."""
    worker, seen = server.trainer.worker, []
    evaluate = worker.evaluate

    def look() -> Any:
        if worker.testing:
            seen.append(nets.join(fed, getattr(worker, of).state_dict(), theirs))
        return evaluate()

    worker.evaluate = look
    return seen


def average(server: Any, run: Run) -> Tensor:
    """FL-bench's global model  [D]."""
    return nets.join(run.fed, server.public_model_params, theirs)


def alike(server: Any, run: Run) -> bool:
    """Whether the averages are the same, and every client gets as many test images right."""
    with run.fed.as_active(range(run.fed.N)):
        hits = run.fed.count_correct(run.scored_models(), "test")[0].tolist()
    test, counts = server.trainer.worker.test, []
    for client in range(run.fed.N):
        found = test(server.package(client))["before"]["test"]
        pairs = zip(found._predicts, found._targets, strict=True)
        counts.append(sum(int(guess == label) for guess, label in pairs))
    return plain.apart(average(server, run), run.state["theta"]) < 1e-9 and counts == hits
