"""Mistakes of the kinds that people make, to be planted into a copy of this clone, one at a time.

Those of `mistakes.toml` are written by hand. In methods they are found by reading the code, so new
methods are covered as they come: a swapped sign, a product for a quotient, `and` for `or`, a
comparison the wrong way round, weights that are forgotten, a mask that is off by one, a learning
rate or any other hyper-parameter that is a tenth too large.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from repfl.algorithms.core.method import methods
from tests.bench.conftest import ROOT

PER_METHOD = 2
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.GtE: ast.Lt,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.Lt: ast.GtE,
}
PARTS = ("body", "head", "learnable", "norm", "stats")
MASKS = ("fed.communicated", *(f"fed.params.{part}" for part in PARTS))
SPARED = ("record", "__init__")
"""Functions that only tell, or only remember."""


@dataclass(frozen=True)
class Mistake:
    """One planted mistake: the whole text of a file that has it, and the methods by which the gate
    may find it.
    """

    methods: tuple[str, ...]
    file: Path
    text: str
    what: str
    recipes: tuple[str, ...] = ("everybody", "cohort")
    """The recipes of the gate that are asked."""


# -- in methods ------------------------------------------------------------------------------------


def sites(tree: ast.AST, rates: set[str]) -> list[ast.AST]:
    """The places in a method's functions where a mistake can be planted; `rates` are its
    hyper-parameters that are no counts.
    """
    found: list[ast.AST] = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name not in SPARED:
            nodes = [node for statement in function.body for node in ast.walk(statement)]
            asked = {id(part) for node in nodes for part in _asked(node)}
            found += [
                node
                for node in nodes
                if _is_site(node, rates)
                and not (isinstance(node, ast.Attribute) and id(node) in asked)
            ]
    return found


def _asked(node: ast.AST) -> list[ast.expr]:
    """What is only asked whether it is there: a tenth more of it is as much there."""
    if isinstance(node, ast.BoolOp):
        return node.values
    return [node.test] if isinstance(node, ast.If | ast.IfExp) else []


def _is_site(node: ast.AST, rates: set[str]) -> bool:
    if isinstance(node, ast.BinOp):
        tables = isinstance(node.right, ast.Dict)  # which are merged with `|`
        return type(node.op) in OPERATORS and not tables
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in COMPARISONS
    if isinstance(node, ast.Attribute):
        rate = node.attr in rates and ast.unparse(node.value).endswith("hp")
        return rate or ast.unparse(node) in MASKS
    return isinstance(node, ast.Call) and any(keyword.arg == "weights" for keyword in node.keywords)


class _Plant(ast.NodeTransformer):
    """Makes the mistake at one node."""

    def __init__(self, place: ast.AST) -> None:
        self.place, self.before, self.after = place, ast.unparse(place), ""

    def visit(self, node: ast.AST) -> ast.AST:
        if node is not self.place:
            return self.generic_visit(node)
        made = _mistaken(node)
        self.after = ast.unparse(made)
        return made


def _mistaken(node: ast.AST) -> ast.AST:
    if isinstance(node, ast.BinOp):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.Call):
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "weights"]
    else:
        text = ast.unparse(node)
        wrong = f"{text}.roll(1)" if text in MASKS else f"(1.1 * {text})"
        return ast.parse(wrong, mode="eval").body
    return node


def rates_of(cls: type) -> set[str]:
    """Hyper-parameters that are real numbers and not zero: a tenth more of them is a change."""
    hp = cls.HP()  # type: ignore[attr-defined]
    return {name for name, value in vars(hp).items() if isinstance(value, float) and value}


def in_methods(clone: Path) -> Iterator[Mistake]:
    """Some mistakes per method, spread evenly over its code."""
    ours = {n: e for n, e in methods().items() if e.cls.__module__.startswith("repfl.algorithms.")}
    for name, entry in sorted(ours.items()):
        file = clone / Path(inspect.getfile(entry.cls)).relative_to(ROOT)
        rates = rates_of(entry.cls)
        count = len(sites(ast.parse(file.read_text()), rates))
        spread = {count * (2 * part + 1) // (2 * PER_METHOD) for part in range(PER_METHOD)}
        for index in sorted(spread if count else ()):
            tree = ast.parse(file.read_text())
            plant = _Plant(sites(tree, rates)[index])
            text = ast.unparse(ast.fix_missing_locations(plant.visit(tree)))
            what = f"{name}: {plant.before} -> {plant.after}"
            yield Mistake((name,), file.relative_to(clone), text, what)


# -- by hand ---------------------------------------------------------------------------------------


def by_hand(clone: Path, *kinds: str) -> list[Mistake]:
    """The edits of some kinds."""
    text = Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8")
    edits = tomllib.loads(text)
    made = [_edited(clone, **edit) for kind in kinds for edit in edits[kind]]
    return [mistake for mistake in made if mistake is not None]


def _edited(
    clone: Path, file: str, new: str, method: str, old: str = "", recipes: str = "everybody cohort"
) -> Mistake | None:
    """One replacement of a text that occurs once; without a text, an addition to the end. None if
    the code has moved on, with a line that says so.
    """
    what, path = f"{file}: {old} -> {new}", clone / file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if old and (count := text.count(old)) != 1:
        print(f"left out, since its text occurs {count} times: {what}")
        return None
    whole = text.replace(old, new) if old else f"{text}\n\n{new}\n"
    return Mistake((method,), Path(file), whole, what, tuple(recipes.split()))
