"""A caption says what the cells behind it are: rule, average, point, size and seeds."""

from __future__ import annotations

from itertools import product

import pytest

from repfl.paper_tables.core.drawing import captions
from tests.bench.report.sample import SmallEvidence

SAID = {
    "rule": {
        "last": "last round",
        "max": "best round, chosen on the test",
        "best-val": "validation",
    },
    "average": {"clients": "unweighted mean over clients", "pooled": "pooled over all"},
    "point": {
        "pre_agg": "before aggregation",
        "post_agg": "after aggregation",
        "start": "start of a round",
    },
}
"""By field of an evaluation, what readers look for."""


@pytest.mark.parametrize(
    ("rule", "average", "point"), list(product(*(values for values in SAID.values())))
)
def test_a_caption_names_rule_average_and_point_of_its_cells(
    rule: str, average: str, point: str
) -> None:
    evidence = SmallEvidence()
    chosen = {"rule": rule, "average": average, "point": point}
    for name, value in chosen.items():
        evidence.cells[f"recipe.evaluation.{name}"] = value
    text = captions.caption(evidence, "A table.")
    for name, value in chosen.items():
        said = {key for key, words in SAID[name].items() if words in text}
        assert said == {value}, text


def test_a_caption_and_a_stamp_name_size_and_seeds_of_finished_cells() -> None:
    evidence = SmallEvidence()
    evidence.cells["recipe.clients"] = 23
    evidence.cells["recipe.training.rounds"] = 170
    evidence.cells.loc[evidence.cells["seed"] == 2, "status"] = "failed"
    for text in (captions.caption(evidence, "A table."), captions.stamp(evidence)):
        for words in ("Full scale", "23 clients", "170 rounds", "2 seeds (1, 3)"):
            assert words in text
    evidence.scale = "desk"
    assert captions.stamp(evidence).startswith("Reduced run")
