"""The five papers with their invented evidence, by name."""

from __future__ import annotations

from tests.paper_tables.fedobp import evidence as fedobp
from tests.paper_tables.fedpurin import evidence as fedpurin
from tests.paper_tables.fedselect import evidence as fedselect
from tests.paper_tables.pfeddst import evidence as pfeddst
from tests.paper_tables.star_pfl import evidence as star_pfl

PAPERS = {e.PAPER.name: e.PAPER for e in (fedobp, fedpurin, fedselect, pfeddst, star_pfl)}
