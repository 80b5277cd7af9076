"""Who holds what: pictures and sentences, and that they are of the clients of the runs."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from repfl.bench.evidence.committed import committed_runs
from repfl.bench.grid.grid import files, read
from repfl.bench.report.site import facts, holdings
from repfl.datasets.core.partition import published_pool
from repfl.datasets.core.recipe import Newcomers, Recipe
from repfl.datasets.core.registry import get
from tests.datasets.tiny import recipe

FEDOBP: dict[str, Any] = {"alpha": 0.1, "test_share": 0.25, "minimum": 10}


def held_of(one: Recipe, seed: int = 0) -> holdings.Holdings:
    held = holdings.holdings(one, seed)
    assert held is not None
    return held


def test_committed_runs_have_the_clients_that_published_class_counts_give() -> None:
    """By the SHA-256 of all indices, which every run keeps."""
    digests: dict[str, set[str | None]] = {}
    recipes: dict[str, tuple[Recipe, int]] = {}
    for line in (each for paper in files() for each in committed_runs.read(paper, "paper").lines):
        record = line.record
        if record.status != "done" or record.provenance is None:
            continue
        one, seed = record.recipe, int(record.cell["seed"])
        key = repr((one.dataset, one.clients, one.partition, one.partition.seed_in(seed)))
        recipes[key] = one, seed
        digests.setdefault(key, set()).add(record.provenance.partition)
    computed = {key: holdings.holdings(*each) for key, each in recipes.items()}
    exact = {key: held for key, held in computed.items() if held and held.exact}
    assert {recipes[key][0].dataset for key in exact} >= {"mnist", "cifar10", "cifar100"}
    assert {key: digests[key] for key in exact} == {k: {held.digest} for k, held in exact.items()}


def test_a_data_set_s_published_classes_are_a_pool_unless_a_sample_has_more_than_a_class() -> None:
    pool = published_pool(get("mnist"))
    assert pool is not None
    assert {name: len(span) for name, span in pool.splits.items()} == get("mnist").splits
    counts = get("mnist").counts
    assert counts is not None
    assert np.bincount(pool.labels[60_000:]).tolist() == list(counts["test"])
    totals = published_pool(get("organsmnist"))
    assert totals is not None
    assert list(totals.splits) == ["all"]
    # persons; nothing published
    assert published_pool(get("har")) is None
    assert published_pool(get("svhn")) is not None
    assert published_pool(get("emnist_byclass")) is None


def test_sentences_say_classes_sizes_overlap_and_skew() -> None:
    one = recipe("class-dirichlet", 100, "cifar10", 42, **FEDOBP)
    text = holdings.sentences(one, held_of(one), 7)
    assert text.replace("\xa0", " ") == (
        "A client trains on 1 to 9 (median 5) of 10 classes and holds 14 to 3,091 (median 495.5)"
        " samples: 11 to 2,319 for training, 3 to 772 for testing. All 60,000 samples are used,"
        " each by one client. Majority class: 67.8 %."
    )
    other = recipe("client-dirichlet", 20, "cifar10", alpha=0.1)
    object.__setattr__(other, "newcomers", Newcomers(share=0.1, samples=30, epochs=1))
    text = holdings.sentences(other, held_of(other, 1), 1)
    assert "holds 600 samples: 500 for training, 100 for testing" in text
    assert re.search(r"Of all 60,000 samples 1\d,\d{3} are used, \d{3} of them by several", text)
    assert "2 of the clients join after training. Drawn with seed 1;" in text
    pair = recipe("pairwise-dirichlet", 20, "organsmnist", 5, alpha=0.1)
    assert "another draw of the same rule" in holdings.sentences(pair, held_of(pair), 5)


def test_what_needs_more_than_class_counts_has_no_picture() -> None:
    for name, rule in (("har", "persons"), ("emnist_byclass", "iid"), ("organsmnist", "n-cls")):
        assert holdings.holdings(recipe(rule, 30, name), 1) is None


def areas(svg: str) -> tuple[list[float], float]:
    """Heights of the bars of all samples, by client, and the area of the shaded rectangles."""
    root = ElementTree.fromstring(svg)
    paths = [node.get("d", "") for node in root.iter("path") if node.get("opacity")]
    tops = [float(top) for top in re.findall(r"V([\d.]+)h1", paths[0])]
    base = float(re.findall(r"^M0 ([\d.]+)", paths[0])[0])
    widths = [int(width) for path in paths for width in re.findall(r"h(\d+)v1h-\1z", path)]
    return [base - top for top in tops], sum(widths)


def test_a_picture_has_a_bar_per_client_and_a_rectangle_per_class_that_it_holds() -> None:
    one = recipe("class-dirichlet", 30, "digits", 4, **FEDOBP)
    held = held_of(one)
    heights, area = areas(holdings.picture(held))
    order = np.lexsort(holdings._by_class(held.counts))
    totals = held.sizes.sum(axis=1)[order]
    assert heights == pytest.approx(totals * holdings.BARS / totals.max(), abs=0.05)
    assert area == (held.counts > 0).sum()
    largest = held.counts.argmax(axis=1)[order]
    assert (np.diff(largest) >= 0).all()


def test_of_many_classes_a_picture_shows_how_many_a_client_has() -> None:
    one = recipe("n-cls", 10, "cifar100", 1, classes=5)
    svg = holdings.picture(held_of(one))
    assert "10 clients, by number of classes" in svg
    assert ">100</text>" in svg
    tops = re.findall(r'opacity="0.4" d="M0 88((?:V[\d.]+h1)+)V88z"', svg)[0]
    assert set(re.findall(r"V([\d.]+)", tops)) == {f"{88 * 0.95:.4g}"}


def test_dirichlet_rules_are_told_apart_if_there_are_several() -> None:
    used = [("A", "class-dirichlet"), ("B", "client-dirichlet"), ("C", "client-dirichlet")]
    told = holdings.dirichlet([*used, ("D", "shards"), ("B", "client-dirichlet")])
    assert list(told) == ["A", "B and C"]
    assert told["A"].startswith("cut every class")
    assert told["B and C"].startswith("every client")
    assert holdings.dirichlet([*used[1:], ("D", "shards")]) == {}


def test_every_recipe_of_the_papers_scale_has_a_line_and_most_a_picture() -> None:
    from repfl.bench.grid.planned import cells_of

    grid = read(files()["fedselect"])
    cells = [
        item
        for name, artefact in grid.file.artefacts.items()
        for item in cells_of(grid, name, artefact, "paper")
    ]
    lines = facts.splits(cells)
    assert {name for name, each in lines.items() if each[0]["held"]} == {"cifar10", "mini_imagenet"}
    assert set(lines) == {"cifar10", "mini_imagenet", "cifar10c", "office_home"}
    by_recipe = {line["recipe"]: line for line in lines["cifar10"]}
    assert by_recipe["cifar10-n20"]["like"] == by_recipe["cifar10"]["label"]
    assert by_recipe["cifar10"]["like"] == by_recipe["cifar10-drawn"]["like"] == ""
    assert "severity" not in by_recipe["cifar10"]["options"]
    assert "severity = 5" in lines["cifar10c"][0]["options"]
