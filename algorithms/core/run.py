"""The round loop of one cell, free of files: start, step, snapshot, restore."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.messages import Ledger
from repfl.algorithms.core.method import Method, MethodError, State
from repfl.algorithms.core.scoring import WITHIN
from repfl.algorithms.core.settings import TrainingProtocol
from repfl.algorithms.core.subfederations import newcomer_federation
from repfl.algorithms.engine.client import described
from repfl.algorithms.engine.client_data import ClientData
from repfl.algorithms.engine.evaluate import Mixture, Models, Score, joined, summary
from repfl.algorithms.engine.model import Model

MODEL_BYTES = 28 << 20
"""Bytes of models that are scored at once; a CPU's allocator keeps what is no larger."""
FINE_TUNED = "fine-tuned"
"""Key of an entry in a round's log: the sum of all models that were trained in order to be scored.
It tells whether one of them diverged, and is not recorded.
"""


class Diverged(ArithmeticError):
    """A model is no longer finite."""

    def __init__(self, round_: int) -> None:
        super().__init__(f"the model is not finite after round {round_}")
        self.round = round_


class Run:
    """One method on one recipe with one seed, round by round."""

    def __init__(
        self,
        method: Method[Any],
        recipe: TrainingProtocol,
        data: ClientData,
        model: Model,
        *,
        newcomers: ClientData | None = None,
        **where: Any,
    ) -> None:
        """`newcomers` is the data of unseen clients, which are scored after the last round."""
        self.method, self.recipe, self.newcomers = method, recipe, newcomers
        self.fed = Federation(model, data, recipe, **where)
        self.state: State = {}
        self.round = 0
        self.rows: list[tuple[int, str, float]] = []
        self.counts: list[tuple[int, str, int, int, int]] = []

    def __repr__(self) -> str:
        name, fed = type(self.method).__name__, self.fed
        return f"<Run: {name}, {fed.N} clients, round {self.round} of {fed.rounds}>"

    @property
    def done(self) -> bool:
        return self.round >= self.fed.rounds

    def start(self) -> None:
        """The state before the first round."""
        self.state = self._checked_state("init", self.method.init(self.fed), {})

    def step(self) -> None:
        """Run one communication round and score it."""
        fed, round_ = self.fed, self.round + 1
        fed.begin(round_, all_clients=self.method.decentralised, due=self._due_points(round_))
        begun = perf_counter()
        if fed.scores.is_due("start") and not self.method.scores_start:
            fed.score("start", self._client_params())
        scored = perf_counter()
        shapes = {name: value.shape for name, value in self.state.items()}
        handed, self.state = dict(self.state), {}  # so that the method can free what it has used
        self.state = self._checked_state("round", self.method.round(handed, fed), shapes)
        self._check(round_)
        self._trace()
        trained = perf_counter()
        self._score_end()
        if self.newcomers is not None and round_ == fed.rounds:
            self._score_newcomers(self.newcomers)
        self._record(
            round_, train=trained - scored, evaluate=perf_counter() - trained + scored - begun
        )
        self.round = round_

    def _due_points(self, round_: int) -> set[str]:
        """Return which scores are due in a round (see `scoring`)."""
        evaluation, due = self.recipe.evaluation, set()
        scored = self._due(round_, evaluation.every)
        early, personalizes = evaluation.start_every, self.method.personalizes
        if scored:
            due.add(WITHIN)
        if not personalizes and (scored if early is None else self._due(round_, early)):
            due.add("start")
        if self._due(round_, evaluation.finetuned_every) if personalizes else scored:
            due.add("post_agg")
        return due - ({"start", "post_agg"} - {*evaluation.points})

    def _due(self, round_: int, every: int) -> bool:
        return (
            round_ == self.fed.rounds
            or (every > 0 and round_ % every == 0)
            or round_ in self.recipe.evaluation.rounds
        )

    def _checked_state(self, part: str, state: State, before: dict[str, torch.Size]) -> State:
        """Return what `init` or `round` returned; refuse what is no state, or not all of it."""
        everyone, active = (self.fed.N,), (self.fed.K,)
        if not isinstance(state, dict):
            raise MethodError(f"{part} returned {described(state)}; it returns a dict of tensors")
        for name in before | state:
            if not isinstance(value := state.get(name), Tensor):
                what = described(value) if name in state else "nothing"
                raise MethodError(f"{part} returned {what} as {name!r}; valid: a tensor")
            if before.get(name, active)[:1] == everyone != active == value.shape[:1]:
                rows = f"{self.fed.K} rows of {name!r}, which had {self.fed.N}"
                raise MethodError(f"{part} returned {rows}: write them by fed.scatter_rows")
        return state

    def _check(self, round_: int) -> None:
        floats = [
            t
            for t in (*self.state.values(), *self.fed.trained_rows.tensors)
            if isinstance(t, Tensor) and t.is_floating_point()
        ]
        if any(t.is_meta for t in floats):
            return
        sums = [t.sum().double() for t in floats]
        fine = not sums or bool(torch.stack(sums).isfinite().all())  # a GPU is asked once
        if not fine and not all(bool(torch.isfinite(t).all()) for t in floats):
            raise Diverged(round_)  # a sum alone may overflow

    def _trace(self) -> None:
        """Where the recipe asks for it: two entries of every weight tensor of every trained model,
        and what its client mostly holds.
        """
        fed = self.fed
        clients, trained = fed.trained_rows.of(fed.active_ids)
        if "trace" not in self.recipe.evaluation.tallies or trained is None:
            return
        places = [(s, part * s.size // 3) for s in fed.params.weights for part in (1, 2)]
        columns = torch.tensor([s.start + place for s, place in places], device=fed.device)
        labels = fed.data.class_counts[clients].argmax(1).tolist()
        for client, label, values in zip(
            clients, labels, trained[:, columns].tolist(), strict=True
        ):
            fed.log(f"trace/{client}/label", label)
            for (s, place), value in zip(places, values, strict=True):
                fed.log(f"trace/{client}/{s.name}[{place}]", value)

    def _score_end(self) -> None:
        fed = self.fed
        clients, trained = fed.trained_rows.of(fed.active_ids)
        points, scores = self.recipe.evaluation.points, fed.scores
        if "pre_agg" in points and trained is not None and "pre_agg" not in scores.by_point:
            scores.score("pre_agg", trained, clients)
        if scores.is_due("post_agg"):
            self._score_all_clients()

    def _score_all_clients(self) -> None:
        """Score all clients, a few at a time, so that their models never exist all at once."""
        fed, parts = self.fed, []
        width = max(fed.stack, min(16, MODEL_BYTES // (4 * fed.D)))
        for first in range(0, fed.N, width):
            with fed.as_active(range(first, min(first + width, fed.N))):
                models = self.scored_models()
                if self.method.personalizes:
                    self._watch(models)
                fed.score("post_agg", models)
            parts.append(
                {split: fed.scores.by_point.pop(f"post_agg{split}", None) for split in ("", "/val")}
            )
        for split in ("", "/val"):
            scores = [score for part in parts if (score := part[split]) is not None]
            if scores:
                fed.scores.by_point[f"post_agg{split}"] = joined(scores)

    def scored_models(self) -> Models:
        """Return the models that the active clients are scored with."""
        models = self._client_params()
        if self.method.personalizes and isinstance(models, Tensor):
            return self._checked_rows("personalize", self.method.personalize(self.fed, models))
        return models

    def _client_params(self) -> Models:
        return self._checked_rows("client_params", self.method.client_params(self.state, self.fed))

    def _checked_rows(self, part: str, models: Models) -> Models:
        """Return the models of the active clients; refuse what is not one for each."""
        fed = self.fed
        if not isinstance(models, Mixture) and getattr(models, "shape", ()) != (fed.K, fed.D):
            raise MethodError(
                f"{part} returned {described(models)}; it returns a row of {fed.D:,} values"
                f" for each of the {fed.K} clients in `fed.active`"
            )
        return models

    def _score_newcomers(self, data: ClientData) -> None:
        """Score unseen clients, in a federation of their own."""
        late = newcomer_federation(self.fed, data)
        models = self.method.newcomer_params(self.state, late)
        if models is not None:
            self._watch(models)
            late.score("newcomers", models)
            self.fed.scores.by_point |= late.scores.by_point

    def _watch(self, models: Models) -> None:
        """Let a model that is not finite end the run when the round is recorded."""
        if isinstance(models, Tensor):
            before = self.fed.logged.get(FINE_TUNED, 0.0)
            self.fed.logged[FINE_TUNED] = before + models.sum(dtype=torch.float64)

    def _record(self, round_: int, *, train: float, evaluate: float) -> None:
        fed = self.fed
        scores, notes = _on_host(fed)
        if not isfinite(notes.pop(FINE_TUNED, 0.0)):
            raise Diverged(round_)
        for point, score in scores.items():
            self.rows += [
                (round_, f"{point}/{name}", value) for name, value in summary(score).items()
            ]
            counts = zip(
                score.clients.tolist(), score.correct.tolist(), score.total.tolist(), strict=True
            )
            self.counts += [
                (round_, point, client, correct, total) for client, correct, total in counts
            ]
        self.rows += [
            (round_, f"traffic/{line}", float(fed.network.ledger.round[line].sum()))
            for line in Ledger.LINES
        ]
        self.rows += [(round_, f"note/{name}", value) for name, value in notes.items()]
        self.rows += [(round_, "time/train", train), (round_, "time/evaluate", evaluate)]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Diagnostics that the recipe asked for, with the layout that explains them."""
        arrays = {
            name: count.cpu().numpy().astype(np.uint16)
            for name, count in self.fed.masks_counted.items()
        }
        if self.fed.network.ledger.edges is not None:
            arrays["edges"] = self.fed.network.ledger.edges.numpy()
        if self.fed.masks_counted:
            slices = self.fed.params.slices
            # statistics as records have named them from the first on
            names = [s.name.replace("running_", "") for s in slices]
            arrays["layout/names"] = np.array(names)
            arrays["layout/starts"] = np.array([s.start for s in slices])
            arrays["layout/stops"] = np.array([s.stop for s in slices])
            arrays["layout/shapes"] = np.array(["x".join(map(str, s.shape)) for s in slices])
            arrays["class_counts"] = self.fed.data.class_counts.cpu().numpy()
        return arrays

    def snapshot(self) -> dict[str, Tensor]:
        """Everything that a later `restore` needs, as tensors."""
        tensors = {f"state/{name}": value.contiguous() for name, value in self.state.items()}
        tensors |= {f"tally/{name}": value for name, value in self.fed.masks_counted.items()}
        if self.fed.network.ledger.edges is not None:
            tensors["edges"] = self.fed.network.ledger.edges
        names = sorted({name for _, name, _ in self.rows})
        points = sorted({point for _, point, *_ in self.counts})
        name_code = {name: index for index, name in enumerate(names)}
        point_code = {point: index for index, point in enumerate(points)}
        tensors["round"] = torch.tensor(self.round)
        tensors["rows"] = torch.tensor(
            [(r, name_code[n], v) for r, n, v in self.rows], dtype=torch.float64
        ).reshape(-1, 3)
        tensors["clients"] = torch.tensor(
            [(r, point_code[p], *rest) for r, p, *rest in self.counts], dtype=torch.int64
        ).reshape(-1, 5)
        text = "\n".join(names) + "\0" + "\n".join(points)
        tensors["names"] = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        return tensors

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue where a snapshot was taken."""
        device = self.fed.device
        names, points = (
            part.split("\n") for part in bytes(tensors["names"].tolist()).decode().split("\0")
        )
        self.round = int(tensors["round"])
        self.rows = [(int(r), names[int(n)], v) for r, n, v in tensors["rows"].tolist()]
        self.counts = [
            (r, points[p], c, hit, total) for r, p, c, hit, total in tensors["clients"].tolist()
        ]
        self.state = {
            k.removeprefix("state/"): v.to(device)
            for k, v in tensors.items()
            if k.startswith("state/")
        }
        self.fed.masks_counted = {
            k.removeprefix("tally/"): v.to(device)
            for k, v in tensors.items()
            if k.startswith("tally/")
        }
        self.fed.network.ledger.edges = tensors.get("edges")


def _on_host(fed: Federation) -> tuple[dict[str, Score], dict[str, float]]:
    """Return what a round has recorded, on the CPU."""
    counts = {
        point: replace(score, correct=fed.to_host(score.correct).long())
        for point, score in fed.scores.by_point.items()
    }
    values = {
        name: float(fed.to_host(value) if isinstance(value, Tensor) else value)
        for name, value in fed.logged.items()
    }
    return counts, values
