"""What a plan does once, however many cells it has: counted, since time depends on the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from repfl.bench.evidence import plan_status
from repfl.bench.grid import grid
from repfl.bench.store import store
from tests.bench.conftest import Here


def test_every_record_is_read_once_and_no_measured_line_beside_it(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def counted(module: Any, name: str) -> Mock:
        monkeypatch.setattr(module, name, calls := Mock(wraps=getattr(module, name)))
        return calls

    asked = ("--artefact", "star-pfl/fig1", "--results", tmp_path)
    assert here("run", *asked, "--executor", "inline").code == 0
    decoded, lines, grids = (
        counted(*each) for each in ((store, "decode"), (plan_status, "read"), (grid, "_read"))
    )
    assert here("plan", *asked).code == 0
    assert decoded.call_count == len(store.Store(tmp_path).ids()) == 1
    assert not lines.called
    assert {call.args[0].parent.name for call in grids.call_args_list} == {"star_pfl"}
