"""Methods from outside this clone: single files, and installed packages with the entry point group
`repfl.methods`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from repfl.bench.errors import UserError, one_line
from repfl.datasets.core.paths import real_path

GROUP = "repfl.methods"
_loaded: set[str] = set()


def load(paths: Sequence[str] = ()) -> None:
    """Register the methods of the given files and of all installed packages, each once per
    process.
    """
    for point in entry_points(group=GROUP):
        if point.value not in _loaded:
            with _guest(f"entry point {point.name} = {point.value} of group {GROUP}"):
                point.load()
            _loaded.add(point.value)
    for text in paths:
        path = real_path(text)
        if str(path) not in _loaded:
            _load_file(path)
            _loaded.add(str(path))


def _load_file(path: Path) -> None:
    """Import one file under a name of its own."""
    if not path.is_file():
        raise UserError(f"--plugin {path}: there is no such file")
    name = f"repfl_plugin_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    module_spec = spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise UserError(f"--plugin {path}: is not a Python file")
    module = module_from_spec(module_spec)
    with _guest(f"--plugin {path}", path):
        sys.modules[name] = module
        try:
            module_spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise


@contextmanager
def _guest(what: str, path: Path | None = None) -> Iterator[None]:
    """Code of others is imported here: whatever it raises is the user's input being wrong, and the
    process is to stay as it was.
    """
    from repfl.algorithms.core.method import methods
    from repfl.bench.cells.surroundings import moved, settings

    # ours come first, so that a name which is taken is refused where somebody else takes it
    methods()
    before = settings()
    try:
        yield
    except (Exception, SystemExit) as error:
        raise UserError(
            f"{what}{_line(error, path)}: {type(error).__name__}: {one_line(error)}"
        ) from None
    if change := moved(before):
        raise UserError(
            f"{what}: changes {change}, and with it the results of other methods; pass it to what"
            " the method calls"
        )


def _line(error: BaseException, path: Path | None) -> str:
    """The line of the user's file that an error came from."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    trace, found = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            found = f":{trace.tb_lineno}"
        trace = trace.tb_next
    return found
