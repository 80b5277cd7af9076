"""Lines that redefine a public name of the engine at the end of its file, each a mistake."""

from __future__ import annotations

LR = "Federation.lr = property(lambda self, right=Federation.lr.fget: {})"
OPTIMISER = (
    "_right, _replace = Trainer.run, __import__('dataclasses').replace; Trainer.run = lambda self,"
    " step, plans, inputs, o: _right(self, step, plans, inputs, _replace(o, {}))"
)
SPOILED = (
    ("core/federation", "Federation.mean = lambda self, x, weights=None: x.mean(0)", "fedavg"),
    ("core/federation", LR.format("1.1 * right(self)"), "fedavg"),
    ("core/federation", LR.format("-right(self)"), "fedavg"),
    ("core/federation", LR.format("right(self) * self.protocol.lr_decay"), "fedavg"),
    ("engine/training", OPTIMISER.format("momentum=0.0"), "fedavg"),
    ("engine/training", OPTIMISER.format("weight_decay=-o.weight_decay"), "fedavg"),
    (
        "core/federation",
        "Federation.new_models = lambda self: self.new_model().expand(self.N, -1)",
        "fedper",
    ),
    (
        "core/network",
        "Network.communicated = property(lambda self: torch.ones_like(self.params.learnable))",
        "fedavg",
    ),
    ("core/network", "Network.up, Network.down = Network.down, Network.up", "fedpurin"),
    (
        "engine/params",
        "Params.head = property(lambda self: self.where(head=True).roll(1))",
        "fedper",
    ),
    ("engine/params", "count_true = lambda mask, right=count_true: right(mask) + 1", "fedavg"),
    ("engine/client", "cross_entropy_eval = cross_entropy", "dfedpgp"),
    (
        "engine/rng",
        "cohort = lambda streams, clients, size, round_, right=cohort: right(streams, clients,"
        " size, round_ - 1)",
        "fedavg",
    ),
    (
        "engine/rng",
        "Streams.permutation = lambda self, n, purpose, *address: torch.arange(n)",
        "local",
    ),
    (
        "engine/model",
        "Model.initial = lambda self, *address, right=Model.initial: 1.1 * right(self, *address)",
        "local",
    ),
    (
        "engine/evaluate",
        "_right = count_correct; count_correct = lambda *a, **k: _right(*a, **k) + 1",
        "local",
    ),
    (
        "engine/evaluate",
        "summary = lambda score, right=summary: {**right(score), 'mean':"
        " right(score).get('pooled')}",
        "local",
    ),
    (
        "core/messages",
        "_right = code_bytes; code_bytes = lambda *message: _right(*message) + 1",
        "fedpurin",
    ),
    (
        "core/topology",
        "_right = mix; mix = lambda x, weights, *rest, **options: _right(x, weights.T, *rest,"
        " **options)",
        "dfedpgp",
    ),
    (
        "core/topology",
        "Topology.regular = lambda self, degree, right=Topology.regular: right(self, degree + 1)",
        "dfedavgm",
    ),
    ("core/topology", "with_self = lambda graph: graph.double()", "dfedpgp"),
    (
        "math/masks",
        "topk_threshold = lambda scores, count, right=topk_threshold: right(scores, count + 1)",
        "fedpurin",
    ),
    (
        "math/masks",
        "topk_mask = lambda scores, counts, right=topk_mask: right(scores, counts + 1)",
        "dis-pfl",
    ),
    (
        "math/masks",
        "holders_mean = lambda x, held, weights, otherwise: weights @ torch.where(held, x, 0.0)",
        "fedselect",
    ),
    (
        "math/critical",
        "collaborators = lambda overlap, progress, right=collaborators: right(overlap, 1.1 *"
        " progress)",
        "fedcac",
    ),
    ("math/critical", "overlaps = lambda masks, right=overlaps: right(~masks)", "fedpurin"),
    ("math/sparse", "erk_counts = lambda p, d, right=erk_counts: right(p, 1.1 * d)", "dis-pfl"),
    (
        "math/importance",
        "quantile = lambda rows, q, right=quantile: right(rows, 1.1 * q)",
        "feddpa",
    ),
    (
        "math/class_stats",
        "ClassStatistics.shares = property(lambda self: self.count / self.count.sum(0,"
        " keepdim=True).clamp(min=1))",
        "fedpac",
    ),
    (
        "math/gaussian",
        "discriminant = lambda m, c, prior, eps, right=discriminant: right(m, c, prior, 1 - eps)",
        "pfedfda",
    ),
    ("math/box", "minimise = lambda losses, start, **o: (start, losses(start))", "pfedfda"),
    (
        "math/simplex",
        "on_simplex = lambda points, size, right=on_simplex: right(points, 1.0)",
        "floco",
    ),
)
"""File, the line that spoils it, and a method that uses what it spoils."""
