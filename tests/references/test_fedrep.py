"""`fedrep` against its authors' code, lgcollins/FedRep at d82e629.

The main loop runs as published, from the initial model to the last fine-tuning, with our cohorts
and our batches; the models that it would score are caught where it scores them. What it fixes is
set here, too: momentum 0.5, and weight decay 1e-4, which spares biases. Ours decays them with all
else, hence the network's biases bear another name. Clients weigh as much as their data under its
LEAF data sets and all alike under its others. Three things that reading does not tell:

* A client that never took part has the heads' average, since its own is an alias of the global
  model's: `newcomer=global`.
* The body's epochs leave the head alone because `zero_grad` has removed its gradients since PyTorch
  2.0. Under the PyTorch 0.4.1 that the code asks for they stay as zeros, and momentum and weight
  decay go on moving the head.
* `models/test.py` mixes tabs and spaces, which Python 3 refuses; the tabs are replaced.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from tests.algorithms import plain, toys
from tests.references import nets, scripts
from tests.references.conftest import Get
from tests.references.loaders import epochs, rounds

ROUNDS, SIZES = 5, (25, 16, 9, 12, 30, 8)
PROTOCOL: dict[str, Any] = {"epochs": 3, "lr": 0.1, "momentum": 0.5, "weight_decay": 1e-4}
PROTOCOL |= {"sizes": SIZES, "dtype": torch.float64, "participation": 0.5}


def name(ours: str) -> str:
    return ours.replace("bias", "offset")


class Layer(nn.Module):
    """A convolution's or a linear layer's tensors, without the word `bias`."""

    def __init__(self, layer: nn.Conv2d | nn.Linear) -> None:
        super().__init__()
        assert layer.bias is not None
        self.weight, self.offset = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return (F.conv2d if self.weight.dim() == 4 else F.linear)(x, self.weight, self.offset)


class Net(nets.Tiny):
    """`tiny`, with its tensors listed as the code wants them: three entries of the body, then the
    head.
    """

    weight_keys = (
        *(("conv1.weight", "conv1.offset"), ("fc1.weight",), ("fc1.offset",)),
        ("fc2.weight", "fc2.offset"),
    )

    def __init__(self, fed: Federation) -> None:
        super().__init__(fed)
        for layer in ("conv1", "fc1", "fc2"):
            setattr(self, layer, Layer(getattr(self, layer)))


def arguments(fed: Federation, dataset: str) -> Namespace:
    """The protocol in the words of the code."""
    p = fed.protocol
    sizes = {"num_users": fed.N, "frac": 0.5, "shard_per_user": 0, "m_tr": 10**6, "m_ft": 10**6}
    steps = {"epochs": ROUNDS, "local_ep": p.epochs, "local_rep_ep": 1, "local_bs": p.batch}
    script = {"alg": "fedrep", "load_fed": "n", "test_freq": 1, "save_every": 10**6, "gpu": -1}
    return Namespace(dataset=dataset, lr=p.lr, local_updates=-1, **script, **sizes, **steps)


def stand_ins(args: Namespace, net: nn.Module) -> dict[str, dict[str, Any]]:
    """For what the script reads: its arguments, its network, and data that it counts but never
    sees.
    """
    leaf = {str(c): {"x": [0] * n, "y": [0] * n} for c, n in enumerate(SIZES)}
    listed = {c: np.arange(n) for c, n in enumerate(SIZES)}
    data: dict[str, Any] = {
        "get_data": lambda _: (None, None, listed, listed),
        "read_data": lambda *_: (list(leaf), [], leaf, leaf),
    }
    text: dict[str, Any] = dict.fromkeys(
        ("get_word_emb_arr", "repackage_hidden", "process_x", "process_y")
    )
    given = {
        "utils.options": {"args_parser": lambda: args},
        "utils.train_utils": {**data, "get_model": lambda _: net},
    }
    return {**given, "models.language_utils": text, "FedProx": {}}


Script = Callable[[Run, str], Tensor]


@pytest.fixture
def theirs(
    reference: Get, borrowed: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Script:
    """The published script to its end: what everybody is scored with after every round and after
    fine-tuning  [ROUNDS + 1, N, D].
    """
    folder = reference("lgcollins/FedRep", "d82e629", "main_fedrep.py", "models")
    scoring = folder / "models" / "test.py"
    scoring.write_text(scoring.read_text().expandtabs(8))

    def drive(run: Run, dataset: str) -> Tensor:
        fed, everybody, script = run.fed, range(len(SIZES)), folder / "main_fedrep.py"
        net = nets.load(fed, Net(fed), fed.new_model(), name)
        borrowed(folder, stand_ins(arguments(fed, dataset), net))
        called = scripts.cohorts(fed, ROUNDS)
        feed = scripts.loaders(fed, called)
        feed += [epochs(fed, c, ROUNDS, "finetune") for c in everybody]
        return scripts.played(monkeypatch, script, fed, name, [*called, everybody], feed)[0]

    (tmp_path / "save").mkdir()
    monkeypatch.chdir(tmp_path)
    return drive


@pytest.mark.parametrize(("weighting", "dataset"), [("samples", "femnist"), ("uniform", "mnist")])
def test_fedrep_is_the_authors_code(theirs: Script, weighting: str, dataset: str) -> None:
    hp = {"body_epochs": 1, "newcomer": "global"}
    run = toys.run("fedrep", hp, rounds=1, weighting=weighting, **PROTOCOL)
    *scored, tuned = theirs(run, dataset)
    assert len(scored) == ROUNDS
    for round_ in rounds(run, ROUNDS):
        assert plain.apart(scored[round_ - 1], toys.everybody(run)) < 1e-9
    run.method = build("fedrep", hp | {"final_epochs": 10})
    assert plain.apart(tuned, toys.everybody(run)) < 1e-9
