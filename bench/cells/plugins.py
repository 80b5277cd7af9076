"""Methods from outside this clone: single files, and installed packages with the entry point group `repfl.methods`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from bench.errors import UserError, one_line

GROUP = "repfl.methods"
_loaded: set[str] = set()


def load(paths: Sequence[str] = ()) -> None:
    """Register the methods of the given files and of all installed packages, each once per process."""
    for point in entry_points(group=GROUP):
        if point.value not in _loaded:
            _loaded.add(point.value)
            try:
                point.load()
            except Exception as error:  # a broken package must be named, whatever is wrong with it
                raise UserError(f"entry point {point.name} = {point.value} of group {GROUP}: {one_line(error)}") from None
    for text in paths:
        _load_file(Path(text).expanduser().resolve())


def _load_file(path: Path) -> None:
    """Import one file under a name of its own."""
    if str(path) in _loaded:
        return
    if not path.is_file():
        raise UserError(f"--plugin {path}: there is no such file")
    name = f"repfl_plugin_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    module_spec = spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise UserError(f"--plugin {path}: is not a Python file")
    module = module_from_spec(module_spec)
    sys.modules[name] = module
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:  # the file is a user's: whatever it raises is their input being wrong
        del sys.modules[name]
        raise UserError(f"--plugin {path}{_line(error, path)}: {type(error).__name__}: {one_line(error)}") from None
    _loaded.add(str(path))


def _line(error: Exception, path: Path) -> str:
    """The line of the user's file that an error came from."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    trace, found = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            found = f":{trace.tb_lineno}"
        trace = trace.tb_next
    return found
