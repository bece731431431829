"""Which names of the product nobody in the product uses, by the syntax of its files.

A name is a function, method, class, or what is assigned at the top of a module or class. One at the
top of a module is used where that module or one that imports it from there reads it. What stands in
a class is used where any file reads an attribute or passes an argument that is called so: types are
not looked at, so that what is found is certain, and what is not found may still be unused. Words of
strings count as uses (`getattr`, quoted annotations), those of docstrings do not, nor does what a
function says in its own body. Who only imports a name does not use it.

What others call by a name they gave is left out: methods of a class with a base that is not of the
product, names with two underscores, and what is registered (`@app.command("append")`).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

PACKAGE = "svc_cluster"

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Named(NamedTuple):
    """A name that a module defines: `place` is `path:name` or `path:Class.name`."""

    place: str
    name: str
    own_uses: int
    """How often its own body says it."""
    in_class: bool


class Module(NamedTuple):
    path: str
    tree: ast.Module
    uses: Counter[str]

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def unused_names(sources: Iterable[tuple[str, str]]) -> list[str]:
    """The places of names that no file uses. `sources`: paths and texts of the whole product."""
    modules: list[Module] = []
    for path, text in sources:
        tree = ast.parse(text)
        modules.append(Module(path, tree, uses_in(tree)))
    everywhere = sum((module.uses for module in modules), Counter[str]())
    known = {module.name for module in modules}
    imported = {use for module in modules for use in _imported(module, known)}
    unused: list[str] = []
    for module in modules:
        named = list(_names_in(module.tree.body, f"{module.path}:", set(_foreign(module.tree))))
        own_uses = Counter[str]()
        for each in named:
            own_uses[each.name] += each.own_uses
        for each in named:
            uses = everywhere if each.in_class else module.uses
            is_used = uses[each.name] > own_uses[each.name]
            if not is_used and (each.in_class or (module.name, each.name) not in imported):
                unused.append(each.place)
    return sorted(unused)


def uses_in(tree: ast.AST) -> Counter[str]:
    """How often each name is read below a node."""
    found: Counter[str] = Counter()
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                found[name] += 1
            case ast.keyword(arg=str(name)):
                found[name] += 1
            case ast.MatchClass(kwd_attrs=names):
                found.update(names)
            case ast.Constant(value=str(text)) if id(node) not in said:
                found.update(re.findall(r"\w+", text))
            case _:
                pass
    return found


def _imported(module: Module, known: set[str]) -> Iterator[tuple[str, str]]:
    """What the module uses of others: their names, each with the name there."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                if module.uses[each.asname or each.name]:
                    yield node.module, each.name
                    other = f"{node.module}.{each.name}"
                    if other in known:  # whatever is read may be read of that one
                        yield from ((other, name) for name in module.uses)


def _foreign(tree: ast.Module) -> Iterator[str]:
    """What a module calls the things that are not of the product."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.asname or each.name.split(".")[0] for each in names)
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] not in (
                PACKAGE,
                "typing",
                "abc",
            ):
                yield from (each.asname or each.name for each in names)
            case _:
                pass


def _names_in(
    body: Iterable[ast.stmt], where: str, foreign: set[str], *, in_class: bool = False
) -> Iterator[Named]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if not node.name.startswith("__") and not _is_registered(node):
                    own_uses = uses_in(node)[node.name]
                    yield Named(where + node.name, node.name, own_uses, in_class)
                if isinstance(node, ast.ClassDef) and not _has_foreign_base(node, foreign):
                    inside = f"{where}{node.name}."
                    yield from _names_in(node.body, inside, foreign, in_class=True)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if not name.startswith("__"):
                    yield Named(where + name, name, 0, in_class)
            case _:
                pass


def _is_registered(node: Definition) -> bool:
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
        for each in node.decorator_list
    )


def _has_foreign_base(node: ast.ClassDef, foreign: set[str]) -> bool:
    return any(re.split(r"[.\[]", ast.unparse(base))[0] in foreign for base in node.bases)


def faults_of(unused: Iterable[str], kept: Mapping[str, str]) -> list[str]:
    """What nobody uses and may not stand, and what is excepted and need not be any more."""
    found = set(unused)
    return sorted(
        [f"{place}: the product does not use it" for place in found - kept.keys()]
        + [f"{place}: take it from the list" for place in kept.keys() - found]
    )
