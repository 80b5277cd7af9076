"""The reference file: entries of the gate's cells, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repfl.bench.errors import UserError, one_line
from repfl.bench.store.store import write_synced, writing

FILE = Path(__file__).parents[1] / "reference.json"
SCHEMA = 3


def read_reference(path: Path | None) -> dict[str, Any]:
    """The reference file."""
    path = path or FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["schema"] != SCHEMA:
            raise ValueError(f"schema {values['schema']}, expected {SCHEMA}")
        if not isinstance(values["cells"], dict) or not isinstance(values["history"], list):
            raise ValueError("cells and history are of the wrong kind")
    except FileNotFoundError:
        raise UserError(
            f"reference {path}: there is none; make it with `repfl check --accept --reason TEXT`"
        ) from None
    except OSError as error:
        raise UserError(f"reference {path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"reference {path}: is not a reference file: {one_line(error)}") from None
    return dict(values)


def write_reference(path: Path, cells: Mapping[str, Any], history: list[Mapping[str, Any]]) -> None:
    """Whole or not at all; one line per cell, so that a change shows which cells it moved."""
    lines = [f"{json.dumps(key)}:{_compact(cells[key])}" for key in sorted(cells)]
    body = ",\n".join(lines)
    told = json.dumps(history, indent=1, sort_keys=True)
    text = f'{{"schema":{SCHEMA},\n"history":{told},\n"cells":{{\n{body}\n}}}}\n'
    with writing(path.parent, "folder", ""):
        partial = path.with_suffix(".partial")
        write_synced(partial, text.encode())
        partial.replace(path)


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
