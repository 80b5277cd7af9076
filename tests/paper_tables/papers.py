"""The five papers with their invented evidence, by name."""

from __future__ import annotations

from importlib import import_module

from tests.paper_tables.planned import Paper

FOLDERS = ("fedobp", "fedpurin", "fedselect", "pfeddst", "star_pfl")
OWN: list[Paper] = [import_module(f"tests.paper_tables.{name}.evidence").PAPER for name in FOLDERS]
PAPERS = {paper.name: paper for paper in OWN}
