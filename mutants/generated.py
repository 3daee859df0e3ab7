"""Mutants that cosmic-ray's operators make: a sample of the nodes and one of the judge, which are always the same.

Mutants that change no behaviour (annotations), or that can't be compiled, are left out.
"""

import ast
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from mutants.planting import ROOT

NODES = ("node/core", "node/tree", "node/clients/sessions.py")
JUDGE = ("model/oracle", "model/oracle/properties", "model/manifest.py", "model/runfiles.py", "model/verdict.py")
EQUIVALENT = ROOT / "mutants" / "equivalent.toml"
SEEDS = {NODES: "mutants 1", JUDGE: "judge 1"}


@dataclass(frozen=True, slots=True)
class Generated:
    """A generated mutant: one occurrence of one operator in one file."""

    file: str
    operator: str
    occurrence: int

    @property
    def name(self) -> str:
        return f"{self.file}:{self.operator.removeprefix('core/')}:{self.occurrence}"

    def text(self) -> str | None:
        """Return the mutated file; None if it does not differ in behaviour, or can't be compiled."""
        source = (ROOT / self.file).read_text(encoding="utf-8")
        try:
            mutated = mutate_code(source, get_operator(self.operator)(), self.occurrence)
        except AttributeError:  # the operator for exceptions can't replace a dotted name
            return None
        if mutated is None or not _differs(source, mutated, messages=self.file.startswith("node/")):
            return None
        return str(mutated)


def sample(count: int, room: tuple[str, ...] = NODES) -> list[Generated]:
    """Draw `count` mutants of NODES or JUDGE with a fixed seed: first the places, then for each place one of the operators
    that fit."""
    random = Random(SEEDS[room])
    places: dict[tuple[Any, ...], list[Generated]] = {}
    for file in files(room):
        for place, one in _mutants_of(file):
            places.setdefault((file, *place), []).append(one)
    order = sorted(places)
    random.shuffle(order)
    found: list[Generated] = []
    for place in order:
        if len(found) == count:
            break
        one = random.choice(places[place])
        if one.text() is not None:
            found.append(one)
    return found


def files(room: tuple[str, ...]) -> list[str]:
    """Return the files of which mutants are made, of these folders and files."""
    paths = [path for name in room for path in (sorted((ROOT / name).glob("*.py")) or [ROOT / name])]
    return [str(path.relative_to(ROOT)) for path in paths]


def _mutants_of(file: str) -> Iterator[tuple[tuple[Any, ...], Generated]]:
    """Yield all mutants of a file, each with its place."""
    nodes = list(ast_nodes(get_ast_from_path(ROOT / file)))
    for name in sorted(operator_names()):
        operator = get_operator(name)
        if operator.arguments():
            continue  # it needs arguments, so it has no occurrences of its own
        positions = [place for node in nodes for place in operator().mutation_positions(node)]
        yield from ((place, Generated(file, name, number)) for number, place in enumerate(positions))


class _WithoutInert(ast.NodeTransformer):
    """Removes from a syntax tree what has no effect on behaviour and, unless `messages`, all texts that are put together."""

    def __init__(self, messages: bool) -> None:
        self._messages = messages

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return self.generic_visit(node) if self._messages else ast.Constant("")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]:
            argument.annotation = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST | None:
        return None if node.arg in ("frozen", "gc", "slots") else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise(exc=None, cause=None)  # without the message


def _differs(source: str, mutated: str, *, messages: bool) -> bool:
    try:
        with warnings.catch_warnings(action="error"):  # `is` with a literal would fail every test
            compile(mutated, "mutant", "exec")
        trees = [ast.dump(_WithoutInert(messages).visit(ast.parse(text))) for text in (source, mutated)]
    except SyntaxError:
        return False
    return trees[0] != trees[1]


def equivalents() -> dict[str, str]:
    """Return the reasons of the mutants in the sample that are equivalent to the original, by name."""
    found: dict[str, str] = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return found
