"""Plug-ins: methods, data sets, models and partition rules in Python files, papers in folders, and
both in installed packages with entry points of the group `repfl`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from repfl.bench.errors import UserError, no_name, with_class
from repfl.bench.grid import grid
from repfl.bench.grid.schema import NAME
from repfl.bench.grid.source_digest import code_digest, file_digest
from repfl.bench.grid.torch_state import changed_setting, preserve_random_state, settings
from repfl.datasets.core.user_paths import real_path

GROUP = "repfl"
"""Entry points name a module that registers things, or a package that is a paper's folder."""
_loaded: dict[str, str] = {}
"""What is loaded, with the hash that a file had then."""
_origins: dict[tuple[str, str], Path] = {}
_digests: dict[tuple[str, str], str] = {}
"""Hashes of the code of what plug-ins registered."""


def load(paths: Sequence[str] = ()) -> None:
    """Load these files and folders and all installed packages, each once per process; a file of
    methods that has changed is loaded again.
    """
    for point in entry_points(group=GROUP):
        if point.value not in _loaded:
            _load_point(point)
            _loaded[point.value] = ""
    for text in paths:
        path = real_path(text)
        if str(path) not in _loaded:
            (_load_paper if path.is_dir() else _load_file)(path, f"plugin {path}")
            _loaded[str(path)] = "" if path.is_dir() else file_digest(path)
        elif path.is_file() and file_digest(path) != _loaded[str(path)]:
            _reload(path)
            _loaded[str(path)] = file_digest(path)


def origin(kind: str, name: str) -> Path | None:
    """Return the file that registered a method, data set, model or partition; None if built in."""
    return _origins.get((kind, name))


def digest(kind: str, name: str) -> str:
    """Return the hash of a plug-in's code when it was loaded; empty for what is built in."""
    if kind == "method" and (kind, name) not in _digests:
        from repfl.algorithms.core.method import methods

        # a user's script may import a method without naming a plug-in
        module = methods()[name].cls.__module__
        file = getattr(sys.modules.get(module), "__file__", None)
        ours = module.startswith("repfl.algorithms.") or file is None
        _digests[kind, name] = "" if ours else code_digest(Path(str(file)))
    return _digests.get((kind, name), "")


def files(plugins: Sequence[str]) -> list[str]:
    """Return the plug-ins that cells need; papers are needed only for reports."""
    return [path for path in plugins if not real_path(path).is_dir()]


def _load_point(point: EntryPoint) -> None:
    what = f"entry point {point.name} = {point.value} of group {point.group}"
    with _importing(what) as files:
        target = point.load()
        module = target if isinstance(target, ModuleType) else sys.modules[point.module]
        files.append(Path(str(module.__file__)))
    folder = Path(str(module.__file__)).parent
    if hasattr(module, "__path__") and (folder / "grid.toml").is_file():
        _load_paper(folder, what)


RELOADED = ("method", "metric")
"""Kinds of which nothing is cached in a process. Clients of data, models and rules are."""


def _reload(path: Path) -> None:
    """Load a file again that has changed; what it registered before stays if it cannot be."""
    what, kinds = f"plugin {path}", registries()
    old = [key for key, file in _origins.items() if file == path and key[1] in kinds[key[0]]]
    for kind, name in old:
        if kind not in RELOADED:
            raise UserError(
                f"{what}: has changed since it was loaded, and it has the {kind} {name!r}, whose"
                " clients are cached; restart Python, or keep methods in a file of their own"
            )
    values = {key: kinds[key[0]].pop(key[1]) for key in old}
    try:
        _load_file(path, what)
    except UserError:
        for (kind, name), value in values.items():
            kinds[kind][name] = value
        raise
    for key in [key for key in old if key[1] not in kinds[key[0]]]:
        del _origins[key], _digests[key]


def _load_file(path: Path, what: str) -> None:
    """Import one file under a unique module name."""
    if not path.is_file():
        raise UserError(f"{what}: there is no such file")
    name = f"repfl_plugin_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    module_spec = spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise UserError(f"{what}: is not a Python file, nor a folder with a grid.toml")
    module = module_from_spec(module_spec)
    with _importing(what, path) as files:
        files.append(path)
        sys.modules[name] = module
        try:
            with _neighbours(path.parent):
                module_spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise


@contextmanager
def _neighbours(folder: Path) -> Iterator[None]:
    """Context manager: modules beside a plug-in can be imported. They are forgotten afterwards, so
    that another folder may have modules of the same names.
    """
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in sys.modules.keys() - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).parent == folder and not name.startswith("repfl"):
                del sys.modules[name]


# -- papers ----------------------------------------------------------------------------------------


def _load_paper(folder: Path, what: str) -> None:
    """Load a folder like those of paper_tables: its grid becomes a paper of this name, and its
    modules a package below paper_tables.
    """
    if not (folder / "grid.toml").is_file():
        raise UserError(f"{what}: is a folder without a grid.toml, hence no paper")
    name = folder.name.replace("_", "-")
    if not NAME.fullmatch(name):
        raise no_name("paper", name, what, "my-paper")
    package = f"repfl.paper_tables.{folder.name.replace('-', '_')}"
    if name in grid.files() or package in sys.modules:
        raise UserError(f"{what}: paper {name!r} is taken; give the folder another name")
    module = ModuleType(package)
    module.__path__ = [str(folder)]
    sys.modules[package] = module
    grid.PLUGIN_PAPERS[name] = folder / "grid.toml"
    if (folder / "artefacts.py").is_file():
        try:
            with _importing(what, folder):
                import_module(f"{package}.artefacts")
        except BaseException:
            forget_paper(name)
            raise


def forget_paper(name: str) -> None:
    """Undo the loading of a paper."""
    path = grid.PLUGIN_PAPERS.pop(name, None)
    package = f"repfl.paper_tables.{name.replace('-', '_')}"
    for module in [key for key in sys.modules if key == package or key.startswith(f"{package}.")]:
        del sys.modules[module]
    if path is not None:
        _loaded.pop(str(path.parent), None)


# -- importing code of others ----------------------------------------------------------------------


def registries() -> dict[str, MutableMapping[str, Any]]:
    """Return the registries that plug-ins extend, with all built-in names in them."""
    from repfl.algorithms import models
    from repfl.algorithms.core import method
    from repfl.algorithms.engine import metrics
    from repfl.datasets.core import partition, registry

    for complete in (method.methods, partition.partitioners, registry.names):
        complete()
    return {
        "method": method._REGISTRY,
        "dataset": registry._REGISTRY,
        "model": models.MODELS,
        "partition": partition._PARTITIONERS,
        "metric": metrics.METRICS,
    }


@contextmanager
def isolated() -> Iterator[None]:
    """Context manager: whatever is registered or loaded meanwhile is unknown again afterwards."""
    tables: tuple[MutableMapping[Any, Any], ...]
    tables = (*registries().values(), _loaded, _origins, _digests)
    before, papers = [dict(table) for table in tables], set(grid.PLUGIN_PAPERS)
    try:
        yield
    finally:
        for paper in grid.PLUGIN_PAPERS.keys() - papers:
            forget_paper(paper)
        for table, entries in zip(tables, before, strict=True):
            table.clear()
            table.update(entries)


@contextmanager
def _importing(what: str, path: Path | None = None) -> Iterator[list[Path]]:
    """Context manager for importing plug-in code: errors become UserErrors, and registries,
    settings and random states are restored.

    Yields a list for the file that all new names come from.
    """
    kinds = registries()
    had = {kind: dict(names) for kind, names in kinds.items()}
    settings_before, files = settings(), list[Path]()
    try:
        try:
            with preserve_random_state():
                yield files
        except (Exception, SystemExit) as error:
            raise UserError(f"{what}{line_of(error, path)}: {with_class(error)}") from None
        if changed := changed_setting(settings_before):
            raise UserError(
                f"{what}: changes {changed}, and with it the results of other methods; pass it to"
                " what the method calls"
            )
        added = [(kind, name) for kind, names in kinds.items() for name in names.keys() - had[kind]]
        for kind, name in added:
            if not NAME.fullmatch(name):
                raise no_name(kind, name, what, f"my-{kind}")
    except UserError:
        for kind, names in kinds.items():
            names.clear()
            names.update(had[kind])
        raise
    for file in files:
        _origins.update(dict.fromkeys(added, file))
        _digests.update(dict.fromkeys(added, code_digest(file)))


def line_in(error: BaseException) -> str:
    """Return the last line of a plug-in's file that led to an error, as the end of a message."""
    lines = ((file, line_of(error, file)) for file in dict.fromkeys(_origins.values()))
    return "".join([f" ({file.name}{line})" for file, line in lines if line][-1:])


def line_of(error: BaseException, path: Path | None) -> str:
    """Return the line of the user's file, or of a file in the user's folder, that raised."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    trace, location = error.__traceback__, ""
    while trace is not None and path is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file == path:
            location = f":{trace.tb_lineno}"
        elif file.parent == path:
            location = f"/{file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return location
