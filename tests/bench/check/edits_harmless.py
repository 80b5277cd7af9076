"""Refactorings of which the gate must not say a word."""

from __future__ import annotations

from tests.bench.check.edits import (
    BATCHES,
    CLIENT,
    CLIENTS,
    EVALUATE,
    FEDERATION,
    METRICS,
    NETWORK,
    PARTIAL,
    PARTITIONS,
    PRODUCTS,
    RUN,
    TRAINING,
    Edit,
)

HARMLESS = (
    Edit(
        FEDERATION,
        "        size = cohort_size(self.N, self.recipe.participation)\n",
        "        # at least one takes part\n"
        "        size = cohort_size(participation=self.recipe.participation, clients=self.N)\n",
        "fedavg",
        "cohort fedobp",
    ),
    Edit(
        CLIENT,
        "step, tensor, mask = grad, tensors[name], self.masks.get(name)",
        "mask, tensor, step = self.masks.get(name), tensors[name], grad",
        "fedbabu",
        "everybody",
    ),
    Edit(
        TRAINING,
        "if group == list(range(group[0], group[-1] + 1)):",
        "if False:",
        "local",
        "cohort",
    ),
    Edit(
        METRICS,
        "    top = max(mean, key=lambda round_: (mean[round_], -round_))\n"
        '    chosen = _validated(curves, point, "mean")\n',
        '    chosen = _validated(curves, point, "mean")\n'
        "    top = max(mean, key=lambda number: (mean[number], -number))\n",
        "fedavg",
        "star-pfl",
    ),
    Edit(
        PARTIAL,
        '        seen = state["seen"].clone()\n        seen[fed.active] = True\n',
        '        seen = state["seen"].index_fill(0, fed.active, True)\n',
        "fedper",
        "cohort",
    ),
    Edit(
        EVALUATE,
        "worst = own.sort().values[: max(1, len(own) // 10)]",
        "worst = torch.sort(own)[0][: max(len(own) // 10, 1)]",
        "local",
        "everybody",
    ),
    Edit(
        f"{PARTITIONS}/dirichlet.py",
        "    train, test = [], []\n"
        "    for index in pieces:\n"
        "        stream.shuffle(index)\n"
        "        cut = int(options.test_share * len(index))\n"
        "        test.append(index[:cut])\n"
        "        train.append(index[cut:])\n",
        "    test, train = [], []\n"
        "    for piece in pieces:\n"
        "        stream.shuffle(piece)\n"
        "        size = int(options.test_share * len(piece))\n"
        "        train.append(piece[size:])\n"
        "        test.append(piece[:size])\n",
        "local",
        "cohort",
    ),
    Edit(CLIENTS, "-mean / std", "-(mean / std)", "local", "fedselect"),
    Edit(
        "algorithms/ditto.py",
        "        pull = (anchor, self.hp.lam) if self.hp.lam else None\n"
        "        lr = fed.lr if self.hp.lr is None else self.hp.lr\n",
        "        lr = self.hp.lr if self.hp.lr is not None else fed.lr\n"
        "        pull = None if not self.hp.lam else (anchor, self.hp.lam)\n",
        "ditto",
        "everybody fedselect",
    ),
    Edit(
        RUN,
        "            round_ == self.fed.rounds\n            or (every > 0 and round_ % every == 0)",
        "            (every > 0 and not round_ % every)\n            or self.fed.rounds == round_",
        "fedavg",
        "fedobp pfeddst",
    ),
    Edit(
        NETWORK,
        '        return learnable if self.protocol.buffers == "local" else '
        "torch.ones_like(learnable)",
        '        if self.protocol.buffers == "global":\n'
        "            return torch.ones_like(learnable)\n"
        "        return learnable",
        "fedavg",
        "everybody cohort",
    ),
    Edit(
        BATCHES,
        "        order = samples[streams.permutation(len(samples), schedule.stream, *address)]\n",
        "        places = streams.permutation(len(samples), schedule.stream, *address)\n"
        "        order = samples[places]\n",
        "local",
        "fedselect",
    ),
    Edit(
        PRODUCTS,
        '            "train": parts["time/train"],\n'
        '            "evaluate": parts["time/evaluate"],\n',
        '            "evaluate": parts["time/evaluate"],\n'
        '            "train": parts["time/train"],\n',
        "local",
        "everybody",
    ),
)
