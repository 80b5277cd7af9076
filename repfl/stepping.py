"""Open a run and step through it by hand: in a notebook, or under a debugger. Nothing is stored."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from math import nan
from typing import TYPE_CHECKING, Any

from repfl.algorithms.core.run import Run
from repfl.bench.errors import UserError
from repfl.bench.store.summary import reported
from repfl.catalog import Plugins, load_plugins

if TYPE_CHECKING:
    from repfl.algorithms.core.method import Method
    from repfl.api import AnyRecipe


class OpenRun(Run):
    """A run that is stepped by hand."""

    @property
    def accuracy(self) -> float:
        """What the recipe reports of the rounds so far, as a share of 1; NaN before a score. After
        the last round it is that of `repfl.run`.
        """
        value = reported(self.rows, self.recipe.evaluation)
        return nan if value is None else value


def open(  # noqa: A001
    method: str | type[Method[Any]],
    recipe: AnyRecipe,
    seed: int = 0,
    *,
    hp: Mapping[str, Any] | None = None,
    scale: str = "smoke",
    plugins: Plugins = (),
    device: str = "cpu",
    stack: int = 1,
    precision: str = "default",
) -> OpenRun:
    """Return a run before its first round, in this process: `run.step()` is one round, `run.state`
    the method's state, `run.fed` its federation, `run.done` whether all rounds are over,
    `run.rows` what was recorded: (round, name, value), and `run.accuracy` what the recipe reports
    of it.

    `method` is a name as in `repfl.run`, or a class, which may be defined in a notebook's cell. A
    file of `plugins` that has changed is loaded again. The bits are those of `repfl.run` with the
    same `device`, `stack` and `precision`; a `stack` of 1 trains one client after the other, so
    that a debugger sees one, and 0 as many at once as `repfl.run` does.
    """
    from repfl.api import resolved_recipe
    from repfl.bench.grid.cell import build_cell
    from repfl.bench.run import cost, machine
    from repfl.bench.run.clients import clients_of, make
    from repfl.bench.run.task import Options

    load_plugins(plugins)
    place = machine.same_kind(machine.resolve(device))
    resolved = resolved_recipe(recipe, scale)
    stack = stack or cost.stack_for(resolved)
    options = Options(device=place, stack=stack, precision=precision)
    if isinstance(method, str):
        from repfl.bench.grid.methods import parse_spec

        name, values = parse_spec(method)
        cell = build_cell(name, {**values, **(hp or {})}, resolved, seed)
        run = make(cell, clients_of(cell), options, OpenRun)
    else:
        # clients depend on recipe and seed alone
        cell = build_cell("local", {}, resolved, seed)
        run = make(cell, clients_of(cell), options, OpenRun)
        run.method = _instance(method, hp or {})
    assert isinstance(run, OpenRun)
    run.start()
    return run


def _instance(cls: type[Method[Any]], hp: Mapping[str, Any]) -> Method[Any]:
    """Return a method of a class that need not be registered."""
    from repfl.algorithms.core.method import Method
    from repfl.bench.grid.recipes import validated

    if not (isinstance(cls, type) and issubclass(cls, Method)) or inspect.isabstract(cls):
        raise UserError(
            f"method {cls!r} is not valid; valid: a method's name, or a class Mine(Method[HP]) with"
            " init, round and client_params"
        )
    return cls(validated(cls.HP, dict(hp), f"class {cls.__name__}, hyper-parameters"))
