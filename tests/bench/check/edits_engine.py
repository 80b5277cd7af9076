"""Mistakes in the protocol, in local training, in messages and in methods."""

from __future__ import annotations

from tests.bench.check.edits import (
    BATCHES,
    CLIENT,
    CORE,
    FEDERATION,
    NETWORK,
    PARTIAL,
    TOPOLOGY,
    TRAINING,
    Edit,
)

IN_ENGINE = (
    # protocol
    Edit(
        FEDERATION,
        'if self.protocol.weighting != "samples" or not any(held):',
        "if not any(held):",
        "fedavg",
        "star-pfl",
    ),
    Edit(FEDERATION, 'if self.recipe.sampling == "flbench":', "if False:", "fedavg", "fedobp"),
    Edit(
        FEDERATION,
        "self.protocol.lr * self.protocol.lr_decay ** max(self.round - 1, 0)",
        "self.protocol.lr * (1 - (1 - self.protocol.lr_decay) * max(self.round - 1, 0))",
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
        BATCHES,
        "if schedule.skip_single and len(part) == 1:",
        "if schedule.skip_single and len(part) == 0:",
        "fedavg",
        "fedobp",
    ),
    Edit(
        BATCHES,
        "range(0, len(samples), schedule.batch)",
        "range(0, len(samples) - schedule.batch + 1, schedule.batch)",
        "local",
        "everybody",
    ),
    # one client's step
    Edit(CLIENT, "if self.optimiser.clip:", "if False:", "fedavg", "pfeddst"),
    Edit(CLIENT, ".clamp(max=1.0)", "", "fedavg", "pfeddst"),
    Edit(
        CLIENT,
        "step = momentum[name] = step.clone()",
        "step = momentum[name] = 0.0 * step",
        "local",
        "everybody",
    ),
    Edit(
        CLIENT,
        'setdefault(f"momentum/{of}", {})',
        'setdefault("momentum", {})',
        "apfl",
        "everybody",
    ),
    Edit(
        CLIENT,
        "            if mask is not None:\n                step = step * mask\n",
        "",
        "fedselect",
        "everybody",
    ),
    Edit(
        "algorithms/models/layers.py",
        '"""Batch norm that a batch of one value per channel leaves alone: it has no '
        'variance."""\n',
        '"""Batch norm."""\n'
        "\n"
        "    momentum = property(lambda self: 0.01, lambda self, value: None)\n",
        "local",
        "everybody",
    ),
    Edit(
        "algorithms/models/layers.py",
        "(2.0 / (shape[0] * shape[2] * shape[3]))",
        "(2.0 / (shape[1] * shape[2] * shape[3]))",
        "fedavg",
        "resnet8",
    ),
    # a stack of clients
    Edit(
        TRAINING,
        "return list(groups.values())",
        "return list(groups.values())[:1]",
        "fedavg",
        "cohort",
    ),
    Edit(
        TRAINING,
        "for k, row in enumerate(rows):",
        "for k, row in enumerate(sorted(rows)):",
        "fedavg",
        "cohort",
    ),
    Edit(
        TRAINING,
        "    for kind, named in after.items():\n",
        "    for kind, named in after.items():\n"
        '        if kind.startswith("momentum"):\n'
        "            continue\n",
        "local",
        "everybody",
    ),
    Edit(
        TRAINING, "inputs.trainable[where] if own", "inputs.trainable if own", "fedselect", "cohort"
    ),
    Edit(
        TRAINING,
        '                _put({"": grads}',
        '                if not grads:\n                    _put({"": grads}',
        "fedpurin",
        "everybody",
    ),
    Edit(
        CLIENT,
        "out = loss(model, batch, client.inputs(of) | {n: leaves[n] for n in extras})",
        "out = loss(model, batch, client.inputs(of))",
        "floco",
        "everybody",
    ),
    # messages and averages
    Edit(f"{CORE}/messages.py", "FLOAT = 4", "FLOAT = 2", "fedavg", "everybody"),
    Edit(NETWORK, "words + scalars", "words", "dfedavgm", "everybody"),
    Edit(NETWORK, "bill_edges(graph & others,", "bill_edges(graph,", "dfedavgm", "everybody"),
    Edit(NETWORK, "(size + 7) // 8", "size", "flute", "everybody"),
    Edit(TOPOLOGY, "parts = shares * mass", "parts = shares", "dfedpgp", "everybody"),
    Edit(
        TOPOLOGY,
        "weights.sum(dim=0, keepdim=True)",
        "weights.sum(dim=1, keepdim=True)",
        "dfedpgp",
        "everybody",
    ),
    Edit(PARTIAL, "seen[fed.active] = True", "seen[fed.active] = False", "fedper", "fedobp"),
    Edit(
        PARTIAL,
        "kept = torch.where(first, received[:, place], kept)",
        "kept = received[:, place]",
        "fedper",
        "fedobp",
    ),
    Edit(
        PARTIAL,
        'return fed.train(params, trainable=fed.params.stats, stream="join")',
        "return params",
        "fedavg",
        "board",
    ),
    Edit(
        "algorithms/math/fisher.py",
        'g.square() if reading == "samples" else g ',
        "g ",
        "feddpa",
        "everybody",
    ),
    # methods
    Edit(
        "algorithms/fedbn.py",
        "fed.params.learnable & ~fed.params.norm",
        "fed.params.learnable",
        "fedbn",
        "everybody",
    ),
    Edit("algorithms/pfedsd.py", "hp.temperature**2 *", "hp.temperature *", "pfedsd", "everybody"),
    Edit(
        "algorithms/pfedsd.py",
        "fed.scatter_rows(teacher, params)",
        "teacher",
        "pfedsd",
        "everybody",
    ),
    Edit(
        "algorithms/ditto.py",
        "v[fed.active], received, epochs",
        "v[fed.active], end, epochs",
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
    Edit("algorithms/fedbabu.py", ', stream="finetune"', "", "fedbabu", "everybody"),
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
        'fed.scatter_rows(state["last"], start)',
        "feddpa",
        "everybody",
    ),
)
