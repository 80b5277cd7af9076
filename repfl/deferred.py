"""Libraries that take seconds to import are imported when they are first used, not when a file of
ours names them: `repfl plan` needs no PyTorch, though every method file begins with `import torch`.

This is what Python 3.15's lazy imports do (PEP 810), for the files of this package alone. While
such a file is loaded, an `import` at its top level that names a slow library, or the engine, binds
a stand-in. The first use of the stand-in imports the library and puts the real thing in its place,
so that what computes pays nothing. A file that uses a library while it is loaded, in a decorator or
as a base class, simply gets it then.

A stand-in that is handed on as a value stays what it is, unlike in Python 3.15. So all those of
`repfl.algorithms` are replaced once the engine is there to compute, and none is made after that.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType, SimpleNamespace
from typing import Any

SLOW = frozenset(
    {"matplotlib", "numpy", "pandas", "pyarrow", "scipy", "seaborn", "sklearn", "torch"}
)
METHODS, ENGINE = "repfl.algorithms.", "repfl.algorithms.core."
COMPUTING = f"{ENGINE}federation"
"""Without it no method computes."""


class Deferred:
    """What an import would have bound, until it is used."""

    __slots__ = ("_ahead", "_globals", "_member", "_module")

    def __init__(
        self, globals_: dict[str, Any], module: str, member: str = "", ahead: Sequence[str] = ()
    ) -> None:
        self._globals, self._module, self._member, self._ahead = globals_, module, member, ahead

    def _real(self) -> Any:
        """Import it, and bind it wherever the file has bound this."""
        import_module(".".join((self._module, *self._ahead)))
        found: Any = sys.modules[self._module]
        if self._member:
            found = getattr(__import__(self._module, fromlist=(self._member,)), self._member)
        if type(found) is Deferred:  # the other file has not used it yet either
            found = found._real()
        for name in [name for name, value in self._globals.items() if value is self]:
            self._globals[name] = found
        return found

    def _loading(self) -> bool:
        spec = getattr(sys.modules.get(self._module), "__spec__", None)
        return self._module != COMPUTING and bool(getattr(spec, "_initializing", False))

    def __getattr__(self, name: str) -> Any:
        if name in self._ahead[:1]:  # `import a.b as c` asks the package for b
            return Deferred(self._globals, f"{self._module}.{name}", ahead=self._ahead[1:])
        return getattr(self._real(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._real()(*args, **kwargs)

    def __getitem__(self, item: Any) -> Any:
        return self._real()[item]

    def __eq__(self, other: object) -> bool:
        return bool(self._real() == other)

    def __hash__(self) -> int:
        return hash(self._real())

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._real())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._real(),)

    def __or__(self, other: Any) -> Any:
        return self._real() | other

    def __ror__(self, other: Any) -> Any:
        return other | self._real()


def _import(
    name: str,
    globals: dict[str, Any] | None = None,  # noqa: A002  the names of the built-in function
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> Any:
    """`__import__` as the files of this package see it."""
    if (
        globals is None
        or locals is not globals
        or not _deferrable(name, fromlist or (), globals["__name__"])
    ):
        return __import__(name, globals, locals, fromlist, level)
    if not fromlist:
        library, *ahead = name.split(".")
        return Deferred(globals, library, ahead=ahead)
    return SimpleNamespace(**{member: Deferred(globals, name, member) for member in fromlist})


def _deferrable(name: str, fromlist: Sequence[str], importer: str) -> bool:
    if not (name.partition(".")[0] in SLOW or f"{name}.".startswith(ENGINE)):
        return False
    if importer.startswith(METHODS) and COMPUTING in sys.modules:
        return False
    # a library may be there without the part that is asked of it, which is another file
    return name not in sys.modules or not vars(sys.modules[name]).keys() >= set(fromlist)


def _settle() -> None:
    """Replace the stand-ins of the methods and the engine, but for those of files that are being
    loaded just now.
    """
    for name, module in list(sys.modules.items()):
        for value in list(vars(module).values()) if name.startswith(METHODS) else ():
            if type(value) is Deferred and not value._loading():
                value._real()


BUILTINS = {**vars(builtins), "__import__": _import}


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = BUILTINS
        super().exec_module(module)
        if module.__name__ == COMPUTING:
            _settle()


class _Finder:
    """Finds the files of this package as they are found anyway, and has them loaded so."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target) if name.startswith("repfl.") else None
        if found is not None and type(found.loader) is SourceFileLoader:
            found.loader = _Loader(found.loader.name, found.loader.path)
        return found


def install() -> None:
    """From here on."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
