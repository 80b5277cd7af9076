"""Every method keeps the contract: with and without BN, with everybody and with half of the
clients.
"""

from __future__ import annotations

import pytest

from repfl.algorithms.core.method import methods
from repfl.bench.check.contract import CONTRACT, Situation, situations

CASES = [case for name in sorted(methods()) for case in situations(name)]


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda p: p.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.method}-{c.model}-{c.participation:g}")
def test_method_keeps(promise: object, case: Situation) -> None:
    assert promise(case) is None  # type: ignore[operator]
