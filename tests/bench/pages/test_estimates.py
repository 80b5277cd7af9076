"""The page says of estimates what the fit found."""

from __future__ import annotations

from repfl.bench.pages import estimates, parts
from repfl.bench.running import pace


def test_the_page_says_what_the_fit_found() -> None:
    assert parts.read(estimates.PAGE, "estimates") == estimates.block()
    assert estimates.block().count("\n") == 2 + len(pace.stored()["unseen"])


def test_four_of_five_cells_take_what_was_estimated_once_a_machine_is_known() -> None:
    """The bar that estimates are held to, on every machine of which enough is known."""
    assert all(row["then within"] >= 0.8 for row in pace.stored()["unseen"])
