"""Which modules of the product import each other in a circle, while they are being imported.

What a function imports when it is called, and what only a type checker reads, is no part of one. A
module in no circle can be imported first: all that it imports is whole before it goes on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter


def circle(sources: Mapping[str, str]) -> list[str]:
    """The names of modules that import each other, the first once more at the end; empty: none do.

    `sources` are texts of all modules by their whole names, a package's by the package's.
    """
    graph = {
        name: set(_targets(name, _imported(ast.parse(text).body), sources.keys()))
        for name, text in sources.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        names: list[str] = found.args[1]
        return names
    return []


def _targets(importer: str, names: Iterable[str], modules: Set[str]) -> Iterator[str]:
    """The modules that an import of these names runs, packages above them too. Those of the
    importer's own run before it does, and need not have ended."""
    for name in names:
        parts = name.split(".")
        above = [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        found = [each for each in above if each in modules]
        yield from (each for each in found[:-1] if not f"{importer}.".startswith(f"{each}."))
        if found and found[-1] != importer:
            yield found[-1]


def _imported(block: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that are imported while a module runs, of modules and of what is in them."""
    for statement in block:
        match statement:
            case ast.Import():
                yield from (alias.name for alias in statement.names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield from (f"{module}.{alias.name}" for alias in statement.names)
            case ast.ImportFrom():
                raise AssertionError(f"line {statement.lineno}: say the module's whole name")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _imported(statement.orelse)
            case _:
                for _, inner in ast.iter_fields(statement):
                    if isinstance(inner, list):
                        yield from _imported(each for each in inner if isinstance(each, ast.stmt))
                        for handler in inner:
                            if isinstance(handler, ast.ExceptHandler | ast.match_case):
                                yield from _imported(handler.body)
