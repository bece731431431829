"""Which library may be imported where: `[tool.rooms]` in pyproject.toml against the tree.

import-linter keeps the order of the layers, and its contracts name who must not. This table names
who may: a library without a row, a folder without an entry and a package without a layer are
refused, so that what is new is forbidden until somebody has thought about it. `make check` runs
`python -m tests.tidy.rooms`.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

PACKAGE = "svc_cluster"


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a module that is not the project's own."""

    path: PurePosixPath
    """Below svc_cluster/."""
    line: int
    module: str


def modules(root: Path) -> list[PurePosixPath]:
    """Every Python file of the product, by its path below svc_cluster/."""
    package = root / PACKAGE
    return sorted(
        PurePosixPath(path.relative_to(package).as_posix())
        for path in package.rglob("*.py")
        if "__pycache__" not in path.parts
    )


def foreign_imports(root: Path) -> list[Import]:
    """What the product imports from outside, wherever in a file the import stands."""
    return [
        Import(path, line, module)
        for path in modules(root)
        for line, module in imports_of_source((root / PACKAGE / path).read_text())
        if module.split(".")[0] != PACKAGE
    ]


@cache
def imports_of_source(source: str) -> list[tuple[int, str]]:
    """The lines and modules of all imports in a source, which is parsed once."""
    return list(_imports_of(ast.parse(source)))


def _imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield node.lineno, module
            case ast.Call(func=ast.Name(id="__import__")):
                yield node.lineno, "importlib"
            case _:
                pass


def breaches(root: Path) -> list[str]:
    """Every import out of its room, every row that nobody needs, every package in no layer."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]
    rooms: dict[str, list[str]] = settings["rooms"]["libraries"] | settings["rooms"]["standard"]
    imports = foreign_imports(root)
    return [
        *_strangers(imports, rooms),
        *_unused(imports, rooms),
        *_without_layer(modules(root), settings["importlinter"]),
    ]


def _strangers(imports: list[Import], rooms: dict[str, list[str]]) -> Iterator[str]:
    for each in imports:
        library = _library(each.module, rooms)
        if library not in rooms:
            if library not in sys.stdlib_module_names:
                yield f"{PACKAGE}/{each.path}:{each.line}: {library} has no row in [tool.rooms]"
        elif not any(_is_in(each.path, room) for room in rooms[library]):
            yield (
                f"{PACKAGE}/{each.path}:{each.line}: {library} may be imported in "
                f"{', '.join(rooms[library])} only"
            )


def _unused(imports: list[Import], rooms: dict[str, list[str]]) -> Iterator[str]:
    users: dict[str, list[PurePosixPath]] = {}
    for each in imports:
        users.setdefault(_library(each.module, rooms), []).append(each.path)
    for library, allowed in rooms.items():
        for room in allowed:
            if not any(_is_in(path, room) for path in users.get(library, [])):
                yield f"[tool.rooms]: nobody in {room} imports {library} any more"


def _library(module: str, rooms: dict[str, list[str]]) -> str:
    """The row that answers for a module: `google.protobuf.message` is `google.protobuf`'s."""
    return next(
        (name for name in rooms if module == name or module.startswith(f"{name}.")),
        module.split(".")[0],
    )


def _is_in(path: PurePosixPath, room: str) -> bool:
    """A room is a folder with all that is below it, or one file."""
    return path.is_relative_to(room)


def _without_layer(paths: list[PurePosixPath], linter: dict[str, Any]) -> Iterator[str]:
    """Modules that no layer of the contract "layers" holds."""
    contract = next(each for each in linter["contracts"] if each["name"] == "layers")
    layers = {name.strip() for row in contract["layers"] for name in row.split("|")}
    above = {
        name.rsplit(".", depth)[0] for name in layers for depth in range(1, name.count(".") + 1)
    }
    for path in paths:
        parts = (PACKAGE, *path.with_suffix("").parts)
        if parts[-1] == "__init__" and ".".join(parts[:-1]) in above:
            continue  # a package whose rooms have layers of their own
        if not any(".".join(parts[:depth]) in layers for depth in range(2, len(parts) + 1)):
            yield f"{PACKAGE}/{path}: stands in no layer"


if __name__ == "__main__":
    found = breaches(Path(__file__).resolve().parents[2])
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)
