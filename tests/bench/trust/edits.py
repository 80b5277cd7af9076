"""Mistakes and refactorings written by hand: one replacement each, in a method, the engine, the
data path, the metrics or the harness, and the cells of the gate that compute what it touches.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    """One replacement of a text that occurs once."""

    file: str
    old: str
    new: str
    method: str
    recipes: str
    """The gate's recipes to compute, parted by spaces."""

    @property
    def what(self) -> str:
        return f"{self.file}: {self.old} -> {self.new}"

    def applied(self, clone: Path) -> str:
        """The whole file with the edit."""
        text = (clone / self.file).read_text(encoding="utf-8")
        assert text.count(self.old) == 1, (
            f"{self.what}: the text to replace occurs {text.count(self.old)} times"
        )
        return text.replace(self.old, self.new)


CORE = "algorithms/core"
FEDERATION, RUN = f"{CORE}/federation.py", f"{CORE}/run.py"
ENGINE = "algorithms/engine"
CLIENT = f"{ENGINE}/client.py"
METRICS, CLIENTS = "bench/running/metrics.py", "bench/running/clients.py"
PARTITIONS = "datasets/partitions"

NAMED = {
    "scored on training data": Edit(
        FEDERATION,
        "parts = [getattr(self.data, split)[client]",
        "parts = [self.data.train[client]",
        "fedavg",
        "everybody",
    ),
    "best round instead of the last": Edit(
        METRICS,
        "case _:\n            best = max(curve)",
        "case _:\n            best = max(curve, key=lambda round_: curve[round_])",
        "fedavg",
        "everybody cohort",
    ),
    "weighting = uniform ignored": Edit(
        FEDERATION,
        'if self.protocol.weighting != "samples" or not any(held):',
        "if not any(held):",
        "fedavg",
        "star-pfl",
    ),
    "clip ignored": Edit(CLIENT, "if self.optimiser.clip:", "if False:", "fedavg", "pfeddst"),
    "sampling = flbench ignored": Edit(
        FEDERATION, 'if self.recipe.sampling == "flbench":', "if False:", "fedavg", "fedobp"
    ),
    "skip_single ignored": Edit(
        f"{ENGINE}/batches.py",
        "if schedule.skip_single and len(part) == 1:",
        "if schedule.skip_single and len(part) == 0:",
        "fedavg",
        "fedobp",
    ),
    "augmentation skipped": Edit(
        CLIENTS,
        "augment=augment.get(recipe.augment),",
        "augment=augment.get('none'),",
        "local",
        "fedselect",
    ),
    "validation scored on test": Edit(
        FEDERATION, '("/val", "val")', '("/val", "test")', "fedavg", "star-pfl"
    ),
    "rule max ignores its rounds": Edit(
        METRICS,
        'if evaluation["rounds"] and evaluation["rule"] == "max":',
        "if False:",
        "local",
        "fedselect",
    ),
    "floor of the test part's favourite": Edit(
        "datasets/core/partition.py",
        "favourite = np.bincount(labels[train]).argmax()",
        "favourite = np.bincount(labels[test]).argmax()",
        "local",
        "everybody cohort",
    ),
}
"""Mistakes that once passed the gate."""

MISTAKES = (
    *NAMED.values(),
    # metrics
    Edit(
        METRICS,
        'curves.get(f"{point}/val/{average}", {}).items()',
        'curves.get(f"{point}/{average}", {}).items()',
        "fedavg",
        "star-pfl",
    ),
    Edit(METRICS, '"pooled": "pooled"}', '"pooled": "mean"}', "fedavg", "fedobp"),
    Edit(METRICS, 'return evaluation["point"], {', 'return "post_agg", {', "fedavg", "star-pfl"),
    Edit(
        METRICS,
        'int(sum(curves.get(f"traffic/{line}", {}).values()))',
        'int(_last(curves[f"traffic/{line}"]))',
        "fedavg",
        "everybody",
    ),
    Edit(
        METRICS,
        '"floor": {"clients": floor[0], "pooled": floor[1]}',
        '"floor": {"clients": floor[1], "pooled": floor[0]}',
        "local",
        "cohort",
    ),
    Edit(METRICS, '"note/"): _last(curve)', '"note/"): curve[min(curve)]', "apfl", "everybody"),
    Edit(
        f"{ENGINE}/evaluate.py",
        "worst = own.sort().values",
        "worst = own.sort(descending=True).values",
        "local",
        "everybody",
    ),
    Edit(
        f"{ENGINE}/evaluate.py",
        "own.std().item()",
        "own.std(correction=0).item()",
        "local",
        "everybody",
    ),
    Edit(
        f"{ENGINE}/model.py",
        "return ClientModel(self, tensors, training)",
        "return ClientModel(self, tensors, True)",
        "fedavg",
        "everybody",
    ),
    Edit(
        f"{ENGINE}/params.py",
        "sum(s.size for s in self.trained)",
        "sum(s.size for s in self.slices)",
        "local",
        "everybody",
    ),
    # data path
    Edit(
        CLIENTS,
        "shift=torch.from_numpy(-mean / std)",
        "shift=torch.from_numpy(-mean)",
        "local",
        "fedselect",
    ),
    Edit(CLIENTS, "1.0 / (norm.scale * std)", "1.0 / (norm.scale + 0 * std)", "local", "fedpurin"),
    Edit(
        CLIENTS,
        "recipe.classes or len(description.classes)",
        "len(description.classes)",
        "local",
        "star-pfl",
    ),
    Edit(
        CLIENTS,
        "dealt = recipe.partition.seed_in(cell.seed)",
        "dealt = recipe.partition.seed_in(1)",
        "local",
        "everybody",
    ),
    Edit(
        f"{PARTITIONS}/dirichlet.py",
        "pool.by_class(pool.splits[split])",
        'pool.by_class(pool.splits["train"])',
        "local",
        "everybody",
    ),
    Edit(
        f"{PARTITIONS}/dirichlet.py",
        "stream = np.random.RandomState(seed)\n    pieces",
        "stream = np.random.RandomState(0)\n    pieces",
        "local",
        "cohort",
    ),
    Edit(
        f"{PARTITIONS}/dirichlet.py",
        "return ClientSplits.of(*parts)",
        "return ClientSplits.of(parts[0], parts[2], parts[1])",
        "local",
        "star-pfl",
    ),
    Edit(
        f"{PARTITIONS}/shards.py",
        'zip(("train", "test"), splits, sizes, strict=True)',
        'zip(("train", "test"), splits[:1] * 2, sizes, strict=True)',
        "local",
        "fedselect",
    ),
    Edit(
        f"{PARTITIONS}/n_classes.py",
        "by_class[label][remaining[label]]",
        "by_class[label][remaining[label] - 1]",
        "fedper",
        "pfeddst",
    ),
    Edit(
        "datasets/core/augment.py",
        "side: rng.integers(0, 2 * PAD + 1, n)",
        "side: rng.integers(0, 2 * PAD, n)",
        "local",
        "fedselect",
    ),
    Edit(
        "datasets/core/augment.py",
        "rng.random(n) < 0.5",
        "rng.random(n) < 0.45",
        "local",
        "fedpurin",
    ),
    Edit(
        "datasets/core/augment.py",
        'return crop(images, draws["top"], draws["left"]) if self.crop_after else images',
        "return images",
        "local",
        "fedpurin",
    ),
    Edit(
        f"{ENGINE}/batches.py",
        'streams.at("augment", *address)',
        'streams.at("augment", client, epoch)',
        "local",
        "fedselect",
    ),
    Edit(
        f"{ENGINE}/client_data.py",
        "(0, width - x.shape[3], 0, height - x.shape[2])",
        "(width - x.shape[3], 0, height - x.shape[2], 0)",
        "fedavg",
        "lenet5",
    ),
    # engine
    Edit(
        CLIENT,
        "step = momentum[name] = step.clone()",
        "step = momentum[name] = 0.0 * step",
        "local",
        "everybody",
    ),
    Edit(CLIENT, ".clamp(max=1.0)", "", "fedavg", "pfeddst"),
    Edit(
        FEDERATION,
        "self.protocol.lr_decay ** max(self.round - 1, 0)",
        "(1 - (1 - self.protocol.lr_decay) * max(self.round - 1, 0))",
        "local",
        "everybody",
    ),
    Edit(
        FEDERATION,
        "Schedule(stream, self.round, count,",
        "Schedule(stream, 1, count,",
        "local",
        "everybody",
    ),
    Edit(
        FEDERATION,
        "total[self.active if hits.dim() == 2 else ...] += hits",
        "total[self.active if hits.dim() == 2 else ...] = hits.int()",
        "fedpurin",
        "fedpurin",
    ),
    Edit(
        f"{ENGINE}/batches.py",
        "range(0, len(samples), schedule.batch)",
        "range(0, len(samples) - schedule.batch + 1, schedule.batch)",
        "local",
        "everybody",
    ),
    Edit(f"{CORE}/messages.py", "FLOAT = 4", "FLOAT = 2", "fedavg", "everybody"),
    Edit(f"{CORE}/network.py", "words + scalars", "words", "dfedavgm", "everybody"),
    Edit(f"{CORE}/topology.py", "parts = shares * mass", "parts = shares", "dfedpgp", "everybody"),
    Edit(
        f"{CORE}/partial_averaging.py",
        "seen[fed.active] = True",
        "seen[fed.active] = False",
        "fedper",
        "fedobp",
    ),
    # methods
    Edit(
        "algorithms/fedbn.py",
        "fed.params.learnable & ~fed.params.norm",
        "fed.params.learnable",
        "fedbn",
        "everybody",
    ),
    Edit(
        "algorithms/pfedsd.py",
        "hp.lam * hp.temperature**2",
        "hp.lam * hp.temperature",
        "pfedsd",
        "everybody",
    ),
    Edit(
        "algorithms/pfedsd.py",
        "fed.scatter_rows(teacher, params)",
        "fed.scatter_rows(teacher, teacher[fed.active])",
        "pfedsd",
        "everybody",
    ),
    Edit(
        "algorithms/ditto.py",
        "self.train_personal(fed, v[fed.active], received,",
        "self.train_personal(fed, v[fed.active], end,",
        "ditto",
        "everybody",
    ),
    Edit(
        "algorithms/apfl.py",
        'client.update({n: alpha * g for n, g in grads.items()}, of="v")',
        'client.update(grads, of="v")',
        "apfl",
        "everybody",
    ),
    Edit(
        "algorithms/fedala.py",
        'extras["gap"]).clamp(0, 1)',
        'extras["gap"])',
        "fedala",
        "everybody",
    ),
    Edit("algorithms/fedbabu.py", ', stream="finetune")', ")", "fedbabu", "everybody"),
    Edit(
        "algorithms/lotteryfl.py",
        "torch.where(rewinds, fed.new_model(), received)",
        "received",
        "lotteryfl",
        "everybody star-pfl",
    ),
    Edit(
        "algorithms/fedselect.py",
        '"visits": visits + 1',
        '"visits": visits',
        "fedselect",
        "everybody cohort",
    ),
    Edit(
        "algorithms/feddpa.py",
        'fed.scatter_rows(state["last"], end)',
        'fed.scatter_rows(state["last"], 0.9 * end)',
        "feddpa",
        "everybody",
    ),
    # harness
    Edit(CLIENTS, "        seed=cell.seed,", "        seed=0,", "local", "everybody"),
    Edit(
        CLIENTS,
        'torch.float64 if options.precision == "fp64" else torch.float32',
        "torch.float32",
        "local",
        "everybody",
    ),
    Edit(
        CLIENTS,
        "hyperparameters(cell.method, cell.hp)",
        "hyperparameters(cell.method, {})",
        "ditto",
        "everybody",
    ),
    Edit(
        "bench/running/products.py",
        '("round", "point", "client", "correct", "total")',
        '("round", "point", "client", "total", "correct")',
        "local",
        "everybody",
    ),
    Edit(
        RUN,
        "(every > 0 and round_ % every == 0)",
        "(every > 0 and (round_ - 1) % every == 0)",
        "fedavg",
        "fedobp",
    ),
    Edit(
        RUN,
        "fed.scoring if early is None else self._due(round_, early)",
        "fed.scoring",
        "fedavg",
        "fedobp",
    ),
    Edit(
        RUN,
        "self._due(round_, evaluation.finetuned_every)",
        "self._due(round_, evaluation.every)",
        "fedavg-ft",
        "pfeddst",
    ),
    Edit(
        RUN,
        "                score.clients.tolist(), score.correct",
        "                range(len(score.clients)), score.correct",
        "fedavg",
        "cohort",
    ),
)
"""None of these is a kind of mistake that `planted` makes."""

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
        "tensor.add_(step, alpha=-self.optimiser.lr)",
        "tensor.sub_(step, alpha=self.optimiser.lr)",
        "fedbabu",
        "everybody",
    ),
    Edit(
        METRICS,
        "    top = max(mean, key=lambda round_: (mean[round_], -round_))\n    chosen ="
        ' _validated(curves, point, "mean")\n',
        '    chosen = _validated(curves, point, "mean")\n    top = max(mean, key=lambda number:'
        " (mean[number], -number))\n",
        "fedavg",
        "star-pfl",
    ),
    Edit(
        f"{CORE}/partial_averaging.py",
        '        seen = state["seen"].clone()\n        seen[fed.active] = True\n',
        '        seen = state["seen"].index_fill(0, fed.active, True)\n',
        "fedper",
        "cohort",
    ),
    Edit(
        f"{ENGINE}/evaluate.py",
        "worst = own.sort().values[: max(1, len(own) // 10)]",
        "worst = torch.sort(own)[0][: max(len(own) // 10, 1)]",
        "local",
        "everybody",
    ),
    Edit(
        f"{PARTITIONS}/dirichlet.py",
        "    train, test = [], []\n    for index in pieces:\n        stream.shuffle(index)\n"
        "        cut = int(options.test_share * len(index))\n        test.append(index[:cut])\n"
        "        train.append(index[cut:])\n",
        "    test, train = [], []\n    for piece in pieces:\n        stream.shuffle(piece)\n"
        "        size = int(options.test_share * len(piece))\n        train.append(piece[size:])\n"
        "        test.append(piece[:size])\n",
        "local",
        "cohort",
    ),
    Edit(CLIENTS, "-mean / std", "-(mean / std)", "local", "fedselect"),
    Edit(
        "algorithms/ditto.py",
        "pull = (anchor, self.hp.lam) if self.hp.lam else None",
        "pull = None if not self.hp.lam else (anchor, self.hp.lam)",
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
        f"{CORE}/network.py",
        'return learnable if self.protocol.buffers == "local" else torch.ones_like(learnable)',
        'return torch.ones_like(learnable) if self.protocol.buffers == "global" else learnable',
        "fedavg",
        "everybody cohort",
    ),
    Edit(
        f"{ENGINE}/batches.py",
        "        order = samples[streams.permutation(len(samples), schedule.stream, *address)]\n",
        "        places = streams.permutation(len(samples), schedule.stream, *address)\n"
        "        order = samples[places]\n",
        "local",
        "fedselect",
    ),
    Edit(
        "bench/running/products.py",
        '            "train": parts["time/train"],\n'
        '            "evaluate": parts["time/evaluate"],\n',
        '            "evaluate": parts["time/evaluate"],\n'
        '            "train": parts["time/train"],\n',
        "local",
        "everybody",
    ),
)
"""Refactorings of which the gate must not say a word."""
