"""Eight methods by FL-bench's rules, and its draw of participants, against FL-bench itself (KarhouTam/FL-bench at 06e658b).

The logs of FedOBP's authors are of it. Its own servers, trainers and clients run whole experiments here, one worker serving all clients:
they draw the participants, pack, train, aggregate and score. Handed over are our network and its initial values, the clients' data, the
order of mini-batches (with those of one sample, which its clients skip by themselves), and what a method draws besides. Stand-ins:
omegaconf, hydra, ray, rich, pynvml, torchvision, the data sets; for pFedFDA the search for beta (ours, on FL-bench's loss) and the nearest
positive matrix (the same one, since its eigenvalues are at least one). Not compared: BN and FLOCO+.
"""

from __future__ import annotations

import importlib
import json
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from algorithms.core import box
from algorithms.core.batches import Schedule, plan_batches
from algorithms.core.federation import Federation
from algorithms.core.gaussian import folds
from algorithms.core.method import State
from algorithms.core.run import Run
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.conftest import Get

SEED, SIZES = 3, (25, 7, 17, 40, 9, 16)
"""Clients for methods that FL-bench cannot run where somebody has no data."""
STAND_INS = (
    *(
        "omegaconf",
        "hydra",
        "hydra.core",
        "hydra.core.hydra_config",
        "ray",
        "ray.actor",
        "pynvml",
        "data",
        "data.utils",
        "data.utils.datasets",
    ),
    *("rich", "rich.console", "rich.pretty", "rich.progress", "statsmodels", "statsmodels.stats", "statsmodels.stats.correlation_tools"),
    *("torchmin", "torchvision", "torchvision.models", "torchvision.transforms"),
)
Bench = Callable[..., Any]
Batches = Iterator[tuple[Tensor, Tensor]]


class Config(dict[str, Any]):
    """omegaconf's DictConfig, as far as it is needed."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__({name: Config(value) if isinstance(value, dict) else value for name, value in values.items()})

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]

    __setattr__, __delattr__ = dict.__setitem__, dict.__delitem__


class Loader:
    """The training data of whichever client the worker serves: mini-batches in our order, or at tests everything at once."""

    def __init__(self, fed: Federation, server: Any) -> None:
        self.fed, self.server, self.worker = fed, server, server.trainer.worker
        self.epochs: Counter[tuple[int, int, str]] = Counter()

    def __iter__(self) -> Batches:
        data, client, round_ = self.fed.data, self.worker.client_id, self.server.current_epoch + 1
        stream = "projection" if self.server.selected_clients is self.server.train_clients else "batches"
        schedule = Schedule(stream, round_, 1, self.epochs[round_, client, stream], self.fed.protocol.batch, False)
        self.epochs[round_, client, stream] += not self.worker.testing
        index = [data.train[client]] if self.worker.testing else plan_batches(data, self.fed.streams, client, schedule).index
        return iter([(data.inputs(i), data.labels[i]) for i in index])


@pytest.fixture
def bench(reference: Get, borrowed: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """FL-bench's server of a method, ready to train, in the place of a run of ours."""
    root = reference("KarhouTam/FL-bench", "06e658b", "src")
    for part in ("base", "decomposition", "metrics", "model_selection"):  # before what they import has a stand-in
        importlib.import_module(f"sklearn.{part}")
    kinds: dict[str, Any] = {}
    held: dict[str, dict[str, Any]] = {
        "omegaconf": {"DictConfig": Config},
        "rich.progress": {"track": lambda rounds, *_, **__: rounds},
        "data.utils.datasets": {"DATASETS": kinds},
        "torchmin": {"minimize": searched},
        "statsmodels.stats.correlation_tools": {"cov_nearest": lambda matrix, method: matrix},
    }
    borrowed(root, {name: {"__getattr__": anything} | held.get(name, {}) for name in STAND_INS})
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # FL-bench sets these
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)

    def opened(name: str, kind: str, run: Run, **options: Any) -> Any:
        fed, p = run.fed, run.fed.protocol
        constants, models, functional = (importlib.import_module(f"src.utils.{part}") for part in ("constants", "models", "functional"))
        constants.NUM_CLASSES["toy"] = fed.classes
        models.MODELS["toy"] = lambda **_: network(models.DecoupledModel(), fed)
        images = TensorDataset(fed.data.inputs(torch.arange(len(fed.data.labels))), fed.data.labels)
        images.__dict__ |= {"targets": fed.data.labels, "train": lambda: None, "eval": lambda: None}
        kinds["toy"] = lambda **_: images
        own = zip(fed.data.train, fed.data.test, strict=True)
        indices = [{"train": train.tolist(), "val": [], "test": test.tolist()} for train, test in own]
        everybody = list(range(fed.N))
        separation = {"train": everybody, "test": everybody, "val": everybody, "total": fed.N}
        (root / "data/toy").mkdir(parents=True, exist_ok=True)
        (root / "data/toy/args.json").write_text(json.dumps({"split": "sample"}))
        (root / "data/toy/partition.pkl").write_bytes(pickle.dumps({"separation": separation, "data_indices": indices}))
        common = {"seed": SEED, "join_ratio": run.recipe.participation, "global_epoch": run.round, "local_epoch": p.epochs}
        common |= {"batch_size": p.batch, "client_side_evaluation": False, "save_log": False, "use_cuda": False}
        optimizer = {"lr": p.lr, "momentum": p.momentum, "weight_decay": p.weight_decay}
        settings = {"dataset": {"name": "toy"}, "model": {"name": "toy"}, "optimizer": optimizer, "common": common, name: options}
        cls = getattr(importlib.import_module(f"src.server.{name}"), kind)
        server = cls(functional.parse_args(Config(settings), name, getattr(cls, "get_hyperparams", None)))
        server.trainer.worker.trainloader = Loader(fed, server)
        return server

    return opened


def anything(name: str) -> Any:
    """Whatever is imported from a stand-in."""
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock()


def searched(loss: Callable[[Tensor], Tensor], x0: Tensor, **_: Any) -> SimpleNamespace:
    """Our search for the least loss in the place of torchmin's; it stays in the box, so clipping, which hides slopes there, is left out."""
    with pytest.MonkeyPatch.context() as within:
        within.setattr(torch.Tensor, "clip", lambda x, *_: x)
        return SimpleNamespace(x=box.minimise(lambda points: loss(points[0])[None], x0[None])[0][0])


def network(net: Any, fed: Federation) -> Any:
    """`tiny` in FL-bench's two parts."""
    tiny: Any = nets.load(fed, nets.Tiny(fed), fed.new_model())
    parts = {"conv1": tiny.conv1, "relu1": nn.ReLU(), "pool": nn.MaxPool2d(2), "flatten": nn.Flatten(), "fc1": tiny.fc1, "relu2": nn.ReLU()}
    net.base, net.classifier = nn.Sequential(OrderedDict(parts)), tiny.fc2
    return net


def theirs(name: str) -> str:
    """FL-bench's name of one of our tensors."""
    return name.replace("fc2", "classifier") if name.startswith("fc2") else f"base.{name}"


def ours(method: str, hp: dict[str, Any], **protocol: Any) -> Run:
    """A run of ours by FL-bench's protocol: six rounds of half of the clients, with momentum and weight decay."""
    usual: dict[str, Any] = {"sampling": "flbench", "participation": 0.5, "rounds": 6, "epochs": 2, "momentum": 0.5, "weight_decay": 0.01}
    how = {"skip_single": True, "seed": SEED, "dtype": torch.float64, "evaluation": {"every": 0}}
    return toys.run(method, hp, **(usual | how | protocol))


def start(run: Run) -> State:
    """The state before the first round."""
    now, run.fed.round = run.fed.round, 0
    state, run.fed.round = run.method.init(run.fed), now
    return state


def scored(server: Any, fed: Federation, clients: int | None = None) -> Tensor:
    """The models that FL-bench scores the first clients with  [clients or N, D]."""
    worker, rows = server.trainer.worker, []
    worker.testing = True
    for client in range(fed.N if clients is None else clients):
        worker.set_parameters(server.package(client))
        rows.append(nets.join(fed, worker.model.state_dict(), theirs))
    worker.testing = False
    return torch.stack(rows)


def alike(server: Any, run: Run) -> bool:
    """Whether the averages are the same, and every client gets as many test images right."""
    with run.fed.among(run.fed.everybody):
        hits = run.fed.correct(run.method.personal(run.state, run.fed), "test")[0].tolist()
    results = [server.trainer.worker.test(server.package(client))["before"]["test"] for client in range(run.fed.N)]
    counts = [sum(int(guess == label) for guess, label in zip(r._predicts, r._targets, strict=True)) for r in results]
    average = nets.join(run.fed, server.public_model_params, theirs)
    return plain.apart(average, run.state["theta"]) < 1e-9 and counts == hits


def test_participants_are_drawn_as_flbench_draws_them(bench: Bench) -> None:
    run = ours("fedper", {"newcomer": "global"})
    server, drawn = bench("fedper", "FedPerServer", run), []
    for round_ in range(1, run.round + 1):
        run.fed.begin(round_, scoring=False)
        drawn.append(run.fed.called.tolist())
    assert drawn == server.client_sample_stream
    assert drawn != [sorted(clients) for clients in drawn]


def test_apfl_by_flbenchs_rules_is_flbench(bench: Bench) -> None:
    run = ours("apfl", {"mode": "flbench"})
    server = bench("apfl", "APFLServer", run)
    server.train()
    own = torch.stack([nets.join(run.fed, server.client_local_model_params[c], theirs) for c in range(run.fed.N)])
    alphas = torch.stack([server.client_alphas[c] for c in range(run.fed.N)])
    assert alike(server, run)
    assert plain.apart(own, run.state["v"]) < 1e-9
    assert plain.apart(alphas, run.state["alpha"]) < 1e-9
    assert alphas.unique().numel() > 3


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_fedala_with_one_worker_for_all_is_flbench(bench: Bench, monkeypatch: pytest.MonkeyPatch, momentum: float) -> None:
    """Its random subsets are ours; scored models agree for the client whom FL-bench scores first, since scoring moves its worker on.

    It keeps momentum from a client's last round, in this method alone. Ours does not, so where there is momentum, that is forgotten here.
    """
    run: Any = ours("fedala", {"worker": "shared", "subset": "random"}, sizes=SIZES, momentum=momentum)
    server = bench("fedala", "FedALAServer", run)
    worker = server.trainer.worker
    if momentum:
        package = worker.package
        monkeypatch.setattr(worker, "package", lambda: package() | {"optimizer_state": {}})

    def shuffle(held: list[int]) -> None:
        run.fed.round = server.current_epoch + 1
        with run.fed.among(torch.tensor([worker.client_id])):
            first = [held[place] for place in run.method.picks(run.fed)[0]]
        held.sort(key=lambda index: first.index(index) if index in first else len(first))

    monkeypatch.setattr(importlib.import_module("src.client.fedala"), "random", SimpleNamespace(shuffle=shuffle))
    server.train()
    assert plain.apart(nets.join(run.fed, server.public_model_params, theirs), run.state["theta"]) < 1e-9
    assert plain.apart(nets.join(run.fed, worker.model.state_dict(), theirs), run.state["w"][0]) < 1e-9
    assert plain.apart(torch.cat([part.flatten() for part in worker.weights]), run.state["weights"][0]) < 1e-9
    assert int((run.state["weights"] < 1).sum()) > 50
    assert plain.apart(scored(server, run.fed, 1), toys.everybody(run)[:1]) < 1e-9


@pytest.mark.parametrize("detach", [True, False])
def test_flute_by_flbenchs_rules_is_flbench(bench: Bench, detach: bool) -> None:
    """As it is, and without its defect: features that stay attached to the body."""
    hp = {"mode": "flbench", "body_epochs": 1, "detach": detach, "newcomer": "global"}
    run = ours("flute", hp, sizes=toys.RAGGED)
    server = bench("flute", "FLUTEServer", run)
    importlib.import_module("src.utils.models").DecoupledModel.get_last_features.__defaults__ = (detach,)
    server.train()
    assert alike(server, run)
    assert plain.apart(scored(server, run.fed), toys.everybody(run)) < 1e-9


def test_floco_is_flbench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints start and points of the simplex are drawn as ours; projection, places and training are FL-bench's."""
    run = ours("floco", {"endpoints": 3, "tau": 2}, sizes=toys.RAGGED, skip_single=False)
    server, fed = bench("floco", "FlocoServer", run, endpoints=3, tau=2), run.fed
    streams: dict[tuple[str, int, int], np.random.Generator] = {}
    ends = {f"classifier._weights.{v}": end.clone() for v, end in enumerate(start(run)["ends"])}
    server.public_model_params.update(nets.split(fed, fed.new_model(), theirs) | ends)

    def draws(purpose: str = "") -> np.random.Generator:
        first = "projection" if server.selected_clients is server.train_clients else "simplex"
        where = f"method/{first}{purpose}", server.current_epoch + 1, server.trainer.worker.client_id
        return streams.setdefault(where, fed.streams.at(*where))

    def uniform(low: float, high: float, size: int | None = None) -> Any:
        return draws("/radius" if size is None else "").uniform(low, high, size)

    monkeypatch.setattr(np.random, "exponential", lambda scale, size: draws().standard_exponential(size))
    monkeypatch.setattr(np.random, "uniform", uniform)
    server.train()
    new_ends = torch.stack([server.public_model_params[name] for name in ends])
    assert alike(server, run)
    assert plain.apart(torch.from_numpy(server.projected_clients), run.state["places"]) < 1e-9
    assert plain.apart(new_ends, run.state["ends"]) < 1e-9


@pytest.mark.parametrize(
    ("method", "name", "kind", "hp"),
    [
        ("lg-fedavg", "lgfedavg", "LGFedAvgServer", {"shared": "first"}),
        ("fedper", "fedper", "FedPerServer", {}),
        ("fedrep", "fedrep", "FedRepServer", {}),
    ],
)
def test_methods_that_average_a_part_are_flbench(bench: Bench, method: str, name: str, kind: str, hp: dict[str, Any]) -> None:
    """Here somebody never takes part, and has the average of the others' personal layers."""
    run = ours(method, {"newcomer": "global", **hp}, sizes=toys.RAGGED, participation=0.34, rounds=4)
    assert not bool(run.state["seen"].all())
    server = bench(name, kind, run)
    server.train()
    assert alike(server, run)
    assert plain.apart(scored(server, run.fed), toys.everybody(run)) < 1e-9


@pytest.mark.parametrize("beta", ["local", "single", "two"])
def test_pfedfda_by_flbenchs_rules_is_flbench(bench: Bench, monkeypatch: pytest.MonkeyPatch, beta: str) -> None:
    """Training, and the heads that are scored: global means start as ours, folds are dealt as ours, priors are kept in double precision."""
    run = ours("pfedfda", {"compat": "flbench", "beta": beta}, sizes=SIZES)
    fed, means = run.fed, start(run)["means"]
    monkeypatch.setattr(torch, "rand", lambda *_: means.clone())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    server = bench("pfedfda", "pFedFDAServer", run, eps=1e-4, local_beta=beta == "local", single_beta=beta == "single")
    order = torch.from_numpy(fed.streams.at("method/folds", run.round).random(max(SIZES)).argsort())

    def split(features: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        held = fed.data.labels[fed.data.train[server.trainer.worker.client_id]]
        padded = nn.functional.pad(held, (0, max(SIZES) - len(held)), value=-1)
        dealt = folds(padded[None], order, fed.classes)[0, : len(held)]
        dealt = dealt[dealt >= 0]
        assert len(dealt) == len(labels)
        return (((dealt != fold).nonzero()[:, 0], (dealt == fold).nonzero()[:, 0]) for fold in (0, 1))

    monkeypatch.setattr(importlib.import_module("src.client.pfedfda"), "StratifiedKFold", lambda **_: SimpleNamespace(split=split))
    server.train()
    assert alike(server, run)
    assert plain.apart(server.global_means, run.state["means"]) < 1e-9
    assert plain.apart(scored(server, fed), toys.everybody(run)) < 1e-9
