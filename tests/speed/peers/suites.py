"""One experiment in one suite, alone in its process: python -m tests.speed.peers.suites SUITE
METHOD SEED THREADS BEGAN SETTING

The working folder holds the suite's code and the clients' data. What was measured is the last line
of the output, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import MagicMock

from tests.speed.peers.setting import CLASSES, Setting

Measured = dict[str, Any]


def repfl(method: str, seed: int, setting: Setting, ready: Callable[[], None]) -> Measured:
    """A cell of ours, round by round, without its record."""
    from repfl.bench.run import cost
    from repfl.bench.run.clients import clients_of, make
    from repfl.bench.run.machine import keep_freed_memory
    from repfl.bench.run.task import Options
    from tests.speed.peers.shares import cell

    keep_freed_memory()  # as every process does that computes cells
    experiment = cell(setting, method, seed)
    options = Options(stack=cost.stack_for(experiment.recipe))
    run = make(experiment, clients_of(experiment), options)
    run.start()
    ready()
    while not run.done:
        run.step()

    def noted(name: str) -> list[float]:
        return [value for _, key, value in run.rows if key == name]

    costs = {"round": noted("time/train"), "score": noted("time/evaluate")}
    return costs | {"accuracy": noted("post_agg/pooled")[-1]}


def pfllib(method: str, seed: int, setting: Setting, ready: Callable[[], None]) -> Measured:
    """PFLlib's own loop; it scores before it trains, so one more round is trained than is
    scored.
    """
    import torch
    from torch import nn

    from tests.references.stand_ins import module, words

    sys.modules["h5py"] = module("h5py", {"File": MagicMock()})
    models = import_module("flcore.trainmodel.models")
    torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
    net: Any = models.FedAvgCNN(in_features=3, num_classes=CLASSES, dim=1600)
    if method != "ditto":
        head, net.fc = deepcopy(net.fc), nn.Identity()
        net = models.BaseHeadSplit(net, head)
    epochs = {"fedrep": (1, setting.epochs - 1)}.get(method, (setting.epochs, setting.epochs))
    said = {"model": net, "dataset": "peers", "num_classes": CLASSES, "eval_gap": 1, "mu": 1.0}
    said |= {"num_clients": setting.clients, "join_ratio": setting.participation}
    said |= {"global_rounds": setting.rounds, "batch_size": setting.batch}
    said |= {"local_epochs": epochs[0], "plocal_epochs": epochs[1]}
    kinds = {"fedavg": ("avg", "FedAvg"), "fedrep": ("rep", "FedRep"), "ditto": ("ditto", "Ditto")}
    file, kind = kinds[method]
    build = getattr(import_module(f"flcore.servers.server{file}"), kind)
    server = build(words(**said, local_learning_rate=setting.lr), 0)
    spent: list[list[float]] = []
    for name in ("evaluate", "evaluate_personalized"):
        if hasattr(server, name):
            setattr(server, name, timed(getattr(server, name), spent))
    select = server.select_clients

    def begin() -> Any:
        spent.append([])
        return select()

    server.select_clients = begin
    ready()
    server.train()
    rounds = [whole - sum(scores) for whole, scores in zip(server.Budget, spent, strict=True)]
    # Ditto scores the global model, too, before the personal ones
    scores = [each[-1] for each in spent]
    return {"round": rounds[:-1], "score": scores[1:], "accuracy": server.rs_test_acc[-1]}


def timed(what: Callable[[], Any], spent: list[list[float]]) -> Callable[[], None]:
    """The same, its seconds noted for the round."""

    def run() -> None:
        begun = perf_counter()
        what()
        spent[-1].append(perf_counter() - begun)

    return run


def flbench(method: str, seed: int, setting: Setting, ready: Callable[[], None]) -> Measured:
    """FL-bench's own rounds and its own scoring of everybody, in its serial mode."""
    import torch

    from tests.references import stand_ins

    for name, contents in stand_ins.flbench({}).items():
        if not name.startswith(("data", "torchvision")):
            sys.modules[name] = stand_ins.module(name, contents)
    constants = import_module("src.utils.constants")
    constants.NUM_CLASSES["peers"], constants.INPUT_CHANNELS["peers"] = CLASSES, 3
    import_module("src.utils.models").FedAvgCNN.feature_length["peers"] = 1600
    datasets = import_module("data.utils.datasets")

    def read(root: Path, args: Any, **how: Any) -> Any:
        return datasets.BaseDataset(*torch.load(root / "images.pt"), list(range(CLASSES)), **how)

    datasets.DATASETS["peers"] = read
    common = {"seed": seed, "join_ratio": setting.participation, "global_epoch": setting.rounds}
    common |= {"local_epoch": setting.epochs, "batch_size": setting.batch, "verbose_gap": 10**9}
    options = {"pers_epoch": setting.epochs} if method == "ditto" else {}
    how = {"common": common, "options": options, "optimizer": {"lr": setting.lr}}
    kind = {"fedavg": "FedAvgServer", "fedrep": "FedRepServer", "ditto": "DittoServer"}[method]
    server = stand_ins.served("peers", "avgcnn", method, kind, **how)
    rounds, scores = [], []
    ready()
    for round_ in range(setting.rounds):
        server.current_epoch, server.selected_clients = round_, server.client_sample_stream[round_]
        begun = perf_counter()
        server.train_one_round()
        trained = perf_counter()
        server.test_client_models()
        rounds.append(trained - begun)
        scores.append(perf_counter() - trained)
    accuracy = server.test_results[setting.rounds]["all_clients"]["before"]["test"].accuracy
    return {"round": rounds, "score": scores, "accuracy": float(accuracy) / 100}


SUITES = {"repfl": repfl, "PFLlib": pfllib, "FL-bench": flbench}


def main(suite: str, method: str, seed: str, threads: str, began: str, setting: str) -> None:
    import torch

    torch.set_num_threads(int(threads))
    started: list[float] = []
    sys.path.insert(0, str(Path.cwd()))
    given = Setting(**json.loads(setting))
    with Path(os.devnull).open("w") as silence, redirect_stdout(silence):
        found = SUITES[suite](method, int(seed), given, lambda: started.append(time.time()))
    told = Path("/proc/self/status").read_text()  # the other counter begins with the parent's
    peak = 1024 * int(told.partition("VmHWM:")[2].split()[0])
    print(json.dumps(found | {"start": started[0] - float(began), "memory": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
