"""What comes from outside this clone: methods, datasets, models and partition rules in Python
files, papers in folders, and both in installed packages with entry points of the group `repfl`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import file_digest, sha256
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from repfl.bench.errors import UserError, no_name, one_line
from repfl.bench.grid import grid
from repfl.bench.grid.schema import NAME
from repfl.datasets.core.paths import real_path

GROUPS = ("repfl", "repfl.methods")
"""Entry points name a module that registers things, or a package that is a paper's folder. The
second is the older name of the first.
"""
_loaded: set[str] = set()
_origins: dict[tuple[str, str], Path] = {}
_digests: dict[tuple[str, str], str] = {}


def load(paths: Sequence[str] = ()) -> None:
    """Make known what the given files and folders and all installed packages bring, each once per
    process.
    """
    for point in (point for group in GROUPS for point in entry_points(group=group)):
        if point.value not in _loaded:
            _load_point(point)
            _loaded.add(point.value)
    for text in paths:
        path = real_path(text)
        if str(path) not in _loaded:
            (_load_paper if path.is_dir() else _load_file)(path, f"--plugin {path}")
            _loaded.add(str(path))


def origin(kind: str, name: str) -> Path | None:
    """The file that brought a method, dataset, model or partition; none: it is the suite's own."""
    return _origins.get((kind, name))


def digest(kind: str, name: str) -> str:
    """Return a hash of the files that brought something, as they were when it was loaded; empty
    if it is the suite's own.
    """
    if kind == "method" and (kind, name) not in _digests:
        _digests[kind, name] = _imported(name)
    return _digests.get((kind, name), "")


def _imported(method: str) -> str:
    """Hash the files of a method that a user's script imported without naming a plug-in."""
    from repfl.algorithms.core.method import methods

    module = methods()[method].cls.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    if module.startswith("repfl.algorithms.") or file is None:
        return ""
    return _file_digest(Path(file), methods()[method].files, f"method {method}")


def files(plugins: Sequence[str]) -> list[str]:
    """The plugins that cells need where they run; a paper is needed where reports are made."""
    return [path for path in plugins if not real_path(path).is_dir()]


def _load_point(point: EntryPoint) -> None:
    what = f"entry point {point.name} = {point.value} of group {point.group}"
    with _guest(what) as seen:
        found = point.load()
        module = found if isinstance(found, ModuleType) else sys.modules[point.module]
        seen.append(Path(str(module.__file__)))
    folder = Path(str(module.__file__)).parent
    if hasattr(module, "__path__") and (folder / "grid.toml").is_file():
        _load_paper(folder, what)


def _load_file(path: Path, what: str) -> None:
    """Import one file under a name of its own."""
    if not path.is_file():
        raise UserError(f"{what}: there is no such file")
    name = f"repfl_plugin_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    module_spec = spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise UserError(f"{what}: is not a Python file, nor a folder with a grid.toml")
    module = module_from_spec(module_spec)
    with _guest(what, path) as seen:
        seen.append(path)
        sys.modules[name] = module
        try:
            module_spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise


# -- papers ----------------------------------------------------------------------------------------


def _load_paper(folder: Path, what: str) -> None:
    """A folder like those of paper_tables: its grid is found by its name, and its modules are
    imported as they would be if it lay there.
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
    grid.OUTSIDE[name] = folder / "grid.toml"
    if (folder / "artefacts.py").is_file():
        try:
            with _guest(what, folder):
                import_module(f"{package}.artefacts")
        except BaseException:
            forget_paper(name)
            raise


def forget_paper(name: str) -> None:
    """Undo the loading of a paper."""
    path = grid.OUTSIDE.pop(name, None)
    package = f"repfl.paper_tables.{name.replace('-', '_')}"
    for module in [key for key in sys.modules if key == package or key.startswith(f"{package}.")]:
        del sys.modules[module]
    if path is not None:
        _loaded.discard(str(path.parent))


# -- guests ----------------------------------------------------------------------------------------


def registries() -> dict[str, MutableMapping[str, Any]]:
    """What plugins may add to; with everything of ours in it, so that a name which is taken is
    refused where somebody else takes it.
    """
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
def _guest(what: str, path: Path | None = None) -> Iterator[list[Path]]:
    """Code of others is imported here: whatever it raises is the user's input being wrong, and the
    process is to stay as it was. Yields a list for the file that all new names come from.
    """
    known = registries()
    had = {kind: dict(names) for kind, names in known.items()}
    before, seen = settings(), list[Path]()
    try:
        try:
            with randomness_kept():
                yield seen
        except (Exception, SystemExit) as error:
            raise UserError(
                f"{what}{_line(error, path)}: {type(error).__name__}: {one_line(error)}"
            ) from None
        if change := moved(before):
            raise UserError(
                f"{what}: changes {change}, and with it the results of other methods; pass it to"
                " what the method calls"
            )
        added = [(kind, name) for kind, names in known.items() for name in names.keys() - had[kind]]
        for kind, name in added:
            if not NAME.fullmatch(name):
                raise no_name(kind, name, what, f"my-{kind}")
        digests = {
            (kind, name): _file_digest(
                seen[0], known[kind][name].files if kind == "method" else (), what
            )
            for kind, name in added
            if seen
        }
    except UserError:
        for kind, names in known.items():
            names.clear()
            names.update(had[kind])
        raise
    _origins.update(dict.fromkeys(digests, *seen))
    _digests.update(digests)


def _file_digest(file: Path, declared: Sequence[str], what: str) -> str:
    """Hash the bytes of a plug-in's file and of the files that it declares beside it."""
    for each in declared:
        if not (file.parent / each).is_file():
            raise UserError(f"{what}: declares files = {each!r}, which is not in {file.parent}")
    found = sha256()
    for each in (file.name, *declared):
        with (file.parent / each).open("rb") as data:
            found.update(file_digest(data, "sha256").digest())
    return found.hexdigest()


def _line(error: BaseException, path: Path | None) -> str:
    """The line of the user's file, or of a file in the user's folder, that an error came from."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    trace, found = error.__traceback__, ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if path is not None and file == path:
            found = f":{trace.tb_lineno}"
        elif path is not None and file.parent == path:
            found = f"/{file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


# -- settings of a whole process, which would change the numbers of every method in it -------------

SWITCH = re.compile(
    r"_get_(\w+_(?:enabled|benchmark|deterministic|reduction|accumulation|allow_tf32|backend|algorithms\w*|memory))"
)
"""PyTorch's own getters of what `torch.backends` and the functions about determinism set; a newer
PyTorch has more of them.
"""
BACKENDS = ("generic", "cuda", "mkldnn")
OPERATIONS = ("all", "conv", "matmul", "rnn")


def settings() -> dict[str, Any]:
    """Every such setting by name, as values that can be compared."""
    import pickle
    import random

    import numpy as np
    import torch
    from threadpoolctl import threadpool_info

    precision = vars(torch._C).get("_get_fp32_precision_getter")
    tiny = torch.tensor(5e-324, dtype=torch.float64, device="cpu")
    return {
        "the default dtype": torch.get_default_dtype(),
        "the default device": torch.get_default_device(),
        "the precision of float32 matrix products": _read(torch.get_float32_matmul_precision),
        "the grad mode": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_anomaly_enabled(),
        ),
        "autocast": [
            (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda")
        ],
        "the number of threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "the flushing of denormal numbers": float(tiny * 1) == 0,
        "PyTorch's random state": _digest(torch.get_rng_state().numpy().tobytes()),
        "NumPy's random state": _digest(pickle.dumps(np.random.get_state())),  # noqa: NPY002  to see that nobody draws from it
        "Python's random state": _digest(pickle.dumps(random.getstate())),
        **{f"PyTorch's {name}": _read(getter) for name, getter in _switches().items()},
        **{
            f"the precision of {op} in {at}": _read(precision, at, op)
            for at in BACKENDS
            for op in OPERATIONS
        },
        **{
            f"the threads of {library['filepath']}": library["num_threads"]
            for library in threadpool_info()
        },
    }


@lru_cache(maxsize=1)
def _switches() -> dict[str, Any]:
    import torch

    return {
        match[1]: getattr(torch._C, name)
        for name in dir(torch._C)
        if (match := SWITCH.fullmatch(name))
    }


def _read(getter: Any, *arguments: str) -> str | None:
    """What a getter says; none where it does not answer, as PyTorch's older ones once a newer one
    was used.
    """
    try:
        return str(getter(*arguments))
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None


def _digest(state: bytes) -> str:
    return sha256(state).hexdigest()[:12]


def moved(before: Mapping[str, Any]) -> str:
    """The first setting that is no longer what it was, with both values; empty: none has moved."""
    for name, now in settings().items():
        if name in before and None not in (now, before[name]) and now != before[name]:
            return f"{name} from {before[name]} to {now}"
    return ""


@contextmanager
def randomness_kept() -> Iterator[None]:
    """Whatever is drawn in here is as if it had not been: for imports and the reading of data,
    since some libraries draw random numbers while they are imported.
    """
    import random

    import numpy as np
    import torch

    python, numpy, own = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002  to put it back
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(own)
